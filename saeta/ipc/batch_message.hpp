// Encodes and checks single record batch messages in host memory, for messages kept elsewhere.
//
// Failure   error format with the number that does not fit; unsupported, out_of_memory.
// Standard  Arrow IPC, encapsulated message format; Message.fbs.
#pragma once

#include "saeta/column/schema.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

extern "C" {
struct ArrowArray;
}

namespace saeta::ipc {

/// Returns the message of a batch: metadata, then the body at a multiple of 8.
/// @param rows  a struct array that matches `fields`, in host memory. It is read only.
std::vector<std::byte> encode_batch(const schema& fields, const ArrowArray& rows);

/// Checks the metadata of a record batch message against the size of its body (format/message_layout.hpp).
/// Returns whether the buffers are compressed.
bool check_body(std::span<const std::byte> metadata, std::uint64_t body_bytes);
/// The same, and what compressed buffers in the body claim.
void check_body(std::span<const std::byte> metadata, std::span<const std::byte> body);

} // namespace saeta::ipc
