// Puts columns into one piece of memory, with their children, dictionaries and the bytes behind views.
//
// What      The result has the same rows in the same columns, without offsets, and every buffer begins at a
//           multiple of 64 bytes. Offsets are rebased, so that only bytes and child rows that the rows refer
//           to are copied. Dictionaries, and the bytes behind views, are copied as a whole, each once
//           (compute/compact.hpp leaves out before what few rows don't need).
//           Columns that lie in one storage already need no copy (`find_packed`).
// Owner     The result is one allocation, charged to the budget of `ctx`.
// Order     The copy runs on the context's work stream after the last writes of the columns. It is one
//           kernel, or above 16 MiB a few, each for twice the bytes of the one before. The host waits only
//           for offsets and unknown null counts.
// Failure   invalid_argument (columns of another device, misaligned external memory), budget_exceeded,
//           out_of_memory, closed. Nothing stays allocated.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Bytes in a body, as a message lists them (Schema.fbs, struct Buffer). Both numbers are 0 for a buffer
/// without bytes.
struct packed_range {
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

/// Rows of a column, as a message lists them (Message.fbs, struct FieldNode).
struct packed_node {
  std::int64_t length = 0;
  std::int64_t null_count = 0; ///< or column::unknown_nulls
};

/// Columns of equal length as a record batch message lists them: with their children, depth first.
struct packed_rows {
  struct dictionary_use {
    std::size_t node = 0;       ///< index in `nodes` of the column of indices
    std::size_t dictionary = 0; ///< index in `packed_columns::dictionaries`
  };

  std::int64_t rows = 0;
  std::vector<packed_node> nodes{};
  std::vector<packed_range> buffers{};
  std::vector<std::int64_t> variadic_counts{}; ///< of each node with views: its buffers of bytes
  std::vector<dictionary_use> dictionaries{};  ///< of each node of a dictionary type that has rows
};

/// Columns whose bytes lie in one body. It borrows the dictionaries of the columns that it was made from.
struct packed_columns {
  struct dictionary {
    const column* from = nullptr;
    packed_rows values{};
  };

  buffer body; ///< absent if the columns have no bytes
  std::vector<packed_rows> batches{};
  std::vector<dictionary> dictionaries{};
};

/// Finds the part of one storage that contains all buffers of the batches. Returns nullopt if they are not
/// packed: they lie in several storages, a column is sliced, or the bytes between the buffers are more than
/// an eighth of the part and more than 4 KiB. Those bytes are padding, or belong to other columns of the
/// storage.
/// @param alignment  of the part, in bytes: 8 or 64. Its buffers are at multiples of 64 in it
[[nodiscard]] std::optional<packed_columns> find_packed(std::span<const batch> batches,
                                                        std::size_t alignment);

/// Copies the columns of all batches, one after the other, into one allocation.
[[nodiscard]] packed_columns pack_columns(const std::shared_ptr<context>& ctx, std::span<const batch> batches,
                                          const std::string& tag);

} // namespace saeta
