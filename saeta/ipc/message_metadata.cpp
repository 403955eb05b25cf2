#include "saeta/ipc/detail/message_metadata.hpp"

#include "saeta/ipc/detail/flat_table.hpp"

namespace saeta::ipc::detail {
namespace {

// Numbers of the fields in their tables.
constexpr unsigned footer_dictionaries = 2;
constexpr unsigned footer_batches = 3;
constexpr unsigned message_header = 2;
constexpr unsigned batch_length = 0;
constexpr unsigned batch_nodes = 1;
constexpr unsigned batch_buffers = 2;
constexpr unsigned batch_compression = 3;
constexpr unsigned batch_variadic_counts = 4;
constexpr unsigned compression_codec = 0;

static_assert(sizeof(message_block) == 24 && offsetof(message_block, body_bytes) == 16);
static_assert(sizeof(field_node) == 16 && sizeof(buffer_place) == 16);

std::string compression_name(const flat_table& batch) {
  const auto compression = batch.table(batch_compression);
  if (!compression) {
    return "none";
  }
  const auto codec = compression->scalar<std::int8_t>(compression_codec, 0);
  switch (codec) {
  case 0:
    return "lz4";
  case 1:
    return "zstd";
  default:
    return concat("codec ", +codec);
  }
}

} // namespace

footer_blocks read_footer_blocks(std::span<const std::byte> file) {
  constexpr std::size_t tail = sizeof(std::int32_t) + 6; // the footer's size and the magic
  std::int32_t size = -1;
  if (file.size() >= tail) {
    std::memcpy(&size, file.data() + file.size() - tail, sizeof(size));
  }
  if (size < 0 || static_cast<std::size_t>(size) > file.size() - tail) {
    throw error(errc::format, concat("footer of ", size, " bytes in a file of ", file.size()));
  }
  const auto bytes = static_cast<std::size_t>(size);
  const auto footer = flat_table::root(file.subspan(file.size() - tail - bytes, bytes));
  return {footer.structs<message_block>(footer_dictionaries), footer.structs<message_block>(footer_batches)};
}

batch_metadata read_batch_metadata(std::span<const std::byte> message) {
  const auto batch = flat_table::root(message).table(message_header);
  if (!batch) {
    throw error(errc::format, "a record batch message without a record batch");
  }
  return {batch->scalar<std::int64_t>(batch_length, 0), batch->structs<field_node>(batch_nodes),
          batch->structs<buffer_place>(batch_buffers), batch->structs<std::int64_t>(batch_variadic_counts),
          compression_name(*batch)};
}

} // namespace saeta::ipc::detail
