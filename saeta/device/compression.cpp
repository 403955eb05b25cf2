// The reference of compression.hpp.
#include "saeta/device/compression.hpp"

#include "saeta/device/with_width.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>

namespace saeta {
namespace {

using namespace block_format;

constexpr std::size_t words_of_block = block_words;
using numbers = std::array<std::uint64_t, words_of_block>;

/// Packs numbers of `bits` bits. All lanes are at the same bit of the same unit. Returns the checksum.
std::uint32_t pack_numbers(const numbers& from, int bits, std::uint32_t* units) {
  std::array<std::uint64_t, lanes> waiting{};
  std::array<std::uint32_t, lanes> sums{};
  for (int lane = 0; lane < lanes; ++lane) {
    sums[static_cast<std::size_t>(lane)] = checksum_of_lane(lane);
  }
  int have = 0;
  for (std::size_t word = 0; word < words_of_lane; ++word) {
    for (int shift = 0; shift < bits; shift += 32) {
      const int taken = std::min(bits - shift, 32);
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        waiting[lane] |= std::uint64_t{static_cast<std::uint32_t>(from[word * lanes + lane] >> shift)}
                         << have;
      }
      have += taken;
      if (have < 32) {
        continue;
      }
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        units[lane] = static_cast<std::uint32_t>(waiting[lane]);
        sums[lane] = mix(sums[lane], units[lane]);
        waiting[lane] >>= 32;
      }
      units += lanes;
      have -= 32;
    }
  }
  std::uint32_t sum = 0;
  for (const std::uint32_t of_lane : sums) {
    sum += of_lane;
  }
  return sum;
}

/// The other way.
std::uint32_t unpack_numbers(const std::uint32_t* units, int bits, numbers& to) {
  std::array<std::uint64_t, lanes> waiting{};
  std::array<std::uint32_t, lanes> sums{};
  for (int lane = 0; lane < lanes; ++lane) {
    sums[static_cast<std::size_t>(lane)] = checksum_of_lane(lane);
  }
  to.fill(0);
  int have = 0;
  for (std::size_t word = 0; word < words_of_lane; ++word) {
    for (int shift = 0; shift < bits; shift += 32) {
      const int taken = std::min(bits - shift, 32);
      if (have < taken) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          waiting[lane] |= std::uint64_t{units[lane]} << have;
          sums[lane] = mix(sums[lane], units[lane]);
        }
        units += lanes;
        have += 32;
      }
      const std::uint64_t mask = (std::uint64_t{1} << taken) - 1;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        to[word * lanes + lane] |= (waiting[lane] & mask) << shift;
        waiting[lane] >>= taken;
      }
      have -= taken;
    }
  }
  std::uint32_t sum = 0;
  for (const std::uint32_t of_lane : sums) {
    sum += of_lane;
  }
  return sum;
}

struct found_exceptions {
  std::array<std::uint16_t, most_exceptions> places{};
  std::size_t count = 0;
};

/// A block that is being compressed.
template <class Word>
struct source_block {
  using Signed = std::make_signed_t<Word>;

  std::array<Word, words_of_block> words;
  compressed_block header;
  numbers packed;
  found_exceptions exceptions;

  source_block(const std::byte* memory, const block_place& at) {
    const Word* from = reinterpret_cast<const Word*>(memory) + at.first;
    const auto count = static_cast<std::size_t>(at.count);
    for (std::size_t i = 0; i < count; ++i) {
      words[i] = from[static_cast<std::int64_t>(i) * at.step];
    }
    std::fill(words.begin() + at.count, words.end(), words[count - 1]);
  }

  void choose(bool floats) {
    if constexpr (sizeof(Word) == 1) {
      choose_alphabet();
    } else {
      choose_frame();
      choose_differences();
      if constexpr (sizeof(Word) == 8) {
        if (floats) {
          choose_decimals<double>();
        }
      } else if constexpr (sizeof(Word) == 4) {
        if (floats) {
          choose_decimals<float>();
        }
      }
      set_numbers();
    }
  }

  void choose_alphabet() {
    std::array<std::uint8_t, 256> number{};
    for (const Word word : words) {
      number[static_cast<std::size_t>(word)] = 1;
    }
    std::uint8_t next = 0;
    for (std::uint8_t& of_byte : number) {
      of_byte = of_byte == 0 ? of_byte : next++;
    }
    header.form = block_form::alphabet;
    header.bits = static_cast<std::uint8_t>(bits_of(static_cast<std::uint8_t>(next - 1)));
    for (std::size_t i = 0; i < words.size(); ++i) {
      packed[i] = number[static_cast<std::size_t>(words[i])];
    }
  }

  void choose_frame() {
    const auto less = [](Word a, Word b) { return static_cast<Signed>(a) < static_cast<Signed>(b); };
    const auto [least, most] = std::minmax_element(words.begin(), words.end(), less);
    header.base = *least;
    header.bits = static_cast<std::uint8_t>(bits_of(static_cast<Word>(*most - *least)));
  }

  void choose_differences() {
    Signed least = std::numeric_limits<Signed>::max();
    Signed most = std::numeric_limits<Signed>::min();
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto difference = static_cast<Signed>(static_cast<Word>(words[i] - words[i - 1]));
      least = std::min(least, difference);
      most = std::max(most, difference);
    }
    const int bits = bits_of(static_cast<Word>(static_cast<Word>(most) - static_cast<Word>(least)));
    if (bits < header.bits) {
      header = {.base = static_cast<Word>(least),
                .first = words[0],
                .form = block_form::differences,
                .bits = static_cast<std::uint8_t>(bits)};
    }
  }

  template <class Float>
  void choose_decimals() {
    int exponent = 0;
    int fewest = sample_words + 1;
    for (int tried = 0; tried <= largest_exponent<Float>; ++tried) {
      int failed = 0;
      for (std::size_t i = 0; i < sample_words; ++i) {
        std::int64_t number = 0;
        failed += number_of<Float>(words[i], power_of_ten(tried), number) ? 0 : 1;
      }
      if (failed < fewest) {
        fewest = failed;
        exponent = tried;
      }
    }
    if (fewest > most_failed) {
      return;
    }
    const double power = power_of_ten(exponent);
    std::array<std::int64_t, words_of_block> found{};
    found_exceptions left_out;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::int64_t most = std::numeric_limits<std::int64_t>::min();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (number_of<Float>(words[i], power, found[i])) {
        least = std::min(least, found[i]);
        most = std::max(most, found[i]);
      } else if (left_out.count == most_exceptions) {
        return;
      } else {
        left_out.places[left_out.count++] = static_cast<std::uint16_t>(i);
      }
    }
    compressed_block wanted{.base = static_cast<std::uint64_t>(least), .form = block_form::decimals};
    const int bits = bits_of(static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least));
    wanted.bits = static_cast<std::uint8_t>(bits);
    wanted.exponent = static_cast<std::uint8_t>(exponent);
    wanted.exceptions = static_cast<std::uint8_t>(left_out.count);
    if (bits > 8 * static_cast<int>(sizeof(Word)) || units_of(wanted) >= units_of(header)) {
      return;
    }
    header = wanted;
    exceptions = left_out;
    for (std::size_t i = 0; i < words.size(); ++i) {
      packed[i] = static_cast<std::uint64_t>(found[i]) - header.base;
    }
    for (std::size_t i = 0; i < exceptions.count; ++i) {
      packed[exceptions.places[i]] = 0;
    }
  }

  void set_numbers() {
    const auto base = static_cast<Word>(header.base);
    if (header.form == block_form::frame) {
      for (std::size_t i = 0; i < words.size(); ++i) {
        packed[i] = static_cast<Word>(words[i] - base);
      }
    } else if (header.form == block_form::differences) {
      packed[0] = 0;
      for (std::size_t i = 1; i < words.size(); ++i) {
        packed[i] = static_cast<Word>(static_cast<Word>(words[i] - words[i - 1]) - base);
      }
    }
  }

  /// Writes the units and completes the header.
  void write(std::uint32_t* units, std::int64_t block) {
    std::uint32_t sum = checksum_of_header(header, block);
    if (header.form == block_form::alphabet) {
      std::fill_n(units, alphabet_units, 0U);
      for (const Word word : words) {
        units[word / 32] |= 1U << (word % 32);
      }
      for (int unit = 0; unit < alphabet_units; ++unit) {
        sum += mix(checksum_of_lane(unit + lanes), units[unit]);
      }
      units += alphabet_units;
    }
    sum += pack_numbers(packed, header.bits, units);
    units += header.bits * lanes;
    std::uint32_t* const places = units + 2 * exceptions.count;
    for (std::size_t i = 0; i < exceptions.count; ++i) {
      const std::uint16_t place = exceptions.places[i];
      const std::uint64_t word = words[place];
      units[2 * i] = static_cast<std::uint32_t>(word);
      units[2 * i + 1] = static_cast<std::uint32_t>(word >> 32);
      if (i % 2 == 0) {
        places[i / 2] = place;
      } else {
        places[i / 2] |= std::uint32_t{place} << 16;
      }
      sum += checksum_of_exception(word, place);
    }
    header.checksum = sum;
  }
};

template <class Word>
void compress_block(const compress_work& work, const word_run& run, std::int64_t block) {
  source_block<Word> made(work.source + run.first_byte, place_in(run, block - run.first_block));
  made.choose(run.floats);
  const std::uint64_t offset = *work.needed;
  *work.needed += units_of(made.header);
  if (*work.needed <= work.capacity) {
    made.header.offset = static_cast<std::uint32_t>(offset);
    made.write(work.payload + offset, block);
  }
  work.headers[block] = made.header;
}

/// Writes the words of a block. False if it is damaged.
template <class Word>
bool decompress_block(const decompress_work& work, const word_run& run, std::int64_t block) {
  const compressed_block& header = work.headers[block];
  if (!well_formed(header, sizeof(Word), work.units)) {
    return false;
  }
  const std::uint32_t* units = work.payload + header.offset;
  std::uint32_t sum = checksum_of_header(header, block);
  std::array<std::uint8_t, 256> alphabet{};
  if (header.form == block_form::alphabet) {
    std::size_t known = 0;
    for (int unit = 0; unit < alphabet_units; ++unit) {
      sum += mix(checksum_of_lane(unit + lanes), units[unit]);
      for (std::uint32_t left = units[unit]; left != 0; left &= left - 1) {
        alphabet[known++] = static_cast<std::uint8_t>(unit * 32 + std::countr_zero(left));
      }
    }
    units += alphabet_units;
  }
  numbers found; // NOLINT(cppcoreguidelines-pro-type-member-init): unpack_numbers fills it
  sum += unpack_numbers(units, header.bits, found);
  units += header.bits * lanes;
  const std::uint32_t* const places = units + std::size_t{2} * header.exceptions;
  std::array<Word, words_of_block> words; // NOLINT(cppcoreguidelines-pro-type-member-init)
  const auto base = static_cast<Word>(header.base);
  auto last = static_cast<Word>(header.first - header.base);
  const double power = power_of_ten(header.exponent);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (header.form == block_form::frame) {
      words[i] = static_cast<Word>(found[i] + base);
    } else if (header.form == block_form::differences) {
      last = static_cast<Word>(last + static_cast<Word>(found[i]) + base);
      words[i] = last;
    } else if (header.form == block_form::alphabet) {
      words[i] = static_cast<Word>(alphabet[found[i]]);
    } else if constexpr (sizeof(Word) == 8) {
      words[i] =
          std::bit_cast<Word>(float_of<double>(static_cast<std::int64_t>(found[i] + header.base), power));
    } else if constexpr (sizeof(Word) == 4) {
      words[i] =
          std::bit_cast<Word>(float_of<float>(static_cast<std::int64_t>(found[i] + header.base), power));
    }
  }
  for (std::size_t i = 0; i < header.exceptions; ++i) {
    const std::uint32_t place = places[i / 2] >> (i % 2 == 0 ? 0 : 16) & 0xffffU;
    const std::uint64_t word = units[2 * i] | std::uint64_t{units[2 * i + 1]} << 32;
    sum += checksum_of_exception(word, place);
    words[place % words.size()] = static_cast<Word>(word);
  }
  if (sum != header.checksum) {
    return false;
  }
  const block_place at = place_in(run, block - run.first_block);
  Word* const target = reinterpret_cast<Word*>(work.target + run.first_byte) + at.first;
  for (std::size_t i = 0; i < static_cast<std::size_t>(at.count); ++i) {
    target[static_cast<std::int64_t>(i) * at.step] = words[i];
  }
  return true;
}

} // namespace

void compress_now(const compress_work& work) noexcept {
  *work.needed = 0;
  for (const word_run& run : std::span(work.runs, static_cast<std::size_t>(work.run_count))) {
    with_width(run.width, [&]<class Word>(Word) {
      for (std::int64_t block = 0; block < blocks_of(run); ++block) {
        compress_block<Word>(work, run, run.first_block + block);
      }
    });
  }
}

void decompress_now(const decompress_work& work) noexcept {
  for (const word_run& run : std::span(work.runs, static_cast<std::size_t>(work.run_count))) {
    with_width(run.width, [&]<class Word>(Word) {
      for (std::int64_t block = 0; block < blocks_of(run); ++block) {
        if (!decompress_block<Word>(work, run, run.first_block + block)) {
          ++*work.damaged;
        }
      }
    });
  }
}

} // namespace saeta
