// Plans joined columns: the places of the result's buffers in one slab, and the steps that bring rows there.
//
// @code
// slab_plan plan("bytes of a column", true);
// const data_type type(type_id::int32);
// const slab_place values = plan.add_buffer(type, 1, 100, 0);                    // the values of 100 rows
// plan.end_layout();                                                             // before the first step
// plan.add_values({.rows = 100, .at = {0, 4096}}, 1, type.byte_width(), values); // byte 4096 of the source
// plan.clear_padding();
// launch(stream, plan.plan()); // staging_ring::scatter carries the steps out
// @endcode
//
// What      Pieces of a file lie in a source that is read. Pieces of columns lie in device memory. A piece
//           says where its buffers begin (`piece_rows`). Places and steps are the same for both. The caller
//           adds what differs.
// Order     Places, then `end_layout`, steps, and `clear_padding`.
// Thread    One.
// Failure   error overflow for sizes that exceed the range of their type.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/data_type.hpp"
#include "saeta/staging/scatter.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

/// The rows that one piece contributes to a joined column, or to a child of one.
struct piece_rows {
  std::int64_t first = 0; ///< row in the buffers of the piece
  std::int64_t rows = 0;
  /// The bytes, rows of the child of a list, or runs that the rows point to.
  std::int64_t pointed_first = 0;
  std::int64_t pointed = 0;
  // Counts of the group before this piece:
  std::int64_t row_base = 0;
  std::int64_t pointed_base = 0;
  /// Where each buffer begins: an offset in a source that is read, or a device address.
  std::array<std::uint64_t, 3> at{};
};

/// The rows that the offsets or run ends of a type count.
enum class counted_rows { nothing, own, pointed, of_children };

/// The largest number that offsets or run ends can hold. Pieces are joined while their sum stays within it.
struct counted_limit {
  counted_rows what = counted_rows::nothing;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// 64-bit offsets have no limit.
counted_limit limit_of(const data_type& type) noexcept;

/// A buffer of the result. Bits lie in the first part of the slab, which is zeroed.
struct slab_place {
  static constexpr std::uint64_t absent = static_cast<std::uint64_t>(-1);
  std::uint64_t at = absent; ///< offset in the part for bits, or in the part after it
  std::uint64_t bytes = 0;
  bool bits = false;

  [[nodiscard]] bool present() const noexcept { return at != absent; }
};

class slab_plan {
public:
  /// As the Arrow format recommends.
  static constexpr std::size_t padding = 64;
  static constexpr std::size_t no_fill = static_cast<std::size_t>(-1);

  /// @param what        names the size in overflow errors: "bytes of a table"
  /// @param one_source  all pieces lie in one memory, so that one step may copy neighbours together
  explicit slab_plan(std::string_view what, bool one_source = false) : what_(what), one_source_(one_source) {}

  /// @param padded  false if the size is not known yet; `pad` is called later
  slab_place add_place(std::size_t bytes, bool bits = false, bool padded = true);
  /// Adds a place for buffer `index` of a type. The caller decides whether a validity is needed.
  slab_place add_buffer(const data_type& type, std::size_t index, std::int64_t rows, std::int64_t pointed,
                        bool padded = true);
  void pad(const slab_place& place);
  std::uint32_t add_counter() noexcept { return static_cast<std::uint32_t>(made_.counters++); }
  void end_layout();
  /// Offset in the slab, after `end_layout`.
  [[nodiscard]] std::uint64_t byte_of(const slab_place& place) const noexcept {
    return (place.bits ? 0 : bits_bytes_) + place.at;
  }

  /// Adds a step that copies bytes, or extends the last step where source and target both continue it. Adds
  /// nothing for 0 bytes.
  /// @param byte  offset in the place
  void add_copy(std::uint64_t source, const slab_place& to, std::uint64_t byte, std::int64_t bytes);
  /// Adds the rows of buffer `index`, which has values of `width` bytes, as they are.
  void add_values(const piece_rows& piece, std::size_t index, std::int32_t width, const slab_place& to);
  /// The same with a kind that changes the values. The caller sets the rest of the step.
  scatter_step& add_changed(join_kind kind, const piece_rows& piece, std::size_t index, std::int32_t width,
                            const slab_place& to);
  void add_bits(const piece_rows& piece, std::size_t index, const slab_place& to,
                std::uint32_t counter = scatter_step::not_counted);
  /// Adds the rows of buffer `index` as they are. For bytes, these are the bytes that the rows point to.
  void add_unchanged(const piece_rows& piece, const data_type& type, std::size_t index, const slab_place& to);
  /// Sets the bits of all rows.
  /// @param last  the previous piece's fill, extended if these bits follow it
  void add_ones(const piece_rows& piece, const slab_place& to, std::size_t& last);
  /// Adds the offsets of the rows, and the final offset after the last piece.
  scatter_step& add_offsets(const piece_rows& piece, std::int32_t width, const slab_place& to, bool is_last);
  /// @param ends  the run ends that cover the rows of `piece`
  void add_run_ends(const piece_rows& piece, const piece_rows& ends, std::int32_t width,
                    const slab_place& to);
  /// Forgets the steps, which the caller has carried out. Pieces that follow belong to other columns.
  void clear_steps() noexcept;
  /// Zeroes the padding after places that do not end at a multiple of it.
  void clear_padding();

  [[nodiscard]] scatter_plan& plan() noexcept { return made_; }
  [[nodiscard]] const scatter_plan& plan() const noexcept { return made_; }

private:
  std::string_view what_;
  bool one_source_;
  std::uint64_t bits_bytes_ = 0;
  std::uint64_t other_bytes_ = 0;
  std::vector<slab_place> padded_; ///< places with padding after them
  scatter_plan made_;
};

} // namespace saeta
