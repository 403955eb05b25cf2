// The packed form: a table as metadata in host memory and one contiguous body in memory of its device.
//
// What      The metadata is an Arrow IPC stream without its bodies: the schema message, then the messages of
//           dictionaries and record batches in the order of a stream, then the end of the stream. Bodies are
//           not repeated: the buffers of every message lie in the one body, at offsets that count from its
//           beginning, each at a multiple of 64. Batches stay batches, and nothing is joined or compressed.
//           Symbols become dictionaries of their names, because their numbers mean nothing elsewhere.
// Owner     `pack` shares the memory of a table that is packed already, as every whole read leaves one.
//           Other tables are gathered into one allocation, charged to the budget of their context
//           (compute/pack_columns.hpp), without bytes and child rows that few rows don't refer to
//           (compute/compact.hpp). The columns of `unpack` are views that share the body.
// Order     The body is ready on the context's work stream. It is tracked like any buffer.
// Failure   pack: unsupported (types that the format can't describe, as `write`), overflow, budget_exceeded,
//           out_of_memory. unpack: format naming the batch, the column and the numbers; unsupported.
// Standard  Arrow columnar format, Serialization and Interprocess Communication.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/options.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {
namespace ipc {

struct packed_table {
  std::vector<std::byte> metadata;
  buffer body;           ///< absent if the table has no bytes
  bool in_place = false; ///< the body is the memory of the table
};

/// Packs a table without a copy if it is packed already, else by one kernel, or a few if it is large. A table
/// that was packed already may have a body with bytes of its slab that none of its columns uses: up to an
/// eighth of the body, or 4 KiB. Symbols are read on the host.
/// @param alignment  in bytes, of a body that is not copied. 8 takes memory of NumPy where it is, too
[[nodiscard]] packed_table pack(const table& source, std::size_t alignment = 64);

/// Makes the table of a packed form without a copy of the body. All numbers of the metadata are checked, as
/// those of a file are.
/// @param ctx    shares memory with the context of the body
/// @param check  full: every row is checked, also rows of children that no row of a parent refers to, and
///               nulls are counted. structure: nothing of the body is read, for senders that are trusted.
[[nodiscard]] table unpack(const std::shared_ptr<context>& ctx, std::span<const std::byte> metadata,
                           const buffer& body, validation check = validation::full);

} // namespace ipc
} // namespace saeta
