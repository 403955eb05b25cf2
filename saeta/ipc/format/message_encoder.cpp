#include "saeta/ipc/format/message_encoder.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/format/message_fields.hpp"

#include <array>
#include <cstring>

namespace saeta::ipc::detail {
namespace {

constexpr std::size_t unit = 8; // alignment of everything in a message

/// Appends the prefix of a message, and zeros for its metadata. Returns where the metadata begins.
std::size_t append_room(std::vector<std::byte>& to, std::size_t bytes) {
  const std::size_t padded = round_up(bytes, unit);
  const auto size = checked_cast<std::int32_t>(padded, "bytes of a message's metadata");
  const std::size_t at = to.size();
  to.resize(at + prefix_bytes + padded);
  std::memcpy(to.data() + at, &continuation, sizeof continuation);
  std::memcpy(to.data() + at + sizeof continuation, &size, sizeof size);
  return at + prefix_bytes;
}

/// A FlatBuffer that is filled at known places. The layout of a message is always the same: tables first, and
/// then the lists. Borrows its bytes.
class flat_buffer {
public:
  explicit flat_buffer(std::span<std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  void put(std::size_t at, const T& value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value); // little-endian
  }
  /// An offset at `at` that leads to `target`.
  void link(std::size_t at, std::size_t target) { put(at, static_cast<std::uint32_t>(target - at)); }
  /// A table whose vtable lies before it. `fields` are the places of its fields in the table, 0 if absent.
  template <std::size_t Fields>
  void put_table(std::size_t vtable, std::size_t table, std::uint16_t table_bytes,
                 const std::array<std::uint16_t, Fields>& fields) {
    put(vtable, static_cast<std::uint16_t>((Fields + 2) * sizeof(std::uint16_t)));
    put(vtable + sizeof(std::uint16_t), table_bytes);
    put(vtable + 2 * sizeof(std::uint16_t), fields);
    put(table, static_cast<std::int32_t>(table - vtable));
  }
  /// A vector of structs. @returns its end.
  template <class T>
  std::size_t put_list(std::size_t at, const std::vector<T>& values) {
    put(at, static_cast<std::uint32_t>(values.size()));
    const std::size_t bytes = values.size() * sizeof(T);
    if (bytes != 0) {
      std::memcpy(bytes_.data() + at + sizeof(std::uint32_t), values.data(), bytes);
    }
    return at + sizeof(std::uint32_t) + bytes;
  }

private:
  std::span<std::byte> bytes_;
};

// Tables with numbers of 8 bytes begin 4 bytes before a multiple of 8: the offset of the vtable comes first.
constexpr std::size_t message_at = 20;
constexpr std::size_t dictionary_at = 60;
constexpr std::size_t table_distance = 40; // from one table to the next, with the vtable between them
constexpr std::size_t list_distance =
    32; // from the table of a batch to its lists, whose items follow 4 bytes
constexpr std::size_t compression_bytes = 16; // its vtable and its table

/// The table of a record batch at `at` and its lists.
void put_batch(flat_buffer& to, std::size_t at, const packed_rows& batch, body_codec codec) {
  const bool views = !batch.variadic_counts.empty();
  const bool packed = codec != body_codec::none;
  to.put_table<5>(
      at - 16, at, 28,
      {4, 12, 16, static_cast<std::uint16_t>(packed ? 20 : 0), static_cast<std::uint16_t>(views ? 24 : 0)});
  to.put(at + 4, batch.rows);
  const std::size_t nodes = at + list_distance;
  to.link(at + 12, nodes);
  const std::size_t buffers = to.put_list(nodes, batch.nodes) + sizeof(std::uint32_t);
  to.link(at + 16, buffers);
  std::size_t end = to.put_list(buffers, batch.buffers) + sizeof(std::uint32_t);
  if (views) {
    to.link(at + 24, end);
    end = to.put_list(end, batch.variadic_counts) + sizeof(std::uint32_t);
  }
  if (packed) {
    // The fields of BodyCompression: codec, method.
    to.put_table<2>(end, end + 8, 8, {4, 5});
    to.link(at + 20, end + 8);
    to.put(end + 12, static_cast<std::int8_t>(codec == body_codec::lz4 ? 0 : 1));
  }
}

} // namespace

void append_message(std::vector<std::byte>& to, std::span<const std::byte> flat) {
  const std::size_t at = append_room(to, flat.size());
  if (!flat.empty()) {
    std::memcpy(to.data() + at, flat.data(), flat.size());
  }
}

void append_batch_message(std::vector<std::byte>& to, const packed_rows& batch, const batch_kind& kind,
                          std::int64_t body_bytes) {
  const bool dictionary = kind.dictionary.has_value();
  const std::size_t batch_at = dictionary ? dictionary_at + table_distance : dictionary_at;
  const std::size_t lists = batch.nodes.size() * sizeof(packed_node) +
                            batch.buffers.size() * sizeof(packed_range) +
                            batch.variadic_counts.size() * sizeof(std::int64_t);
  constexpr std::size_t counts = 3 * 2 * sizeof(std::uint32_t); // with padding before them
  const std::size_t packed = kind.codec == body_codec::none ? 0 : compression_bytes;
  const std::size_t at = append_room(to, batch_at + list_distance + counts + lists + packed);
  flat_buffer made{std::span(to).subspan(at)};
  made.link(0, message_at);
  // The fields of Message: version, header_type, header, bodyLength.
  made.put_table<4>(message_at - 16, message_at, 20, {16, 18, 12, 4});
  made.put(message_at + 4, body_bytes);
  made.link(message_at + 12, dictionary_at);
  made.put(message_at + 16, version_5);
  made.put(message_at + 18, dictionary ? header_of_dictionary : header_of_batch);
  if (dictionary) {
    // The fields of DictionaryBatch: id, data, isDelta.
    made.put_table<3>(dictionary_at - 16, dictionary_at, 20, {4, 12, 16});
    made.put(dictionary_at + 4, *kind.dictionary);
    made.link(dictionary_at + 12, batch_at);
    made.put(dictionary_at + 16, static_cast<std::uint8_t>(kind.is_delta ? 1 : 0));
  }
  put_batch(made, batch_at, batch, kind.codec);
}

void append_end_of_stream(std::vector<std::byte>& to) { append_message(to, {}); }

} // namespace saeta::ipc::detail
