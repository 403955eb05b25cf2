// Cuts the steps of a scatter into chunks.
//
// What      A chunk holds parts of the source side by side, followed by the steps that put them in their
//           places. A step is cut between two values, where the chunk is full. Neighbouring ranges with a
//           small gap are read as one part. A chunk filled by one copy is direct: its bytes can go to their
//           place without a kernel. Decoded steps are cut only if they do not fit in one chunk. The chunks of
//           such a step form a chain, which one thread reads.
// Thread    `cut` is const: several threads may cut chunks of the same steps, each into its own `cut_chunk`.
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

/// Where a chunk begins: in `step`, after its first `done` values.
struct chunk_cursor {
  std::size_t step = 0;
  std::int64_t done = 0;
};

struct cut_chunk {
  std::vector<chunk_part> parts;
  std::vector<scatter_step> steps; ///< their `source` is an offset in the chunk
  std::size_t bytes = 0;           ///< of the parts and the gaps between them
  std::uint64_t read = 0;          ///< of the parts alone
  bool direct = false;
};

/// Bytes that a step reads.
[[nodiscard]] std::size_t source_bytes(const scatter_step& step) noexcept;

class chunk_cutter {
public:
  /// Minimum bytes of a chunk.
  static constexpr std::size_t least = 512;
  static constexpr std::size_t max_gap = 4096; ///< largest gap between two steps, in bytes, that is read too

  /// @param steps        must outlive the cutter
  /// @param chunk_bytes  for the parts and the steps in the kernel's form; at least `least`
  /// @param ordered_from steps from this byte of the source on are decoded
  /// @param whole        decoded copies are direct even if they don't fill a chunk, with up to `most_whole`
  ///                     bytes at once
  chunk_cutter(std::span<const scatter_step> steps, std::size_t chunk_bytes,
               std::uint64_t ordered_from = scatter_source::nowhere, bool whole = false) noexcept
      : steps_(steps), chunk_bytes_(chunk_bytes), ordered_from_(ordered_from), whole_(whole) {}

  [[nodiscard]] bool done(const chunk_cursor& at) const noexcept { return at.step == steps_.size(); }
  /// True if the chunk that begins here does not depend on the one before it.
  [[nodiscard]] bool begins_chain(const chunk_cursor& at) const noexcept {
    return at.done == 0 || done(at) || !ordered(steps_[at.step]);
  }
  /// Fills `chunk` with what follows `at`, which must not be the end. Returns where the next chunk begins.
  chunk_cursor cut(chunk_cursor at, cut_chunk& chunk) const;
  /// Whether any step of a chunk is decoded. Such steps come last.
  [[nodiscard]] bool has_order(const cut_chunk& chunk) const noexcept {
    return chunk.parts.back().source >= ordered_from_;
  }
  /// Offset in a chunk of its steps in the kernel's form.
  [[nodiscard]] static std::size_t steps_at(const cut_chunk& chunk) noexcept;

private:
  static constexpr std::size_t least_whole = 16u << 10;
  static constexpr std::size_t most_whole = 4u << 20;

  [[nodiscard]] bool ordered(const scatter_step& step) const noexcept { return step.source >= ordered_from_; }
  /// Bytes of a step that go to their place without a kernel; 0 if none do.
  [[nodiscard]] std::size_t direct_bytes(const scatter_step& step) const noexcept;
  [[nodiscard]] std::size_t place(const cut_chunk& chunk, std::uint64_t source,
                                  std::size_t alignment) const noexcept;

  std::span<const scatter_step> steps_;
  std::size_t chunk_bytes_;
  std::uint64_t ordered_from_;
  bool whole_;
};

} // namespace saeta
