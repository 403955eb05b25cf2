// A pseudo-random permutation of the numbers from 0 to a count, in the kernels of the host and of a GPU.
//
// What      The place of each number is computed from the number and a key alone, without memory and without
//           other numbers: a Feistel network over a domain of a power of two. A result outside of the range
//           goes through the network again (Mitchell et al., "Bandwidth-Optimal Random Shuffling for GPUs",
//           2022). The domain has at least 256 numbers, because permutations of small domains by 8 rounds
//           are not equally frequent.
// Stable    The same count and key give the same permutation on every device and in every release: the order
//           of a training run depends on it.
#pragma once

#include "saeta/device/equal_values.hpp"

#include <cstdint>

namespace saeta {

struct permutation {
  static constexpr int rounds = 8;
  static constexpr int least_bits = 8;

  std::uint64_t count = 0;     ///< at most 2^62
  std::uint32_t high_mask = 0; ///< of the upper half of a number; the halves have at most 31 bits
  std::uint32_t low_mask = 0;
  std::uint32_t low_bits = 0;
  std::uint32_t keys[rounds]{}; // NOLINT(modernize-avoid-c-arrays): a parameter of kernels
};

/// Makes the permutation of a key. The keys of its rounds are numbers of SplitMix64.
constexpr permutation make_permutation(std::uint64_t count, std::uint64_t key) noexcept {
  std::uint32_t bits = permutation::least_bits;
  while ((std::uint64_t{1} << bits) < count) {
    ++bits;
  }
  permutation permutation;
  permutation.count = count;
  permutation.low_bits = bits - bits / 2;
  permutation.high_mask = (std::uint32_t{1} << (bits / 2)) - 1;
  permutation.low_mask = (std::uint32_t{1} << permutation.low_bits) - 1;
  for (std::uint32_t& each : permutation.keys) {
    key += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = (key ^ (key >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    each = static_cast<std::uint32_t>((mixed ^ (mixed >> 31U)) >> 32U);
  }
  return permutation;
}

/// Mixes half of a number with the key of a round.
SAETA_ANY_DEVICE constexpr std::uint32_t mix_half(std::uint32_t half, std::uint32_t key) noexcept {
  std::uint32_t mixed = (half ^ key) * 0x9e3779b1U;
  mixed = (mixed ^ (mixed >> 16U)) * 0x85ebca6bU;
  return mixed ^ (mixed >> 15U);
}

/// The place of a number below the count.
SAETA_ANY_DEVICE constexpr std::uint64_t permute(const permutation& order, std::uint64_t number) noexcept {
  do {
    auto high = static_cast<std::uint32_t>(number >> order.low_bits);
    auto low = static_cast<std::uint32_t>(number) & order.low_mask;
    for (int round = 0; round < permutation::rounds; round += 2) {
      high ^= mix_half(low, order.keys[round]) & order.high_mask;
      low ^= mix_half(high, order.keys[round + 1]) & order.low_mask;
    }
    number = std::uint64_t{high} << order.low_bits | low;
  } while (number >= order.count);
  return number;
}

/// Groups of numbers at equal distances: entry k is `first + (k + skipped) / group * stride + (k + skipped) %
/// group`.
struct number_groups {
  std::int64_t first = 0;   ///< of the first group; negative if numbers before 0 are skipped
  std::int64_t skipped = 0; ///< of the first group
  std::int64_t group = 1;   ///< numbers in a group
  std::int64_t stride = 1;  ///< from one group to the next
  std::int64_t count = 0;   ///< of all entries
};

SAETA_ANY_DEVICE constexpr std::int64_t number_at(const number_groups& of, std::int64_t entry) noexcept {
  const std::int64_t place = entry + of.skipped;
  return of.stride == of.group ? of.first + place
                               : of.first + place / of.group * of.stride + place % of.group;
}

/// Numbers that a kernel permutes (device/kernels.hpp).
struct permute_work {
  permutation order;
  number_groups numbers;  ///< all below the count of the permutation
  std::int32_t width = 4; ///< bytes of an unsigned integer of the target, 4 or 8
  void* target = nullptr; ///< aligned to the width
};

} // namespace saeta
