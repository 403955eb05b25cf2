// Compresses and decompresses blocks of words, a warp for each block (device/compression.hpp).
//
// A lane keeps its 32 words in registers, so that memory is read once. A warp takes the place of its units with
// one atomic addition, when it knows how many there are.
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/device/compression.hpp"

#include <limits>
#include <type_traits>

namespace saeta::cuda {
namespace {

using namespace block_format;

constexpr unsigned whole_warp = 0xffffffffU;
constexpr int warps = block_threads / lanes;
template <class T>
constexpr T largest_of = std::numeric_limits<T>::max();
template <class T>
constexpr T smallest_of = std::numeric_limits<T>::min();

__device__ int lane_here() { return static_cast<int>(threadIdx.x) % lanes; }

template <class T>
__device__ T least_of_warp(T value) {
  for (int step = lanes / 2; step != 0; step /= 2) {
    value = min(value, __shfl_xor_sync(whole_warp, value, step));
  }
  return value;
}
template <class T>
__device__ T most_of_warp(T value) {
  for (int step = lanes / 2; step != 0; step /= 2) {
    value = max(value, __shfl_xor_sync(whole_warp, value, step));
  }
  return value;
}
template <class T>
__device__ T sum_of_warp(T value) {
  for (int step = lanes / 2; step != 0; step /= 2) {
    value += __shfl_xor_sync(whole_warp, value, step);
  }
  return value;
}

/// Packs the numbers of a lane into its units, and sums them up.
struct lane_writer {
  std::uint32_t* units; ///< the lane's first one
  std::uint32_t sum;
  std::uint64_t waiting = 0;
  int have = 0;

  __device__ void push(std::uint64_t number, int bits) {
    push_some(static_cast<std::uint32_t>(number), bits < 32 ? bits : 32);
    if (bits > 32) {
      push_some(static_cast<std::uint32_t>(number >> 32U), bits - 32);
    }
  }
  __device__ void push_some(std::uint32_t number, int bits) {
    waiting |= std::uint64_t{number} << have;
    have += bits;
    if (have >= 32) {
      const auto unit = static_cast<std::uint32_t>(waiting);
      *units = unit;
      units += lanes;
      sum = mix(sum, unit);
      waiting >>= 32U;
      have -= 32;
    }
  }
};

struct lane_reader {
  const std::uint32_t* units;
  std::uint32_t sum;
  std::uint64_t waiting = 0;
  int have = 0;

  __device__ std::uint64_t pull(int bits) {
    const std::uint64_t low = pull_some(bits < 32 ? bits : 32);
    return bits > 32 ? low | std::uint64_t{pull_some(bits - 32)} << 32U : low;
  }
  __device__ std::uint32_t pull_some(int bits) {
    if (have < bits) {
      const std::uint32_t unit = *units;
      units += lanes;
      sum = mix(sum, unit);
      waiting |= std::uint64_t{unit} << have;
      have += 32;
    }
    const auto number = static_cast<std::uint32_t>(waiting & ((std::uint64_t{1} << bits) - 1));
    waiting >>= bits;
    have -= bits;
    return number;
  }
};

/// The alphabet of each warp, in shared memory: which bytes there are, and how many before each 32 of them.
struct alphabet {
  std::uint32_t present[alphabet_units];
  std::uint32_t before[alphabet_units];
  std::uint8_t bytes[256];

  /// @return the number of bytes. `present` is set.
  __device__ int count_bytes() {
    const int lane = lane_here();
    std::uint32_t total = 0;
    for (int unit = 0; unit < alphabet_units; ++unit) {
      if (lane == 0) {
        before[unit] = total;
      }
      total += static_cast<std::uint32_t>(__popc(present[unit]));
    }
    __syncwarp();
    return static_cast<int>(total);
  }
  [[nodiscard]] __device__ std::uint32_t number_of_byte(std::uint32_t byte) const {
    const std::uint32_t lower = present[byte / 32] & ((1U << byte % 32) - 1);
    return before[byte / 32] + static_cast<std::uint32_t>(__popc(lower));
  }
};

/// A block that a warp compresses.
template <class Word>
struct warp_block {
  using Signed = std::make_signed_t<Word>;
  static constexpr bool is_byte = sizeof(Word) == 1;

  Word words[words_of_lane];
  compressed_block header{};
  std::uint32_t left_out = 0; ///< bit k: word k of this lane is an exception

  __device__ void load(const std::byte* memory, const block_place& at) {
    const Word* const from = reinterpret_cast<const Word*>(memory) + at.first;
#pragma unroll
    for (int k = 0; k < words_of_lane; ++k) {
      words[k] = from[min(k * lanes + lane_here(), at.count - 1) * at.step];
    }
  }

  __device__ void choose_frame() {
    auto least = static_cast<Signed>(words[0]);
    auto most = least;
#pragma unroll
    for (int k = 1; k < words_of_lane; ++k) {
      least = min(least, static_cast<Signed>(words[k]));
      most = max(most, static_cast<Signed>(words[k]));
    }
    set_range(block_form::frame, least, most);
  }

  __device__ void set_range(block_form form, Signed lane_least, Signed lane_most) {
    using Wide = std::conditional_t<sizeof(Word) == 8, long long, int>;
    const auto least = static_cast<Word>(least_of_warp(static_cast<Wide>(lane_least)));
    const auto most = static_cast<Word>(most_of_warp(static_cast<Wide>(lane_most)));
    const int bits = bits_of(static_cast<Word>(most - least));
    if (form == block_form::frame || bits < header.bits) {
      header = {};
      header.base = least;
      header.form = form;
      header.bits = static_cast<std::uint8_t>(bits);
    }
  }

  /// The word before word k of this lane. @param last  word k - 1 of the last lane, on every lane
  [[nodiscard]] __device__ Word before(int k, Word last) const {
    const Word neighbour = __shfl_up_sync(whole_warp, words[k], 1);
    return lane_here() == 0 ? last : neighbour;
  }

  __device__ void choose_differences() {
    Signed least = largest_of<Signed>;
    Signed most = smallest_of<Signed>;
    Word last = 0;
#pragma unroll
    for (int k = 0; k < words_of_lane; ++k) {
      const auto difference = static_cast<Signed>(static_cast<Word>(words[k] - before(k, last)));
      if (k != 0 || lane_here() != 0) {
        least = min(least, difference);
        most = max(most, difference);
      }
      last = __shfl_sync(whole_warp, words[k], lanes - 1);
    }
    set_range(block_form::differences, least, most);
    if (header.form == block_form::differences) {
      header.first = __shfl_sync(whole_warp, words[0], 0);
    }
  }

  template <class Float>
  __device__ void choose_decimals() {
    int exponent = 0;
    int fewest = sample_words + 1;
    for (int tried = 0; tried <= largest_exponent<Float>; ++tried) {
      std::int64_t number = 0;
      const bool fits = number_of<Float>(words[0], power_of_ten(tried), number);
      const int failed = __popc(__ballot_sync(whole_warp, !fits));
      if (failed < fewest) {
        fewest = failed;
        exponent = tried;
      }
    }
    if (fewest > most_failed) {
      return;
    }
    const double power = power_of_ten(exponent);
    long long least = largest_of<long long>;
    long long most = smallest_of<long long>;
    std::uint32_t failed = 0;
#pragma unroll
    for (int k = 0; k < words_of_lane; ++k) {
      std::int64_t number = 0;
      if (number_of<Float>(words[k], power, number)) {
        least = min(least, static_cast<long long>(number));
        most = max(most, static_cast<long long>(number));
      } else {
        failed |= 1U << k;
      }
    }
    const int exceptions = sum_of_warp(__popc(failed));
    if (exceptions > most_exceptions) {
      return;
    }
    least = least_of_warp(least);
    most = most_of_warp(most);
    const int bits = bits_of(static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least));
    compressed_block wanted{};
    wanted.base = static_cast<std::uint64_t>(least);
    wanted.form = block_form::decimals;
    wanted.bits = static_cast<std::uint8_t>(bits);
    wanted.exponent = static_cast<std::uint8_t>(exponent);
    wanted.exceptions = static_cast<std::uint8_t>(exceptions);
    if (bits <= 8 * static_cast<int>(sizeof(Word)) && units_of(wanted) < units_of(header)) {
      header = wanted;
      left_out = failed;
    }
  }

  __device__ void choose_alphabet(alphabet& known) {
    const int lane = lane_here();
#pragma unroll
    for (int unit = 0; unit < alphabet_units; ++unit) {
      std::uint32_t present = 0;
#pragma unroll
      for (int k = 0; k < words_of_lane; ++k) {
        present |= words[k] / 32 == unit ? 1U << words[k] % 32 : 0U;
      }
      for (int step = lanes / 2; step != 0; step /= 2) {
        present |= __shfl_xor_sync(whole_warp, present, step);
      }
      if (lane == 0) {
        known.present[unit] = present;
      }
    }
    __syncwarp();
    header.form = block_form::alphabet;
    header.bits = static_cast<std::uint8_t>(bits_of(static_cast<std::uint64_t>(known.count_bytes() - 1)));
  }

  /// Writes the units and returns this lane's part of the checksum.
  __device__ std::uint32_t write(std::uint32_t* units, const alphabet& known) const {
    const int lane = lane_here();
    std::uint32_t sum = 0;
    if constexpr (is_byte) {
      if (lane < alphabet_units) {
        units[lane] = known.present[lane];
        sum = mix(checksum_of_lane(lane + lanes), units[lane]);
      }
      units += alphabet_units;
    }
    lane_writer writer{units + lane, checksum_of_lane(lane)};
    const auto base = static_cast<Word>(header.base);
    const int bits = header.bits;
    switch (header.form) {
    case block_form::frame:
#pragma unroll
      for (int k = 0; k < words_of_lane; ++k) {
        writer.push(static_cast<Word>(words[k] - base), bits);
      }
      break;
    case block_form::differences: {
      Word last = 0;
#pragma unroll
      for (int k = 0; k < words_of_lane; ++k) {
        const auto difference = static_cast<Word>(words[k] - before(k, last));
        writer.push(k == 0 && lane == 0 ? Word{0} : static_cast<Word>(difference - base), bits);
        last = __shfl_sync(whole_warp, words[k], lanes - 1);
      }
      break;
    }
    case block_form::decimals:
      if constexpr (sizeof(Word) >= 4) {
        using Float = std::conditional_t<sizeof(Word) == 8, double, float>;
        const double power = power_of_ten(header.exponent);
#pragma unroll
        for (int k = 0; k < words_of_lane; ++k) {
          std::int64_t number = 0;
          const bool fits = number_of<Float>(words[k], power, number);
          writer.push(fits ? static_cast<std::uint64_t>(number) - header.base : 0, bits);
        }
      }
      break;
    case block_form::alphabet:
      if constexpr (is_byte) {
#pragma unroll
        for (int k = 0; k < words_of_lane; ++k) {
          writer.push(known.number_of_byte(words[k]), bits);
        }
      }
      break;
    }
    return sum + writer.sum + write_exceptions(units + bits * lanes);
  }

  __device__ std::uint32_t write_exceptions(std::uint32_t* units) const {
    std::uint32_t sum = 0;
    if (header.exceptions == 0) {
      return sum;
    }
    auto* const places = reinterpret_cast<std::uint16_t*>(units + 2 * header.exceptions);
    if (lane_here() == 0 && header.exceptions % 2 != 0) {
      places[header.exceptions] = 0; // the other half of the last unit
    }
    int written = 0;
#pragma unroll
    for (int k = 0; k < words_of_lane; ++k) {
      const bool mine = (left_out >> k & 1U) != 0;
      const unsigned all = __ballot_sync(whole_warp, mine);
      if (mine) {
        const int number = written + __popc(all & ((1U << lane_here()) - 1));
        const auto place = static_cast<std::uint32_t>(k * lanes + lane_here());
        const std::uint64_t word = words[k];
        units[2 * number] = static_cast<std::uint32_t>(word);
        units[2 * number + 1] = static_cast<std::uint32_t>(word >> 32U);
        places[number] = static_cast<std::uint16_t>(place);
        sum += checksum_of_exception(word, place);
      }
      written += __popc(all);
    }
    return sum;
  }
};

template <class Word>
__device__ void compress_block(const compress_work& work, const word_run& run, std::int64_t block,
                               alphabet& known) {
  warp_block<Word> made;
  made.load(work.source + run.first_byte, place_in(run, block - run.first_block));
  if constexpr (sizeof(Word) == 1) {
    made.choose_alphabet(known);
  } else {
    made.choose_frame();
    made.choose_differences();
    if constexpr (sizeof(Word) >= 4) {
      if (run.floats) {
        made.template choose_decimals<std::conditional_t<sizeof(Word) == 8, double, float>>();
      }
    }
  }
  const std::uint32_t units = units_of(made.header);
  unsigned long long offset = 0;
  if (lane_here() == 0) {
    offset = atomicAdd(reinterpret_cast<unsigned long long*>(work.needed), units);
  }
  offset = __shfl_sync(whole_warp, offset, 0);
  if (offset + units <= work.capacity) {
    made.header.offset = static_cast<std::uint32_t>(offset);
    const std::uint32_t sum = sum_of_warp(made.write(work.payload + offset, known));
    made.header.checksum = sum + checksum_of_header(made.header, block);
  }
  if (lane_here() == 0) {
    work.headers[block] = made.header;
  }
  __syncwarp(); // `known` is free again
}

/// Calls `run` with a word of the width of a run.
template <class Run>
__device__ void with_word(std::int32_t width, const Run& run) {
  switch (width) {
  case 8:
    return run(std::uint64_t{});
  case 4:
    return run(std::uint32_t{});
  case 2:
    return run(std::uint16_t{});
  default:
    return run(std::uint8_t{});
  }
}

__global__ void __launch_bounds__(block_threads) compress_blocks(const __grid_constant__ compress_work work) {
  __shared__ alphabet alphabets[warps];
  alphabet& known = alphabets[threadIdx.x / lanes];
  for (std::int64_t block = grid_thread() / lanes; block < work.blocks; block += grid_threads() / lanes) {
    const word_run run = work.runs[run_of(work.runs, work.run_count, block)];
    with_word(run.width, [&](auto word) { compress_block<decltype(word)>(work, run, block, known); });
  }
}

/// Reads the alphabet of a block. Returns this lane's part of the checksum.
__device__ std::uint32_t read_alphabet(const std::uint32_t* units, alphabet& known) {
  const int lane = lane_here();
  std::uint32_t sum = 0;
  if (lane < alphabet_units) {
    known.present[lane] = units[lane];
    sum = mix(checksum_of_lane(lane + lanes), units[lane]);
  }
  __syncwarp();
  static_cast<void>(known.count_bytes());
  for (int unit = 0; unit < alphabet_units; ++unit) {
    const auto byte = static_cast<std::uint32_t>(unit * lanes + lane);
    if ((known.present[unit] >> lane & 1U) != 0) {
      known.bytes[known.number_of_byte(byte)] = static_cast<std::uint8_t>(byte);
    }
  }
  __syncwarp();
  return sum;
}

/// The words of a block that a warp decompresses. Each lane writes its own.
template <class Word>
struct warp_target {
  Word* first; ///< the lane's
  std::int64_t step;
  int left; ///< words from the lane's first one on

  __device__ warp_target(std::byte* memory, const block_place& at)
      : first(reinterpret_cast<Word*>(memory) + at.first + lane_here() * at.step), step(at.step),
        left(at.count - lane_here()) {}

  __device__ void set(int k, Word word) const {
    if (k * lanes < left) {
      first[k * lanes * step] = word;
    }
  }
};

/// Writes the words that the numbers of this lane stand for.
template <class Word>
__device__ void write_words(const compressed_block& header, lane_reader& reader, const alphabet& known,
                            const warp_target<Word>& target) {
  const auto base = static_cast<Word>(header.base);
  const int bits = header.bits;
  if (header.form == block_form::frame) {
#pragma unroll 4
    for (int k = 0; k < words_of_lane; ++k) {
      target.set(k, static_cast<Word>(static_cast<Word>(reader.pull(bits)) + base));
    }
  } else if (header.form == block_form::differences) {
    const int lane = lane_here();
    auto last = static_cast<Word>(header.first - header.base);
#pragma unroll 4
    for (int k = 0; k < words_of_lane; ++k) {
      auto word = static_cast<Word>(static_cast<Word>(reader.pull(bits)) + base);
      for (int step = 1; step < lanes; step *= 2) {
        const Word other = __shfl_up_sync(whole_warp, word, step);
        word = static_cast<Word>(word + (lane >= step ? other : Word{0}));
      }
      word = static_cast<Word>(word + last);
      target.set(k, word);
      last = __shfl_sync(whole_warp, word, lanes - 1);
    }
  } else if constexpr (sizeof(Word) >= 4) {
    using Float = std::conditional_t<sizeof(Word) == 8, double, float>;
    const double power = power_of_ten(header.exponent);
#pragma unroll 4
    for (int k = 0; k < words_of_lane; ++k) {
      const Float value = float_of<Float>(static_cast<std::int64_t>(reader.pull(bits) + header.base), power);
      Word word;
      memcpy(&word, &value, sizeof value);
      target.set(k, word);
    }
  } else if constexpr (sizeof(Word) == 1) {
#pragma unroll 4
    for (int k = 0; k < words_of_lane; ++k) {
      target.set(k, known.bytes[reader.pull(bits)]);
    }
  }
}

template <class Word>
__device__ void decompress_block(const decompress_work& work, const word_run& run, std::int64_t block,
                                 alphabet& known) {
  const compressed_block header = work.headers[block];
  const int lane = lane_here();
  if (!well_formed(header, sizeof(Word), work.units)) {
    if (lane == 0) {
      atomicAdd(work.damaged, 1U);
    }
    return;
  }
  const block_place at = place_in(run, block - run.first_block);
  const std::uint32_t* units = work.payload + header.offset;
  std::uint32_t sum = 0;
  if (header.form == block_form::alphabet) {
    sum = read_alphabet(units, known);
    units += alphabet_units;
  }
  lane_reader reader{units + lane, checksum_of_lane(lane)};
  write_words(header, reader, known, warp_target<Word>(work.target + run.first_byte, at));
  sum += reader.sum;
  __syncwarp(); // exceptions come after the words in their places, and `known` is free again
  units += header.bits * lanes;
  const auto* const places = reinterpret_cast<const std::uint16_t*>(units + 2 * header.exceptions);
  Word* const target = reinterpret_cast<Word*>(work.target + run.first_byte) + at.first;
  for (int number = lane; number < header.exceptions; number += lanes) {
    const std::uint64_t word = units[2 * number] | std::uint64_t{units[2 * number + 1]} << 32U;
    const int place = places[number];
    sum += checksum_of_exception(word, static_cast<std::uint32_t>(place));
    if (place < at.count) {
      target[place * at.step] = static_cast<Word>(word);
    }
  }
  if (sum_of_warp(sum) + checksum_of_header(header, block) != header.checksum && lane == 0) {
    atomicAdd(work.damaged, 1U);
  }
}

__global__ void __launch_bounds__(block_threads)
    decompress_blocks(const __grid_constant__ decompress_work work) {
  __shared__ alphabet alphabets[warps];
  alphabet& known = alphabets[threadIdx.x / lanes];
  for (std::int64_t block = grid_thread() / lanes; block < work.blocks; block += grid_threads() / lanes) {
    const word_run run = work.runs[run_of(work.runs, work.run_count, block)];
    with_word(run.width, [&](auto word) { decompress_block<decltype(word)>(work, run, block, known); });
  }
}

const kernel_module kernels_here(compress_blocks);

/// The items of `launch_site::launch` for a warp a block.
std::int64_t threads_of(std::int64_t blocks) { return blocks * lanes * unroll; }

} // namespace

void compress(stream_handle stream, const compress_work& work) {
  const launch_site site(work.needed, stream);
  site.zero(work.needed, sizeof *work.needed);
  if (work.blocks != 0) {
    site.launch("compress", compress_blocks, threads_of(work.blocks), work);
  }
}

void decompress(stream_handle stream, const decompress_work& work) {
  if (work.blocks != 0) {
    const launch_site site(work.damaged, stream);
    site.launch("decompress", decompress_blocks, threads_of(work.blocks), work);
  }
}

} // namespace saeta::cuda
