// Compresses values of a fixed width in blocks, in the kernels of the host and of a GPU.
//
// What      A block has up to 1,024 words of 1, 2, 4 or 8 bytes. It is stored in the way that takes the fewest
//           bytes: as distances from the smallest value, as differences of neighbours, floats of few digits as
//           integers with a decimal exponent and exceptions (ALP: Afroozeh, Kuffó, Boncz, SIGMOD 2023), bytes
//           as numbers of an alphabet. The results have the same number of bits each. Values of 16 and 32
//           bytes are several interleaved words, and each block has words of one place.
// Layout    32 lanes share a block: lane l has the words l, l + 32, l + 64 and so on, and packs its own 32
//           numbers into as many 32-bit units as a number has bits. Unit j of lane l is at 32 j + l, so that a
//           warp reads and writes whole lines. Blocks lie in any order; headers say where.
// Damage    A block has a checksum over its header and its units. One that fails it is counted, and its words are
//           undefined. Whatever the bytes are, nothing is read or written outside of the given memory.
// Thread    Pure functions. Both compilers compile what is marked SAETA_ANY_DEVICE.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/equal_values.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace SAETA_EXPORT saeta {

/// A stretch of memory with words of one width.
struct word_run {
  std::int64_t first_byte = 0;  ///< from the beginning of the window; a multiple of the width
  std::int64_t words = 0;       ///< a multiple of the stride
  std::int64_t first_block = 0; ///< number of the blocks of earlier runs
  std::int32_t width = 1;       ///< bytes of a word: 1, 2, 4 or 8
  std::int32_t stride = 1;      ///< words of a value
  bool floats = false;          ///< of 4 or 8 bytes
};

/// How the words of a block are stored.
enum class block_form : std::uint8_t { frame, differences, decimals, alphabet };

/// The header of a block.
struct compressed_block {
  std::uint64_t base = 0;     ///< what is added to every number
  std::uint64_t first = 0;    ///< differences: the first word
  std::uint32_t offset = 0;   ///< of the units, in the payload of the window
  std::uint32_t checksum = 0; ///< of everything but itself
  block_form form = block_form::frame;
  std::uint8_t bits = 0;       ///< of a number
  std::uint8_t exponent = 0;   ///< decimals: the words are numbers / 10^exponent
  std::uint8_t exceptions = 0; ///< decimals: words that are stored as they are
  std::uint32_t unused = 0;
};

/// Compresses a window.
struct compress_work {
  const std::byte* source = nullptr; ///< aligned to 8
  std::size_t bytes = 0;             ///< from there on, which the runs are in
  const word_run* runs = nullptr;    ///< device memory
  std::int64_t run_count = 0;
  std::int64_t blocks = 0; ///< of all runs
  compressed_block* headers = nullptr;
  std::uint32_t* payload = nullptr;
  std::uint64_t capacity = 0; ///< units of the payload
  std::uint64_t* needed =
      nullptr; ///< gets the units that all blocks take; more than the capacity: blocks are missing
};

/// Decompresses a window.
struct decompress_work {
  const compressed_block* headers = nullptr;
  const std::uint32_t* payload = nullptr;
  std::uint64_t units = 0;        ///< of the payload
  const word_run* runs = nullptr; ///< device memory
  std::int64_t run_count = 0;
  std::int64_t blocks = 0;
  std::byte* target = nullptr;      ///< aligned to 8
  std::size_t bytes = 0;            ///< from there on, which the runs are in
  std::uint32_t* damaged = nullptr; ///< the number of damaged blocks is added
};

/// The reference: plain loops, for a host and for a deferring backend.
void compress_now(const compress_work& work) noexcept;
void decompress_now(const decompress_work& work) noexcept;

namespace block_format {

inline constexpr std::int64_t block_words = 1024;
inline constexpr int lanes = 32;
inline constexpr int words_of_lane = 32;
inline constexpr int most_exceptions = 64;
inline constexpr int alphabet_units = 8; ///< a bit for each of 256 bytes
inline constexpr int sample_words = 32;  ///< the first ones, by which the exponent is chosen
inline constexpr int most_failed = 4;    ///< of the sample

SAETA_ANY_DEVICE constexpr std::int64_t blocks_of(const word_run& run) noexcept {
  return (run.words / run.stride + block_words - 1) / block_words * run.stride;
}

/// The words of one block: `count` words from `first` on, `step` apart.
struct block_place {
  std::int64_t first = 0;
  std::int64_t step = 1;
  int count = 0;
};

/// @param block  number in the run
SAETA_ANY_DEVICE constexpr block_place place_in(const word_run& run, std::int64_t block) noexcept {
  const std::int64_t group = block / run.stride * block_words;
  const std::int64_t left = run.words / run.stride - group;
  return {group * run.stride + block % run.stride, run.stride,
          static_cast<int>(left < block_words ? left : block_words)};
}

/// The number of the run that has a block.
SAETA_ANY_DEVICE inline std::int64_t run_of(const word_run* runs, std::int64_t count,
                                            std::int64_t block) noexcept {
  return first_index(count, [&](std::int64_t run) { return runs[run].first_block > block; }) - 1;
}

/// The bits of a number up to `range`.
SAETA_ANY_DEVICE constexpr int bits_of(std::uint64_t range) noexcept {
  int bits = 0;
  for (int half = 32; half != 0; half /= 2) {
    if ((range >> half) != 0) {
      bits += half;
      range >>= half;
    }
  }
  return bits + static_cast<int>(range);
}

/// The units of a block that is well formed.
SAETA_ANY_DEVICE constexpr std::uint32_t units_of(const compressed_block& block) noexcept {
  const std::uint32_t alphabet = block.form == block_form::alphabet ? alphabet_units : 0;
  // An exception has a word in two units, and its place in half of one.
  const std::uint32_t exceptions = block.exceptions * 2U + (block.exceptions + 1U) / 2U;
  return alphabet + block.bits * static_cast<std::uint32_t>(lanes) + exceptions;
}

SAETA_ANY_DEVICE constexpr bool well_formed(const compressed_block& block, int width,
                                            std::uint64_t units) noexcept {
  const bool decimals = block.form == block_form::decimals;
  return block.form <= block_form::alphabet && block.bits <= 8 * width &&
         (block.form != block_form::alphabet || width == 1) &&
         (decimals ? width >= 4 : block.exceptions == 0) && block.exceptions <= most_exceptions &&
         block.exponent <= 15 && std::uint64_t{block.offset} + units_of(block) <= units;
}

/// Adds a unit to the checksum of a lane. Each step is a bijection, so that one changed unit is always found.
SAETA_ANY_DEVICE constexpr std::uint32_t mix(std::uint32_t sum, std::uint32_t unit) noexcept {
  sum = (sum ^ unit) * 0x9e3779b1U;
  return sum ^ (sum >> 15U);
}

/// What an exception adds to the checksum of its block, whichever lane has it.
SAETA_ANY_DEVICE constexpr std::uint32_t checksum_of_exception(std::uint64_t word,
                                                               std::uint32_t place) noexcept {
  return mix(mix(mix(place + 1, static_cast<std::uint32_t>(word)), static_cast<std::uint32_t>(word >> 32U)),
             3);
}

/// What the header adds. @param block  its number: a block in the place of another one is found
SAETA_ANY_DEVICE constexpr std::uint32_t checksum_of_header(const compressed_block& header,
                                                            std::int64_t block) noexcept {
  std::uint32_t sum = mix(static_cast<std::uint32_t>(block), header.offset);
  sum =
      mix(mix(sum, static_cast<std::uint32_t>(header.base)), static_cast<std::uint32_t>(header.base >> 32U));
  sum = mix(mix(sum, static_cast<std::uint32_t>(header.first)),
            static_cast<std::uint32_t>(header.first >> 32U));
  const std::uint32_t fields = static_cast<std::uint32_t>(header.form) | std::uint32_t{header.bits} << 8U |
                               std::uint32_t{header.exponent} << 16U |
                               std::uint32_t{header.exceptions} << 24U;
  return mix(mix(sum, fields), header.unused);
}

/// The number of a lane as it starts a checksum: equal units of two lanes add different sums.
SAETA_ANY_DEVICE constexpr std::uint32_t checksum_of_lane(int lane) noexcept {
  return mix(0x85ebca6bU, static_cast<std::uint32_t>(lane));
}

/// 10^exponent, exact.
SAETA_ANY_DEVICE constexpr double power_of_ten(int exponent) noexcept {
  double power = 1;
  for (int i = 0; i < exponent; ++i) {
    power *= 10;
  }
  return power;
}

template <class Float>
inline constexpr int largest_exponent = sizeof(Float) == 8 ? 14 : 6;

/// The float of a number. Compressing and decompressing call this one function, so they agree.
template <class Float>
SAETA_ANY_DEVICE inline Float float_of(std::int64_t number, double power) noexcept {
  return static_cast<Float>(static_cast<double>(number) / power);
}

/// Finds the number of a float. False if there is none with the same bits, as for NaN and -0.0.
template <class Float, class Word>
SAETA_ANY_DEVICE inline bool number_of(Word word, double power, std::int64_t& number) noexcept {
  constexpr double limit = 2251799813685248.0; // 2^51: the sum below rounds to an integer
  Float value;
  static_assert(sizeof value == sizeof word);
  __builtin_memcpy(&value, &word, sizeof value);
  const double scaled = static_cast<double>(value) * power;
  number = 0;
  if (!(scaled < limit && scaled > -limit)) {
    return false;
  }
  number = static_cast<std::int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
  const Float back = float_of<Float>(number, power);
  Word bits;
  __builtin_memcpy(&bits, &back, sizeof bits);
  return bits == word;
}

} // namespace block_format
} // namespace saeta
