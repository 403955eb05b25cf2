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

#include "saeta/base/export.hpp"
#include "saeta/device/equal_values.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {

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

/// The permutation of another count, at most as large, and of another window: key 0 changes nothing.
SAETA_ANY_DEVICE constexpr permutation of_window(permutation order, std::uint64_t count,
                                                 std::uint64_t window) noexcept {
  const std::uint32_t key = mix_half(static_cast<std::uint32_t>(window), 0) ^
                            mix_half(static_cast<std::uint32_t>(window >> 32U), 0);
  order.count = count;
  for (std::uint32_t& each : order.keys) {
    each ^= key;
  }
  return order;
}

/// Batches of the rows of a table, each one from a lane: batch k comes from lane k % `lanes`.
///
/// The table has windows of `window_batches` batches each: for each round one window of each of its lanes, in
/// the order of the lanes. The last window may have fewer rows. A batch has rows of one window in the order
/// of that window's permutation.
struct lane_batches {
  std::int64_t first = 0;          ///< batch; 0 is the first one of the first round
  std::int64_t step = 1;           ///< from one batch to the next
  std::int64_t batch_rows = 1;     ///< the last batch may have fewer
  std::int64_t count = 0;          ///< rows of all batches
  std::int64_t lanes = 1;          ///< of the order
  std::int64_t lane_step = 1;      ///< the table has every `lane_step`-th of them
  std::int64_t window_batches = 1; ///< the table's last window may have fewer
  std::int64_t round = 0;          ///< number of the first round, which the permutations depend on
};

/// Where a batch is: the rows of its window in the table, and the batch's first number in the window.
struct batch_place {
  std::int64_t first_row = 0; ///< of the window
  std::int64_t number = 0;    ///< of the batch's first row in the window, before it is permuted
  std::int64_t window = 0;    ///< number of the window among all windows of the order
};

/// @param turn  of the batch among those that are taken
SAETA_ANY_DEVICE constexpr batch_place place_of(const lane_batches& of, std::int64_t turn) noexcept {
  const std::int64_t batch = of.first + turn * of.step;
  const std::int64_t lane = batch % of.lanes;
  const std::int64_t in_lane = batch / of.lanes;
  const std::int64_t round = in_lane / of.window_batches;
  const std::int64_t window = round * (of.lanes / of.lane_step) + lane / of.lane_step;
  return {window * of.window_batches * of.batch_rows, in_lane % of.window_batches * of.batch_rows,
          (of.round + round) * of.lanes + lane};
}

/// Rows that a kernel puts in order.
struct permute_work {
  permutation order;      ///< of a whole window
  lane_batches batches;   ///< all in the table
  std::int64_t rows = 0;  ///< of the table
  std::int32_t width = 4; ///< bytes of an unsigned integer of the target, 4 or 8
  void* target = nullptr; ///< aligned to the width
};

/// The permutation of the window of a batch.
SAETA_ANY_DEVICE constexpr permutation order_of(const permute_work& work, const batch_place& at) noexcept {
  const std::int64_t left = work.rows - at.first_row;
  const std::int64_t whole = work.batches.window_batches * work.batches.batch_rows;
  return of_window(work.order, static_cast<std::uint64_t>(left < whole ? left : whole),
                   static_cast<std::uint64_t>(at.window));
}

} // namespace saeta
