// The Arrow C Data Interface and C Stream Interface, on the host.
//
// What      Imports any conforming ArrowSchema, ArrowArray or ArrowArrayStream, and exports ours. On a host
//           context both directions are zero-copy. On a device context an import is one planned transfer per
//           batch, and an export downloads first, because these structs promise host memory. Bools of one
//           byte that came from tensors are exported as Arrow's bool (bits), by one kernel per column. The
//           extension arrow.bool8 is exported unchanged. Symbols are exported as dictionaries of their names
//           (uint32 -> utf8), and their field has the metadata xlog.symbol=true. A dictionary of strings with
//           this metadata is imported as symbols of the process's table (docs/decisions/symbols.md).
// Owner     An import takes a struct on success and leaves it with the caller, unreleased, on failure. Import
//           of a schema only reads. An export returns the owner of a struct (owned.hpp).
// Order     Exported arrays carry an export hold: the memory is reused only after their release.
// Thread    Release callbacks may run on any thread; they are noexcept.
// Failure   format (a struct that breaks the standard: the message names the field and the numbers),
//           unsupported (a type that Saeta does not have: names the column), closed (already released).
// Standard  Arrow C Data Interface, C Stream Interface (arrow.apache.org/docs/format).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/interop/options.hpp"
#include "saeta/symbols/symbol_arrays.hpp"
#include "saeta/transfer/upload.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace SAETA_EXPORT saeta {

/// Reads the schema of a table: a struct type whose children are the fields. It describes the arrays as the
/// producer sends them (see `resolve_symbols` in symbols/symbol_arrays.hpp).
/// @throws error format, unsupported naming the column and its type, closed.
[[nodiscard]] schema import_schema(const ArrowSchema& source);
/// Reads one field, which describes a single column.
[[nodiscard]] field import_field(const ArrowSchema& source);
[[nodiscard]] arrow_schema export_schema(const schema& source, symbol_form symbols = symbol_form::dictionary);
[[nodiscard]] arrow_schema export_field(const field& source, symbol_form symbols = symbol_form::dictionary);

struct import_options {
  copy_policy copy = copy_policy::when_needed;
  validation check = validation::full;
  check_scope scope = check_scope::named_rows; ///< of a full check
  upload_options upload{};
  bool structs_as_column = false; ///< streams only: structs are one column, not the rows of a table
};

/// Imports one record batch: a struct array that matches `fields`.
[[nodiscard]] batch import_batch(const std::shared_ptr<context>& ctx, const schema& fields,
                                 ArrowArray& source, dictionary_cache& dictionaries,
                                 const import_options& options = {});
/// Imports one array of any supported type.
[[nodiscard]] column import_column(const std::shared_ptr<context>& ctx, const field& described,
                                   ArrowArray& source, const import_options& options = {});
/// The result of a stream import.
struct imported_stream {
  table rows;
  bool of_structs = true; ///< false: the arrays were not structs, and `rows` has them as its only column
};

/// Imports every batch of a stream. Takes the stream; an error midway releases it. If the producer works for
/// each batch, another thread requests the next batch while the last one is uploaded. Two batches are never
/// requested at the same time. `progress`, if set, is called after each batch with the number of rows so far.
[[nodiscard]] imported_stream import_any_stream(const std::shared_ptr<context>& ctx, ArrowArrayStream& source,
                                                const import_options& options = {},
                                                const std::function<void(std::int64_t rows)>& progress = {});
/// Like `import_any_stream`, but returns only the table.
[[nodiscard]] table import_stream(const std::shared_ptr<context>& ctx, ArrowArrayStream& source,
                                  const import_options& options = {},
                                  const std::function<void(std::int64_t rows)>& progress = {});

/// Exports a batch as a struct array. From a device context this downloads (counted).
/// @throws error out_of_range for a batch that does not exist, and for a symbol that its table does not have
///         (names the column and the row).
[[nodiscard]] arrow_array export_batch(const table& source, std::size_t batch_index);
/// @param name  the column's name in messages.
[[nodiscard]] arrow_array export_column(const column& source, std::string_view name = {});
/// Exports a table as a stream of its batches. Batches on a device are exported in windows of about
/// `stream_window_bytes`: one transfer per window, when its first batch is requested. In strict mode this
/// call throws error download_forbidden, because a stream could only pass on the text of the error. The
/// dictionary of symbols grows with the batches: each dictionary begins with that of the batch before.
[[nodiscard]] arrow_stream export_stream(const table& source);
inline constexpr std::uint64_t stream_window_bytes = std::uint64_t{256} << 20;
/// Exports the pieces of a column as a stream of arrays of its type.
[[nodiscard]] arrow_stream export_stream(const field& described, std::vector<column> pieces);

} // namespace saeta
