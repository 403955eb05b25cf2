// Page-locked host memory as the target of copies behind a closed gate. A copy from the device to pageable
// memory is synchronous and would hang.
#pragma once

#include "saeta/device/backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

namespace saeta::conformance {

class pinned_bytes {
public:
  /// Allocates zeroed bytes.
  pinned_bytes(std::shared_ptr<saeta::backend> device, std::size_t size)
      : device_(std::move(device)), size_(size),
        data_(static_cast<std::uint8_t*>(device_->allocate_pinned(size))) {
    std::memset(data_, 0, size_);
  }
  pinned_bytes(const pinned_bytes&) = delete;
  pinned_bytes& operator=(const pinned_bytes&) = delete;
  /// Copies into the memory must have finished.
  ~pinned_bytes() { EXPECT_TRUE(device_->deallocate_pinned(data_, size_)); }

  [[nodiscard]] std::uint8_t* data() const { return data_; }
  [[nodiscard]] bool all_are(std::uint8_t value) const {
    return std::all_of(data_, data_ + size_, [&](std::uint8_t byte) { return byte == value; });
  }

private:
  std::shared_ptr<saeta::backend> device_;
  std::size_t size_;
  std::uint8_t* data_;
};

} // namespace saeta::conformance
