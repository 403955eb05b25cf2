#include "saeta/ipc/batch_message.hpp"

#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/ipc/codec/decoded_bound.hpp"
#include "saeta/ipc/format/message_encoder.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/write/encoded_rows.hpp"

namespace saeta::ipc {
namespace {

detail::batch_layout checked_layout(std::span<const std::byte> metadata, std::uint64_t body_bytes) {
  detail::batch_layout batch = detail::read_layout(metadata);
  if (static_cast<std::uint64_t>(batch.body_bytes) > body_bytes) {
    throw error(errc::format, concat("its body has ", batch.body_bytes, " bytes, found ", body_bytes));
  }
  return batch;
}

} // namespace

std::vector<std::byte> encode_batch(const schema& fields, const ArrowArray& rows) {
  const host_batch view = view_batch(fields, rows);
  const detail::encoded_rows encoded = detail::encode_rows(view.rows, view.arrays, nullptr);
  std::vector<std::byte> made;
  detail::append_batch_message(made, encoded.layout, {}, encoded.body_bytes);
  made.reserve(made.size() + static_cast<std::size_t>(encoded.body_bytes));
  for (const detail::body_buffer& each : encoded.body) {
    made.insert(made.end(), each.bytes.begin(), each.bytes.end());
    made.resize((made.size() + detail::body_unit - 1) / detail::body_unit * detail::body_unit);
  }
  return made;
}

bool check_body(std::span<const std::byte> metadata, std::uint64_t body_bytes) {
  return checked_layout(metadata, body_bytes).codec != detail::body_codec::none;
}

void check_body(std::span<const std::byte> metadata, std::span<const std::byte> body) {
  detail::require_honest_sizes(checked_layout(metadata, body.size()), body);
}

} // namespace saeta::ipc
