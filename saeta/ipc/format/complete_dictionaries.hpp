// The messages of a source, with an empty dictionary for each that is missing before the first batch.
//
// What      Arrow allows the dictionary of a column to follow batches in which the column has only nulls or
//           no rows. libarrow's reader requires all dictionaries first. Indices into an empty dictionary are
//           refused like any index outside its dictionary.
// Owner     Borrows the messages.
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
  /// @param from  begins with the schema message; it must outlive this object.
  explicit complete_dictionaries(arrow::ipc::MessageReader& from);
  complete_dictionaries(const complete_dictionaries&) = delete;
  complete_dictionaries& operator=(const complete_dictionaries&) = delete;
  ~complete_dictionaries() override;

  arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override;

private:
  [[nodiscard]] arrow::Result<std::unique_ptr<arrow::ipc::Message>> next_missing();

  arrow::ipc::MessageReader& from_;
  std::shared_ptr<arrow::Buffer> schema_;             ///< metadata of the schema message
  std::unique_ptr<arrow::ipc::DictionaryMemo> types_; ///< null until a dictionary is missing
  std::set<std::int64_t> missing_;                    ///< ids
  bool given_ = false;                                ///< the source has given at least one dictionary
  std::unique_ptr<arrow::ipc::Message> held_;
};

} // namespace saeta::ipc::detail
