// The Arrow C Data Interface and C Stream Interface, on the host.
//
// What      Import of any conforming ArrowSchema / ArrowArray / ArrowArrayStream, and export of ours. On a host context
//           both directions are zero-copy; on a device context import is one planned transfer a batch, and export
//           downloads first, because these structs promise host memory. Booleans of one byte that came from tensors leave as
//           bits, Arrow's bool: one kernel a column. The extension arrow.bool8 leaves as it is. Symbols leave as dictionaries of
//           their names (uint32 -> utf8), whose field has the metadata xlog.symbol=true, and a dictionary of strings with this
//           metadata becomes symbols of the process's table (docs/decisions/symbols.md).
// Owner     Import takes a struct on success and leaves it with the caller, unreleased, on failure. Import of a schema
//           only reads. Export fills a struct that the caller releases.
// Order     Exported arrays carry an export hold: the memory is reused only after their release.
// Thread    Release callbacks may run on any thread; they are noexcept.
// Failure   format (a struct that breaks the standard: the message names the field and the numbers), unsupported (a
//           type that is not carried: names the column), closed (already released).
// Standard  Arrow C Data Interface, C Stream Interface (arrow.apache.org/docs/format).
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/copy_policy.hpp"
#include "saeta/interop/validation.hpp"
#include "saeta/transfer/upload.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

extern "C" {
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;
}

namespace saeta {

/// Schema of a table: a struct type whose children are the fields. It describes arrays as they come.
/// @throws error format, unsupported naming the column and its type, closed.
schema import_schema(const ArrowSchema& source);
/// One field, for a column.
field import_field(const ArrowSchema& source);
/// What the columns of an import are where arrays are described so: dictionaries that the metadata calls symbols become symbols,
/// and everything else is what it was.
schema imported(schema described);
field imported(const field& described);

/// The field of a column that becomes symbols of `table`, without what metadata said of them before.
/// @throws error type_mismatch for a type that can't, exchange where the metadata say that the numbers are of another process.
field as_symbols(const field& described, const std::shared_ptr<symbol_table>& table);

/// What stands for symbols.
enum class symbol_form {
  dictionary, ///< names, for consumers on the host
  numbers,    ///< the symbols themselves, uint32, for devices: the metadata names their table
};
void export_schema(const schema& source, ArrowSchema& target, symbol_form symbols = symbol_form::dictionary);
void export_field(const field& source, ArrowSchema& target, symbol_form symbols = symbol_form::dictionary);

struct import_options {
  copy_policy copy = copy_policy::when_needed;
  validation check = validation::full;
  upload_options upload;
  bool structs_as_column = false; ///< of streams: structs are one column of structs, not the rows of a table
};

/// One record batch (a struct array matching `fields`).
batch import_batch(const std::shared_ptr<context>& ctx, const schema& fields, ArrowArray& source,
                   dictionary_cache& dictionaries, const import_options& options = {});
/// One array of any carried type.
column import_column(const std::shared_ptr<context>& ctx, const field& described, ArrowArray& source,
                     const import_options& options = {});
/// What a stream gave, and whether its arrays were structs: else `rows` has them as its one column.
struct imported_stream {
  table rows;
  bool of_structs = true;
};

/// Every batch of a stream. Takes the stream; an error in the middle releases it. A producer that works for each batch is asked
/// for the next one on another thread, never for two at a time, while the last one is uploaded. `progress`, where given, hears the rows
/// so far after each batch.
imported_stream import_any_stream(const std::shared_ptr<context>& ctx, ArrowArrayStream& source,
                                  const import_options& options = {},
                                  const std::function<void(std::int64_t)>& progress = {});
/// The same as a table, whatever its arrays are.
table import_stream(const std::shared_ptr<context>& ctx, ArrowArrayStream& source,
                    const import_options& options = {},
                    const std::function<void(std::int64_t)>& progress = {});

/// A batch as a struct array. From a device context this downloads (counted).
/// @throws error out_of_range for a symbol that its table does not have, naming column and row.
void export_batch(const table& source, std::size_t batch_index, ArrowArray& target);
/// @param name  for messages.
void export_column(const column& source, ArrowArray& target, std::string_view name = {});
/// A table as a stream of its batches. On a device they are exported by windows of about `stream_window_bytes`, one transfer each, when
/// the first of a window is asked for. In strict mode error download_forbidden at once: a
/// stream could only pass on its text. The dictionary of symbols grows with the batches: each one begins with the one before.
void export_stream(const table& source, ArrowArrayStream& target);
inline constexpr std::uint64_t stream_window_bytes = std::uint64_t{256} << 20;
/// The pieces of a column as a stream of arrays of its type.
void export_stream(const field& described, std::vector<column> pieces, ArrowArrayStream& target);

} // namespace saeta
