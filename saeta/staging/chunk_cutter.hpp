// The steps of a scatter, cut into chunks.
//
// What      A chunk has parts of the source, side by side, and behind them the steps that put them in their places. Steps
//           are cut where a chunk is full, between two values. Neighbours whose gap is small are read as one part. A chunk of
//           one copy that fills it is direct: its bytes can go to their place without a kernel. Steps that are decoded are cut
//           only where one chunk can't hold them; the chunks of such a step are a chain, which one thread brings.
// Thread    `cut` is const: several threads cut chunks of the same steps, each into a `cut_chunk` of its own.
#pragma once

#include "saeta/staging/scatter.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

/// Consecutive bytes of the source and their place in the chunk.
struct chunk_part {
  std::uint64_t source = 0;
  std::size_t at = 0;
  std::size_t bytes = 0;
};

/// Where a chunk begins: values of a step before it are in earlier chunks.
struct chunk_cursor {
  std::size_t step = 0;
  std::int64_t done = 0;
};

struct cut_chunk {
  std::vector<chunk_part> parts;
  std::vector<scatter_step> steps; ///< whose source is a byte of the chunk
  std::size_t bytes = 0;           ///< of the parts with what lies between them
  std::uint64_t read = 0;          ///< of the parts alone
  bool direct = false;
};

/// Bytes that a step reads.
[[nodiscard]] std::size_t source_bytes(const scatter_step& step) noexcept;

class chunk_cutter {
public:
  /// Least bytes of a chunk.
  static constexpr std::size_t least = 512;
  static constexpr std::size_t max_gap = 4096; ///< bytes read for nothing, at most, between two steps

  /// @param steps        outlive the cutter
  /// @param chunk_bytes  of the parts and of the steps as the kernel takes them; `least` or more
  /// @param ordered_from from this byte of the source on steps are decoded
  /// @param whole        copies that are decoded are direct even if they don't fill a chunk, and up to `most_whole` bytes at once
  chunk_cutter(std::span<const scatter_step> steps, std::size_t chunk_bytes,
               std::uint64_t ordered_from = scatter_source::nowhere, bool whole = false) noexcept
      : steps_(steps), chunk_bytes_(chunk_bytes), ordered_from_(ordered_from), whole_(whole) {}

  [[nodiscard]] bool done(const chunk_cursor& at) const noexcept { return at.step == steps_.size(); }
  /// True where a chunk needs nothing of the one before it.
  [[nodiscard]] bool begins_chain(const chunk_cursor& at) const noexcept {
    return at.done == 0 || done(at) || !ordered(steps_[at.step]);
  }
  /// Fills `chunk` with what follows `at`, which is not the end, and returns where the next one begins.
  chunk_cursor cut(chunk_cursor at, cut_chunk& chunk) const;
  /// Whether anything of a chunk is decoded; such steps come last.
  [[nodiscard]] bool has_order(const cut_chunk& chunk) const noexcept {
    return chunk.parts.back().source >= ordered_from_;
  }
  /// Where the steps of a chunk lie as the kernel takes them.
  [[nodiscard]] static std::size_t steps_at(const cut_chunk& chunk) noexcept;

private:
  static constexpr std::size_t least_whole = 16u << 10;
  static constexpr std::size_t most_whole = 4u << 20;

  [[nodiscard]] bool ordered(const scatter_step& step) const noexcept { return step.source >= ordered_from_; }
  /// Bytes of a step that go to their place without a kernel; 0: none.
  [[nodiscard]] std::size_t direct_bytes(const scatter_step& step) const noexcept;
  [[nodiscard]] std::size_t place(const cut_chunk& chunk, std::uint64_t source,
                                  std::size_t alignment) const noexcept;

  std::span<const scatter_step> steps_;
  std::size_t chunk_bytes_;
  std::uint64_t ordered_from_;
  bool whole_;
};

} // namespace saeta
