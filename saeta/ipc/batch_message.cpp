#include "saeta/ipc/batch_message.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/codec/decoded_bound.hpp"
#include "saeta/ipc/format/message_layout.hpp"

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

bool check_body(std::span<const std::byte> metadata, std::uint64_t body_bytes) {
  return checked_layout(metadata, body_bytes).codec != detail::body_codec::none;
}

void check_body(std::span<const std::byte> metadata, std::span<const std::byte> body) {
  detail::require_honest_sizes(checked_layout(metadata, body.size()), body);
}

} // namespace saeta::ipc
