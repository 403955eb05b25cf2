// Checks single record batch messages, for messages kept elsewhere.
//
// Failure   error format with the number that does not fit; unsupported.
// Standard  Arrow IPC, encapsulated message format; Message.fbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace saeta::ipc {

/// Checks the metadata of a record batch message against the size of its body (format/message_layout.hpp).
/// Returns whether the buffers are compressed.
bool check_body(std::span<const std::byte> metadata, std::uint64_t body_bytes);
/// The same, and what compressed buffers in the body claim.
void check_body(std::span<const std::byte> metadata, std::span<const std::byte> body);

} // namespace saeta::ipc
