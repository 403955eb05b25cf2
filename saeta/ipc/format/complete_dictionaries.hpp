// The messages of a source, with an empty dictionary for each that was not given before the first batch.
//
// What      Arrow lets the dictionary of a column come behind batches that have only nulls there, or no rows. libarrow's reader wants
//           all dictionaries first. Indices into the empty one are refused as all outside of their dictionary are.
// Owner     Owns the messages.
// Thread    One.
#pragma once

#include <arrow/ipc/message.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <set>

namespace arrow::ipc {
class DictionaryMemo;
} // namespace arrow::ipc

namespace saeta::ipc::detail {

class complete_dictionaries final : public arrow::ipc::MessageReader {
public:
  /// @param from  begins with its schema.
  explicit complete_dictionaries(std::unique_ptr<arrow::ipc::MessageReader> from);
  complete_dictionaries(const complete_dictionaries&) = delete;
  complete_dictionaries& operator=(const complete_dictionaries&) = delete;
  ~complete_dictionaries() override;

  arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override;

private:
  [[nodiscard]] arrow::Result<std::unique_ptr<arrow::ipc::Message>> next_missing();

  std::unique_ptr<arrow::ipc::MessageReader> from_;
  std::unique_ptr<arrow::ipc::DictionaryMemo> types_;
  std::set<std::int64_t> missing_; ///< ids
  bool given_ = false;             ///< one at least
  std::unique_ptr<arrow::ipc::Message> held_;
};

} // namespace saeta::ipc::detail
