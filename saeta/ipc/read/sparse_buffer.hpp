// A buffer in which only some ranges are used.
//
// What      Reserves addresses for the whole length. The system allocates only the pages that are written. So
//           the offsets of a message stay valid when only some of its columns are read.
// Owner     Owns its memory, which is not charged to a budget.
// Failure   error out_of_memory.
#pragma once

#include <arrow/buffer.h>

#include <cstdint>
#include <memory>

namespace saeta::ipc::detail {

class sparse_buffer final : public arrow::MutableBuffer {
public:
  static std::shared_ptr<sparse_buffer> make(std::int64_t bytes);
  ~sparse_buffer() override;

private:
  using arrow::MutableBuffer::MutableBuffer;
};

} // namespace saeta::ipc::detail
