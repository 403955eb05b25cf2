// The steps of two kernels. `join` joins many arrays in one launch. `read_values` fetches single values from
// many places.
//
// What      Plain structs that are in device memory when a kernel reads them. Pointers are device pointers.
// Thread    A step belongs to the code that makes it; kernels only read it.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace SAETA_EXPORT saeta {

enum class join_kind : std::uint32_t {
  copy,    ///< copies `count` bytes, at any alignment of source and target, and sets `copy.zeros` behind them
  zero,    ///< sets `count` bytes of `target` to 0
  bits,    ///< copies `count` bits between the places in `join_step::bits`
  ones,    ///< sets `count` bits to 1, from `bits.target_first` on
  add,     ///< adds `add.addend` to `count` offsets or indices of `width` 1, 2, 4 or 8 bytes; they wrap
  remap,   ///< replaces `count` indices of `width` 1, 2, 4 or 8 bytes as `remap` says
  views,   ///< adds `views.added_buffers` to the buffer number of each of `count` 16-byte views that has one
  unions,  ///< adds the base of their child (`unions`) to `count` offsets of a dense union
  run_ends ///< moves `count` run ends of `width` 2, 4 or 8 bytes as `run_ends` says
};

/// The step that ends before padding clears it: a step of its own would take as long to plan and upload.
struct join_copy {
  std::int64_t zeros; ///< bytes behind the target that become 0, at most 64
};

struct join_add {
  std::int64_t addend;
};

struct join_views {
  std::int64_t added_buffers;
};

/// A run end becomes min(end - first_row, rows) + base.
struct join_run_ends {
  std::int64_t first_row; ///< the first row that is taken from the source
  std::int64_t rows;      ///< the number of rows that are taken
  std::int64_t base;      ///< rows of the target before these
};

/// One piece of work of `join`. Targets of different steps don't overlap. But bits may share a byte, also
/// with a kernel that runs at the same time, and so may counters be shared. For `bits` and `ones`, the target
/// starts at a multiple of 4 bytes, and its bits are 0 before the kernel runs. For `add`, `views` and
/// `unions`, the target may be the source. Pointers are aligned to `width` for kinds that have one, to 8
/// bytes for views, and to 4 for unions.
struct join_step {
  struct bit_places {
    std::int64_t source_first; ///< first bit of the source; unused for `ones`
    std::int64_t target_first; ///< first bit of the target
    std::int64_t* nulls;       ///< the number of zero bits is added to it; may be null
  };
  /// Index i becomes table[i], or 0 if there is no such entry.
  struct index_table {
    const std::int64_t* table;
    std::int64_t entries;
  };
  /// Offset i grows by bases[ids[i]]. Negative ids add nothing.
  struct union_bases {
    const std::int64_t* bases;
    const std::int8_t* ids;
  };

  join_kind kind = join_kind::copy;
  std::int32_t width = 0;
  const void* source = nullptr;
  void* target = nullptr;
  std::int64_t count = 0; ///< more than 0
  /// The member for the kind; `zero` has none.
  union {
    bit_places bits{}; ///< for `bits` and `ones`
    join_copy copy;
    join_add add;
    index_table remap;
    join_views views;
    union_bases unions;
    join_run_ends run_ends;
  };
  std::int64_t first_tile = 0; ///< number of tiles in the steps before this one
};

/// Bytes of a target that a block of threads writes at a time.
inline constexpr std::int64_t join_tile_bytes = 16'384;
inline constexpr std::int64_t join_word_bits = 32; ///< bits are written in words of this size

/// Bytes of one value of a step's target. For bits, the bytes of one word.
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

/// The number of tiles of a step. They are counted from the 16 bytes, or the word, in which its target
/// starts. Only the last may be partial.
inline std::int64_t count_tiles(const join_step& of) noexcept {
  constexpr std::int64_t vector_bytes = 16;
  std::int64_t units = of.count;
  if (of.kind == join_kind::bits || of.kind == join_kind::ones) {
    units = (of.bits.target_first % join_word_bits + of.count + join_word_bits - 1) / join_word_bits;
  } else if (of.kind == join_kind::copy || of.kind == join_kind::zero) {
    units += static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(of.target) % vector_bytes);
  }
  return (units * join_value_bytes(of) + join_tile_bytes - 1) / join_tile_bytes;
}

/// One value that `read_values` fetches.
struct value_request {
  const void* at = nullptr;
  std::int32_t width = 0; ///< 2, 4 or 8 bytes, signed; at any alignment
  bool search = false;    ///< true: binary search in ascending values instead of reading one value
  std::int64_t count = 0; ///< number of values to search
  /// A search returns the index of the first value above this, or `count` if there is none.
  std::int64_t greater = 0;
};

/// The kernels as plain loops on the calling thread.
void join_now(std::span<const join_step> steps) noexcept;
void read_values_now(std::span<const value_request> requests, std::int64_t* values) noexcept;

} // namespace saeta
