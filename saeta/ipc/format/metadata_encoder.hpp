// Encodes the metadata of messages: schemas, record batches, values of dictionaries, footers, and the end.
//
// What      The places of the buffers are known; their bytes lie elsewhere. Dictionaries are numbered in the
//           order of their columns, each before those inside of its values.
//           Symbols are described as dictionaries of their names, and bools of one byte as Arrow's bools. The
//           name of an extension comes before all other metadata: entries may repeat its key, and readers
//           take the first one.
// Standard  Arrow's Schema.fbs, Message.fbs and File.fbs, metadata version 5; Arrow IPC, encapsulated message
//           format.

#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/compute/pack_columns.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/format/message_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace saeta::ipc::detail {

/// Builds a FlatBuffer from front to back.
///
/// What      A table is appended with all of its numbers, and with empty offsets that `link` leads to what is
///           appended later: strings, lists, other tables. So nothing is moved and nothing is sized before.
/// Owner     Borrows the bytes, which begin at a multiple of 8 in the message.
/// Failure   error overflow: more bytes than an offset reaches.
/// Standard  FlatBuffers internals (flatbuffers.dev). Field numbers are those of Arrow's *.fbs.
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

/// The schema as files describe it: dictionaries in place of symbols, and bools of a bit.
schema schema_in_file(schema described);

/// Appends a Schema table.
flat_builder::table add_schema(flat_builder& to, const schema& described);

/// Returns the FlatBuffer of a schema message.
std::vector<std::byte> encode_schema(const schema& described);
/// Returns the FlatBuffer of a file's footer.
std::vector<std::byte> encode_footer(const schema& described, const file_footer& blocks);

/// Appends the prefix and the metadata of a message, padded to a multiple of 8 bytes.
/// @param flat  the FlatBuffer of the message
void append_message(std::vector<std::byte>& to, std::span<const std::byte> flat);

/// Properties of a batch that its message states besides the rows.
struct batch_kind {
  std::optional<std::int64_t> dictionary = {}; ///< id, if the rows are values of a dictionary
  bool is_delta = false;                       ///< the values are added to the dictionary
  body_codec codec = body_codec::none;
};

/// Appends a record batch message.
void append_batch_message(std::vector<std::byte>& to, const packed_rows& batch, const batch_kind& kind,
                          std::int64_t body_bytes);

/// Appends the mark of the end of a stream.
void append_end_of_stream(std::vector<std::byte>& to);

} // namespace saeta::ipc::detail
