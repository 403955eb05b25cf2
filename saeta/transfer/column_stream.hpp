// Streams columns to the host window by window, for data larger than the host wants to hold.
//
// @code
// const column_stream stored(ctx, std::span(&price, 1), 64 << 20);
// for (std::size_t number = 0; number < stored.windows(); ++number) {
//   const std::shared_ptr<std::byte> window = stored.bring(number); // one transfer; the host has waited
// }
// @endcode
//
// What      Describes the columns as host arrays that begin at row 0. Their buffers have reserved addresses,
//           one buffer after the other. Only the first and the last offset of each array have values there,
//           which is enough to learn the shape of an array. `bring` transfers the bytes that belong in one
//           window of the addresses: one planned transfer into one allocation. Dictionaries are in memory as
//           a whole.
// Owner     Keeps the columns alive. The result of `bring` is independent of the stream.
// Thread    Immutable: any.
// Failure   As for a download (transfer/download.hpp).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

class column_stream {
public:
  /// True if the shape of a column says where its bytes are. This is false for run-end encoded columns and
  /// list views. It is also false for slices of views with at most half of the rows, whose download brings
  /// only the bytes they refer to.
  [[nodiscard]] static bool supports(const column& column);

  /// Reads the offsets where columns begin and end, counts unknown nulls and downloads dictionaries.
  /// @param columns       columns for which `supports` is true, of a context on a device
  /// @param window_bytes  size of a window in addresses; rounded up to a multiple of `host_alignment`
  column_stream(std::shared_ptr<context> ctx, std::span<const column> columns, std::size_t window_bytes);
  column_stream(const column_stream&) = delete;
  column_stream& operator=(const column_stream&) = delete;
  ~column_stream();

  /// Valid as long as this object lives.
  [[nodiscard]] const std::vector<host_array>& arrays() const noexcept { return arrays_; }
  [[nodiscard]] std::size_t window_bytes() const noexcept { return window_bytes_; }
  /// Number of windows that cover all addresses; the last one may be partly filled.
  [[nodiscard]] std::size_t windows() const noexcept { return (bytes_ + window_bytes_ - 1) / window_bytes_; }
  /// Position of an address in the stream, in window `place / window_bytes()`. Empty for other addresses.
  [[nodiscard]] std::optional<std::size_t> place_of(const void* address) const noexcept;
  /// Returns the bytes of window `number`, at the same distances as their addresses.
  [[nodiscard]] std::shared_ptr<std::byte> bring(std::size_t number) const;

private:
  /// Change to make to bytes that have arrived.
  enum class change { none, shift_bits, rebase_offsets };
  /// A buffer, or the part of it that the rows refer to.
  struct piece {
    buffer source;
    std::size_t place = 0; ///< a multiple of `host_alignment`
    std::size_t bytes = 0; ///< of `source`, without the byte added for a shift
    change needed = change::none;
    int shift = 0;         ///< bits
    std::int64_t base = 0; ///< subtracted from each offset
    std::size_t width = 0; ///< of an offset
  };
  struct node;
  struct addresses;

  [[nodiscard]] static std::vector<node> nodes_of(std::span<const column> columns);
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
  std::vector<std::shared_ptr<void>> kept_; ///< keeps the dictionaries' memory alive
};

} // namespace saeta
