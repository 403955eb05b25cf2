// Checks single record batch messages, for messages kept elsewhere.
//
// Failure   error format with the number that does not fit; unsupported.
// Standard  Arrow IPC, encapsulated message format; Message.fbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace saeta::ipc {

/// Checks the metadata of a record batch message against its schema and the size of its body, as that of a
/// message in a file is checked (format/message_layout.hpp). Returns whether the buffers are compressed.
/// @param schema  the metadata of a schema message
bool check_body(std::span<const std::byte> schema, std::span<const std::byte> metadata,
                std::uint64_t body_bytes);
/// The same, and what compressed buffers in the body claim.
bool check_body(std::span<const std::byte> schema, std::span<const std::byte> metadata,
                std::span<const std::byte> body);

} // namespace saeta::ipc
