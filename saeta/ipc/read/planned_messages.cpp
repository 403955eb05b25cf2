#include "saeta/ipc/read/planned_source.hpp"

#include <algorithm>
#include <cstring>

namespace saeta::ipc::detail {
namespace {

/// Bytes read at once at the position of a message. Most metadata is shorter.
constexpr std::size_t expected_bytes = 4096;

bool little_endian(const flat_table& schema) {
  return schema.scalar<std::int16_t>(schema_endianness, 0) == 0;
}

/// Reads the header of a message. Returns nullopt if a plan can't take it: plans take version 5 alone.
std::optional<message_header> read_planned(source_window& from, const planned_message& message) {
  const auto bytes = from.read(message.metadata, message.metadata_bytes);
  const message_prefix prefix = read_prefix(bytes);
  if (prefix.metadata == 0 || static_cast<std::uint64_t>(prefix.metadata) > bytes.size() - prefix.bytes) {
    throw error(errc::format,
                concat("metadata of ", prefix.metadata, " bytes in a message of ", bytes.size(), " bytes"));
  }
  const message_header header =
      read_header(bytes.subspan(prefix.bytes, static_cast<std::size_t>(prefix.metadata)));
  return header.version == version_5 && !prefix.is_old() ? std::optional(header) : std::nullopt;
}

/// The same for the first batch of a file. A broken one is taken, because reading it reports the error.
bool is_planned(source_window& from, const planned_message& first) {
  try {
    return read_planned(from, first).has_value();
  } catch (const error&) {
    return true;
  }
}

/// Returns the position of a message in a file. piece_reader reads the body length from the message and
/// checks it.
template <class Place>
planned_message message_at(const message_block& block, std::uint64_t source_bytes, Place place) {
  const auto end =
      static_cast<std::uint64_t>(block.offset) + static_cast<std::uint64_t>(block.metadata_bytes);
  if (block.offset < 0 || block.offset % 8 != 0 ||
      block.metadata_bytes < static_cast<std::int32_t>(prefix_bytes) || end > source_bytes) {
    throw error(errc::format, concat(place(), ": its message of ", block.metadata_bytes, " bytes at offset ",
                                     block.offset, " exceeds a source of ", source_bytes, " bytes"));
  }
  return {.metadata = static_cast<std::uint64_t>(block.offset),
          .metadata_bytes = static_cast<std::size_t>(block.metadata_bytes),
          .body = end,
          .body_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(block.body_bytes, 0))};
}

std::optional<planned_messages> find_in_file(source_window& from, const flat_table& footer,
                                             const std::string& name,
                                             const std::pair<std::int64_t, std::int64_t>& range) {
  planned_messages messages;
  messages.file = true;
  const auto dictionaries = footer.view<message_block>(footer_dictionaries);
  for (std::size_t i = 0; i < dictionaries.size(); ++i) {
    planned_message message =
        message_at(dictionaries[i], from.size(), [&] { return concat(name, ": dictionary ", i); });
    message.order = i;
    try {
      const auto header = read_planned(from, message);
      if (!header || header->kind != message_kind::dictionary_batch) {
        return std::nullopt;
      }
      const batch_layout values = read_layout(*header);
      messages.dictionaries.push_back({message, values.dictionary.value(), values.is_delta});
    } catch (const error& failure) {
      rethrow(failure, concat(name, ": dictionary ", i));
    }
  }
  const auto batches = footer.view<message_block>(footer_batches);
  const auto count = static_cast<std::int64_t>(batches.size());
  for (std::int64_t i = range.first; i < std::min(range.second, count); ++i) {
    // The label is only built for an error, because there may be many batches.
    const message_block block = batches[static_cast<std::size_t>(i)];
    planned_message message = message_at(block, from.size(), [&] { return concat(name, ": batch ", i); });
    message.order = dictionaries.size() + messages.batches.size();
    message.number = i;
    messages.batches.push_back(message);
  }
  if (!messages.batches.empty() && !is_planned(from, messages.batches.front())) {
    return std::nullopt;
  }
  return messages;
}

std::optional<planned_messages> find_in_stream(source_window& from, const std::string& name,
                                               const std::pair<std::int64_t, std::int64_t>& range) {
  planned_messages messages;
  std::int64_t number = 0; // of the next batch
  std::size_t order = 0;
  const auto truncated = [&](std::uint64_t bytes, std::uint64_t position) {
    return error(errc::format, concat(name, ": batch ", number, ": a message of ", bytes, " bytes at offset ",
                                      position, " of ", from.size(), ": the stream is truncated"));
  };
  for (std::uint64_t position = 0; position != from.size() && number < range.second;) {
    const std::uint64_t left = from.size() - position;
    if (left < sizeof(std::uint32_t)) {
      throw truncated(prefix_bytes, position);
    }
    const auto bytes =
        from.read(position, static_cast<std::size_t>(std::min<std::uint64_t>(left, expected_bytes)));
    const message_prefix prefix = read_prefix(bytes);
    if (prefix.metadata == 0) {
      break;
    }
    if (prefix.is_old()) {
      return std::nullopt;
    }
    const auto metadata_bytes = static_cast<std::size_t>(prefix.metadata);
    if (left < prefix_bytes || metadata_bytes > left - prefix_bytes) {
      throw truncated(prefix_bytes + metadata_bytes, position);
    }
    const message_header header = read_header(from.read(position + prefix_bytes, metadata_bytes));
    if (header.version != version_5) {
      return std::nullopt;
    }
    const planned_message message{.metadata = position,
                                  .metadata_bytes = prefix_bytes + metadata_bytes,
                                  .body = position + prefix_bytes + metadata_bytes,
                                  .order = order++,
                                  .body_bytes = static_cast<std::uint64_t>(header.body_bytes),
                                  .number = number};
    const std::uint64_t room = from.size() - message.body;
    if (message.body_bytes > room) {
      throw error(errc::format,
                  concat(name, ": batch ", number, ": a body of ", header.body_bytes, " bytes at offset ",
                         message.body, " of ", from.size(), ": the stream is truncated"));
    }
    if ((position == 0) != (header.kind == message_kind::schema)) {
      return std::nullopt;
    }
    if (header.kind == message_kind::dictionary_batch) {
      const batch_layout values = read_layout(header);
      messages.dictionaries.push_back({message, values.dictionary.value(), values.is_delta});
    } else if (header.kind == message_kind::record_batch) {
      if (number >= range.first) {
        messages.batches.push_back(message);
      }
      ++number;
    }
    position = message.body + message.body_bytes;
  }
  messages.passed = number;
  return messages;
}

} // namespace

std::span<const std::byte> source_window::read(std::uint64_t position, std::size_t bytes) {
  if (position > from_.bytes || bytes > from_.bytes - position) {
    throw error(errc::format,
                concat(bytes, " bytes at offset ", position, " exceed a source of ", from_.bytes, " bytes"));
  }
  if (position < held_at_ || position - held_at_ > held_ || bytes > held_ - (position - held_at_)) {
    if (memory_.size() < bytes) {
      memory_.resize(bytes);
    }
    held_ = 0; // the read may fail
    from_.read(position, {memory_.data(), bytes});
    held_at_ = position;
    held_ = bytes;
  }
  return {memory_.data() + (position - held_at_), bytes};
}

std::optional<batch_layout> read_batch_message(source_window& from, const planned_message& message,
                                               const column_tree& tree) {
  const auto header = read_planned(from, message);
  if (!header) {
    return std::nullopt;
  }
  const batch_layout layout = read_layout(*header, &tree);
  layout.require_entries(tree);
  if (message.body > message.end ||
      static_cast<std::uint64_t>(layout.body_bytes) > message.end - message.body) {
    throw error(errc::format,
                concat("a body of ", layout.body_bytes, " bytes at offset ", message.body - message.begin,
                       " of a source of ", message.end - message.begin, ": it is truncated"));
  }
  return layout;
}

message_prefix read_prefix(std::span<const std::byte> message) {
  std::int32_t size = 0;
  std::memcpy(&size, message.data(), sizeof size);
  std::size_t bytes = sizeof size;
  if (static_cast<std::uint32_t>(size) == continuation) {
    bytes = prefix_bytes;
    size = prefix_bytes; // more than is left, so the caller reports a truncated message
    if (message.size() >= prefix_bytes) {
      std::memcpy(&size, message.data() + sizeof size, sizeof size);
    }
  }
  return {bytes, size < 0 ? std::int64_t{1} << 40 : size};
}

std::optional<planned_messages> find_messages(source_window& from, container format,
                                              std::span<const std::byte> front, const std::string& name,
                                              const std::pair<std::int64_t, std::int64_t>& range) {
  if (!little_endian(schema_table(format, front))) {
    return std::nullopt;
  }
  return format == container::file ? find_in_file(from, flat_table::root(front), name, range)
                                   : find_in_stream(from, name, range);
}

} // namespace saeta::ipc::detail
