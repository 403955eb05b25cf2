// Memory of which only some ranges are used.
//
// What      Addresses for the whole length; the system gives memory to the pages that are written. So the offsets of a message stay
//           right when some of its columns are read.
// Owner     Its memory, which is charged to nobody.
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
