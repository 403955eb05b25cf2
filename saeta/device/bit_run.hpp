// Bits at any offset, in words of 64.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace saeta {

static_assert(std::endian::native == std::endian::little, "bitmaps are read a word at a time");

inline constexpr std::int64_t word_bits = 64;

inline std::uint64_t load_word(const std::uint8_t* from) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

inline void store_word(std::uint8_t* to, std::uint64_t word) noexcept { std::memcpy(to, &word, sizeof word); }

/// A run of bits at any offset. Reads 64 bits at a time and touches no byte that has none of them.
class bit_run {
public:
  bit_run(const std::uint8_t* source, std::int64_t bit_offset, std::int64_t length) noexcept
      : first_(source + bit_offset / 8), shift_(static_cast<unsigned>(bit_offset % 8)), length_(length) {}

  [[nodiscard]] std::int64_t whole_words() const noexcept { return length_ / word_bits; }
  [[nodiscard]] std::int64_t tail_bits() const noexcept { return length_ % word_bits; }

  /// Bits [64 i, 64 i + 64), i < whole_words().
  [[nodiscard]] std::uint64_t word(std::int64_t i) const noexcept {
    const std::uint8_t* const from = first_ + i * 8;
    const std::uint64_t low = load_word(from);
    return shift_ == 0 ? low : (low >> shift_) | (std::uint64_t{from[8]} << (64 - shift_));
  }

  /// The bits after the whole words. The rest of the word is zero.
  [[nodiscard]] std::uint64_t tail() const noexcept {
    const std::uint8_t* const from = first_ + whole_words() * 8;
    std::uint64_t bits = 0;
    for (unsigned taken = 0, byte = 0; taken < static_cast<unsigned>(tail_bits()); ++byte) {
      const unsigned skipped = byte == 0 ? shift_ : 0;
      bits |= (std::uint64_t{from[byte]} >> skipped) << taken;
      taken += 8 - skipped;
    }
    return bits & ((std::uint64_t{1} << tail_bits()) - 1);
  }

private:
  const std::uint8_t* first_;
  unsigned shift_;
  std::int64_t length_;
};

/// The number of 1 bits. `std::popcount` calls a table lookup if the compiler may not use the instruction.
inline std::int64_t count_ones(std::uint64_t bits) noexcept {
  bits -= (bits >> 1) & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<std::int64_t>((bits * 0x0101010101010101) >> 56);
}

} // namespace saeta
