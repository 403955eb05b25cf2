// Buffers as columns of bytes, and back: how the body of a packed table appears in Python.
#pragma once

#include "python/src/core/objects.hpp"
#include "saeta/base/text.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace saeta::py {

/// A column of uint8 over the bytes.
inline column_object column_of_bytes(const std::shared_ptr<context>& ctx, const buffer& bytes) {
  field described{"body", data_type(type_id::uint8), false, {}};
  column::parts parts;
  parts.type = described.type;
  parts.length = static_cast<std::int64_t>(bytes.size());
  parts.null_count = 0;
  parts.buffers = {buffer(), bytes};
  return {std::move(described), ctx, {column::make(ctx, std::move(parts))}};
}

/// The bytes of a column of uint8; absent if it has none. @throws error type_mismatch.
inline buffer bytes_of_column(const column_object& of) {
  const std::vector<column>& pieces = *of.pieces;
  if (of.described->type != data_type(type_id::uint8) || pieces.size() > 1) {
    throw error(errc::type_mismatch, concat("the body is a column of ", of.described->type.name(), " with ",
                                            pieces.size(), " chunks, expected one chunk of uint8"));
  }
  if (pieces.empty() || pieces.front().length() == 0) {
    return {};
  }
  const column& bytes = pieces.front();
  return bytes.values().slice(static_cast<std::size_t>(bytes.offset()),
                              static_cast<std::size_t>(bytes.length()));
}

} // namespace saeta::py
