#include "saeta/memory/buffer.hpp"

#include "saeta/base/text.hpp"

namespace saeta {

buffer buffer::slice(std::size_t offset, std::size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    throw error(errc::out_of_range,
                concat("slice of ", bytes, " bytes at ", offset, " exceeds a buffer of ", size_, " bytes"));
  }
  buffer part = *this;
  part.offset_ += offset;
  part.size_ = bytes;
  return part;
}

} // namespace saeta
