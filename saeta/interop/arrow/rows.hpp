// Imports host memory from a producer that shows one column at a time, without C structs of whole batches.
//
// @code
// arrow_rows rows(ctx, orders.fields(), {});
// rows.begin(received.front().length); // a batch whose columns are `received`
// for (const ArrowArray& column : received) {
//   rows.add(column); // reads the struct, which stays the caller's
// }
// rows.end(keepalive); // keeps the memory that the buffers point to
// const table copied = rows.finish();
// @endcode
//
// What      Gives the same table as `import_stream` (c_data.hpp) of the same batches, with the same checks.
//           Only one struct exists at a time. The structs of a whole wide batch would be written, read once
//           and dropped.
// Owner     `add` reads the struct before it returns; the struct stays the caller's. The keepalive of the
//           batch keeps the memory that the buffers point to. The columns share the keepalive if nothing is
//           copied.
// Thread    One.
// Failure   As for the imports of c_data.hpp. A failed batch leaves nothing behind.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/interop/arrow/c_data.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace SAETA_EXPORT saeta {

class rolling_dictionaries; // interop/arrow/import.hpp

class arrow_rows {
public:
  /// @param fields  describe the arrays as the producer sends them.
  arrow_rows(std::shared_ptr<context> ctx, schema fields, import_options options);
  arrow_rows(const arrow_rows&) = delete;
  arrow_rows& operator=(const arrow_rows&) = delete;
  ~arrow_rows();

  /// Begins the next batch. `add` then gets its columns in the order of the fields.
  void begin(std::int64_t rows);
  void add(const ArrowArray& column);
  /// Imports the batch into the context.
  /// @throws error also invalid_argument if the numbers of columns and fields differ.
  void end(std::shared_ptr<void> keepalive);

  /// Returns the batches as a table. Call it once.
  [[nodiscard]] table finish();

private:
  std::shared_ptr<context> ctx_;
  schema fields_;
  import_options options_;
  host_batch view_; ///< of the current batch
  std::unique_ptr<rolling_dictionaries> dictionaries_;
  std::vector<batch> batches_;
};

} // namespace saeta
