#include "saeta/staging/lane_words.hpp"

#include "saeta/base/report.hpp"

#include <algorithm>
#include <utility>

namespace saeta {

lane_words::lane_words(std::shared_ptr<backend> device, std::size_t count)
    : device_(std::move(device)), bytes_(count * stride * sizeof(std::uint32_t)),
      first_(static_cast<std::uint32_t*>(device_->allocate_pinned(bytes_))) {
  std::fill_n(first_, count * stride, 0U);
}

lane_words::~lane_words() {
  if (!device_->deallocate_pinned(first_, bytes_)) {
    report("lane_words", "page-locked memory could not be freed");
  }
}

} // namespace saeta
