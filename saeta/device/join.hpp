// The steps of two kernels: `join`, which puts many arrays together in one launch, and `read_values`, which fetches single
// values from many places.
//
// What      Plain structs that lie in device memory when a kernel reads them. Pointers are device pointers.
// Thread    A step belongs to whoever makes it; kernels only read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace saeta {

enum class join_kind : std::uint32_t {
  copy,  ///< `count` bytes, at any alignment of source and target
  zero,  ///< `count` bytes of `target` become 0
  bits,  ///< `count` bits: `join_step::bits` says from where to where
  ones,  ///< `count` bits become 1, from `bits.target_first` on
  add,   ///< `count` offsets or indices of `width` 1, 2, 4 or 8 bytes, plus `add.addend`; they wrap
  remap, ///< `count` indices of `width` 1, 2, 4 or 8 bytes: `remap` says what each becomes
  views, ///< `count` views of 16 bytes: `views.added_buffers` more in the buffer number of those that have one
  unions,  ///< `count` offsets of a dense union, plus the base of their child (`unions`)
  run_ends ///< `count` run ends of `width` 2, 4 or 8 bytes: `run_ends` says how they move
};

struct join_add {
  std::int64_t addend;
};

struct join_views {
  std::int64_t added_buffers;
};

/// A run end becomes min(end - first_row, rows) + base.
struct join_run_ends {
  std::int64_t first_row; ///< of the source that is taken
  std::int64_t rows;      ///< that are taken
  std::int64_t base;      ///< rows of the target before them
};

/// One piece of work of `join`. Targets of different steps don't overlap, but bits may share a byte, also with those of a
/// kernel that runs at the same time, and so may counters. Of `bits` and `ones` the target starts at a multiple of 4 bytes
/// and its bits are 0 before the kernel runs. Of `add`, `views` and `unions` the target may be the source. Pointers are
/// aligned to `width` where a kind has one, to 8 bytes for views, to 4 for unions.
struct join_step {
  struct bit_places {
    std::int64_t source_first; ///< bit of the source; `ones` has none
    std::int64_t target_first; ///< bit of the target
    std::int64_t* nulls;       ///< the zero bits are added to it; may be null
  };
  /// Index i becomes table[i], or 0 where there is no such entry.
  struct index_table {
    const std::int64_t* table;
    std::int64_t entries;
  };
  /// Offset i grows by bases[ids[i]]; ids below 0 add nothing.
  struct union_bases {
    const std::int64_t* bases;
    const std::int8_t* ids;
  };

  join_kind kind = join_kind::copy;
  std::int32_t width = 0;
  const void* source = nullptr;
  void* target = nullptr;
  std::int64_t count = 0; ///< more than 0
  /// By kind; `copy` and `zero` have nothing more.
  union {
    bit_places bits{}; ///< of `ones`, too
    join_add add;
    index_table remap;
    join_views views;
    union_bases unions;
    join_run_ends run_ends;
  };
  std::int64_t first_tile = 0; ///< number of tiles in the steps before
};

/// Bytes of a target that one block of threads writes before it goes on.
inline constexpr std::int64_t join_tile_bytes = 16'384;
inline constexpr std::int64_t join_word_bits = 32; ///< of bits, which are written by words

/// Bytes of one value of a step's target; of bits, words count.
constexpr std::int64_t join_value_bytes(const join_step& of) noexcept {
  switch (of.kind) {
  case join_kind::copy:
  case join_kind::zero:
    return 1;
  case join_kind::views:
    return 16;
  case join_kind::bits:
  case join_kind::ones:
  case join_kind::unions:
    return 4;
  default:
    return of.width;
  }
}

/// Tiles of a step: whole ones but for the last, counted from the 16 bytes, or the word, that its target starts in.
inline std::int64_t join_tiles(const join_step& of) noexcept {
  constexpr std::int64_t vector_bytes = 16;
  std::int64_t units = of.count;
  if (of.kind == join_kind::bits || of.kind == join_kind::ones) {
    units = (of.bits.target_first % join_word_bits + of.count + join_word_bits - 1) / join_word_bits;
  } else if (of.kind == join_kind::copy || of.kind == join_kind::zero) {
    units += static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(of.target) % vector_bytes);
  }
  return (units * join_value_bytes(of) + join_tile_bytes - 1) / join_tile_bytes;
}

/// Sets `first_tile` of every step, before they are uploaded. Returns the number of tiles.
std::int64_t number_tiles(std::span<join_step> steps) noexcept;

/// What `read_values` fetches from one place.
struct value_request {
  const void* at = nullptr;
  std::int32_t width = 0; ///< 2, 4 or 8 bytes, signed; at any alignment
  bool search = false;    ///< asks for a place among rising values, not for a value
  std::int64_t count = 0; ///< to search in
  std::int64_t greater =
      0; ///< result of a search: index of the first value above this; `count` where there is none
};

/// The kernels as plain loops, on the calling thread.
void join_now(std::span<const join_step> steps) noexcept;
void read_values_now(std::span<const value_request> requests, std::int64_t* values) noexcept;

} // namespace saeta
