// Imports of host memory from a producer that shows one column after the other, without C structs of whole batches.
//
// What      The same table as `import_stream` (arrow_c.hpp) of the same batches, with the same checks. One struct exists at a time:
//           the structs of a wide batch would be written, read once and dropped.
// Owner     A struct is read before `add` returns and stays the caller's. What its buffers point to is kept by the keepalive of its
//           batch, which the columns share where nothing is copied.
// Thread    One.
// Failure   As imports of arrow_c.hpp. A batch that failed leaves nothing behind.
#pragma once

#include "saeta/interop/arrow/c_data.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace saeta {

class rolling_dictionaries; // interop/arrow/rolling_dictionaries.hpp

class arrow_rows {
public:
  /// @param fields  of the arrays as they come.
  arrow_rows(std::shared_ptr<context> ctx, schema fields, import_options options);
  arrow_rows(const arrow_rows&) = delete;
  arrow_rows& operator=(const arrow_rows&) = delete;
  ~arrow_rows();

  /// The next batch, whose columns follow in the order of the fields.
  void begin(std::int64_t rows);
  void add(const ArrowArray& column);
  /// Brings the batch to the context.
  /// @throws error also invalid_argument for another number of columns than fields.
  void end(std::shared_ptr<void> keepalive);

  /// The batches so far, once.
  [[nodiscard]] table finish();

private:
  std::shared_ptr<context> ctx_;
  schema fields_;
  import_options options_;
  host_batch view_; ///< of the batch that began last
  std::unique_ptr<rolling_dictionaries> dictionaries_;
  std::vector<batch> batches_;
};

} // namespace saeta
