// Converts a packed table to an IPC stream, so that tests can compare the readers of both formats.
//
// Format    The packed form has one body, which the buffer offsets of all messages refer to. The stream
//           repeats this body after each message.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/read/planned_source.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace saeta::support {

/// Returns nullopt if the metadata is not a complete sequence of messages, or if one needs more than the
/// body.
inline std::optional<std::string> stream_of(std::span<const std::byte> metadata,
                                            std::span<const std::byte> body) {
  using ipc::detail::message_header;
  std::string made;
  const auto append = [&](std::span<const std::byte> bytes) {
    made.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  while (metadata.size() >= ipc::detail::prefix_bytes) {
    const auto prefix = ipc::detail::read_prefix(metadata);
    const std::int64_t flat = prefix.metadata;
    const std::size_t left = metadata.size() - ipc::detail::prefix_bytes;
    if (prefix.is_old() || static_cast<std::uint64_t>(flat) > left) {
      return std::nullopt;
    }
    const std::size_t bytes = ipc::detail::prefix_bytes + static_cast<std::size_t>(flat);
    append(metadata.first(bytes));
    if (flat == 0) {
      return bytes == metadata.size() ? std::optional(made) : std::nullopt;
    }
    try {
      const message_header header = ipc::detail::read_header(
          metadata.subspan(ipc::detail::prefix_bytes, static_cast<std::size_t>(flat)));
      if (static_cast<std::uint64_t>(header.body_bytes) > body.size()) {
        return std::nullopt;
      }
      append(body.first(static_cast<std::size_t>(header.body_bytes)));
    } catch (const error&) {
      return std::nullopt;
    }
    metadata = metadata.subspan(bytes);
  }
  return std::nullopt;
}

} // namespace saeta::support
