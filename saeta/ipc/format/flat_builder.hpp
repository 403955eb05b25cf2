// Builds a FlatBuffer from front to back.
//
// What      A table is appended with all of its numbers, and with empty offsets that `link` leads to what is
//           appended later: strings, lists, other tables. So nothing is moved and nothing is sized before.
// Owner     Borrows the bytes, which begin at a multiple of 8 in the message.
// Failure   error overflow: more bytes than an offset reaches.
// Standard  FlatBuffers internals (flatbuffers.dev). Field numbers are those of Arrow's *.fbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace saeta::ipc::detail {

class flat_builder {
public:
  /// A field of a table: a number of 1, 2, 4 or 8 bytes, or an offset, of 4.
  struct slot {
    unsigned field = 0;
    std::size_t bytes = 0;
    std::uint64_t value = 0;
  };
  template <class T>
  static slot number(unsigned field, T value) {
    return {field, sizeof(T), static_cast<std::uint64_t>(value)};
  }
  static slot offset(unsigned field) { return {field, sizeof(std::uint32_t), 0}; }

  /// A table in the bytes.
  class table {
  public:
    /// The place of a field that the table has.
    [[nodiscard]] std::size_t place(unsigned field) const { return places_.at(field); }

  private:
    friend flat_builder;
    std::size_t position_ = 0;
    std::vector<std::size_t> places_; ///< by field; 0 if absent
  };

  /// @param bytes  empty; the builder appends to it
  explicit flat_builder(std::vector<std::byte>& bytes);

  table add_table(std::initializer_list<slot> slots) {
    return add_table(std::span(slots.begin(), slots.size()));
  }
  table add_table(std::span<const slot> slots);
  /// Appends a string or a list, and lets the offset at `place` lead there.
  void add_text(std::size_t place, std::string_view text);
  void add_numbers(std::size_t place, std::span<const std::int32_t> numbers);
  /// Appends a list of structs whose items are aligned to 8 bytes.
  template <class T>
  void add_structs(std::size_t place, std::span<const T> items) {
    add_items(place, items.size(), std::as_bytes(items));
  }
  /// Appends a list of so many offsets. Returns the place of the first one; 4 bytes lead to the next.
  std::size_t add_offsets(std::size_t place, std::size_t count);
  /// Lets the offset at `place` lead to a table.
  void link(std::size_t place, const table& to) { link(place, to.position_); }
  /// The table that the buffer begins with.
  void set_root(const table& to) { link(0, to.position_); }

private:
  void link(std::size_t place, std::size_t target);
  void add_items(std::size_t place, std::size_t count, std::span<const std::byte> items);
  void pad(std::size_t unit, std::size_t rest = 0);
  template <class T>
  void append(T value);
  template <class T>
  void put(std::size_t at, T value);

  std::vector<std::byte>& bytes_;
};

} // namespace saeta::ipc::detail
