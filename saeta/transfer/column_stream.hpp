// Columns that come to the host window by window: for what is larger than the host wants to hold.
//
// What      Describes the columns as host arrays that begin at row 0, with buffers at addresses of their own, one behind the other.
//           Nothing is at these addresses but the first and the last offset of each array: who only needs the shape of
//           an array can work with it. `bring` transfers what belongs at a window of the addresses: one planned transfer into
//           one allocation. Dictionaries are in memory as a whole.
// Owner     Keeps the columns. What `bring` returns lives on its own.
// Thread    Immutable: any.
// Failure   As a download (transfer/download.hpp).
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace saeta {

class column_stream {
public:
  /// True for a column whose shape says where its bytes are. That of run-end encoded columns and list views does not, and slices of
  /// views with less than half of the rows bring only the bytes that they name.
  [[nodiscard]] static bool takes(const column& each);

  /// Reads the offsets where columns begin and end, counts unknown nulls and downloads dictionaries.
  /// @param columns       each one that `takes` says yes to, of a context on a device.
  /// @param window_bytes  of addresses; rounded up to a multiple of `host_alignment`.
  column_stream(std::shared_ptr<context> ctx, std::span<const column> columns, std::size_t window_bytes);
  column_stream(const column_stream&) = delete;
  column_stream& operator=(const column_stream&) = delete;
  ~column_stream();

  /// Valid as long as this lives.
  [[nodiscard]] const std::vector<host_array>& arrays() const noexcept { return arrays_; }
  [[nodiscard]] std::size_t window_bytes() const noexcept { return window_bytes_; }
  /// Windows that all addresses fill, the last one partly.
  [[nodiscard]] std::size_t windows() const noexcept { return (bytes_ + window_bytes_ - 1) / window_bytes_; }
  /// Where an address lies among those of the stream: in window `place / window_bytes()`. Nothing for other addresses.
  [[nodiscard]] std::optional<std::size_t> place_of(const void* address) const noexcept;
  /// What belongs at the addresses of window `number`, in the same distances.
  [[nodiscard]] std::shared_ptr<std::byte> bring(std::size_t number) const;

private:
  /// What is done with bytes that have arrived.
  enum class change { none, shift_bits, rebase_offsets };
  /// A buffer, or the part of one that the rows refer to.
  struct piece {
    buffer source;
    std::size_t place = 0; ///< a multiple of `host_alignment`
    std::size_t bytes = 0; ///< of `source` without what is only there for a shift
    change needed = change::none;
    int shift = 0;         ///< bits
    std::int64_t base = 0; ///< taken off each offset
    std::size_t width = 0; ///< of an offset
  };
  struct node;
  struct addresses;

  static std::vector<node> nodes_of(std::span<const column> columns);
  void look_at_device(std::span<node* const> level) const;
  void read_offsets(std::span<node* const> level) const;
  void count_nulls(std::span<node* const> level) const;
  static void add_children(node& of, std::vector<node*>& next_level);
  void lay_out(node& of);
  void lay_out(node& of, std::size_t index);
  [[nodiscard]] host_array array_of(const node& of) const;
  void write_last_offset(const node& of) const;
  void fix(const piece& of, std::size_t first, std::size_t end, std::byte* landed) const;

  std::shared_ptr<context> ctx_;
  std::size_t window_bytes_;
  std::size_t bytes_ = 0;
  std::vector<piece> pieces_; ///< by place
  std::unique_ptr<addresses> at_;
  std::vector<host_array> arrays_;
  std::vector<std::shared_ptr<void>> kept_; ///< memory of dictionaries
};

} // namespace saeta
