// Memory that a test allocates directly from a backend.
#pragma once

#include "saeta/device/stream.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace saeta::conformance {

/// Allocates exactly the requested bytes, so that a sanitizer reports an access past them. The destructor
/// waits for the stream and frees the memory.
class device_memory {
public:
  device_memory(stream_ref work, std::size_t bytes)
      : work_(work), bytes_(bytes), pointer_(bytes == 0 ? nullptr : work.owner().allocate(bytes, 0)) {}
  device_memory(stream_ref work, std::span<const std::uint8_t> content)
      : device_memory(work, content.size()) {
    upload(content);
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() {
    work_.owner().synchronize_stream(work_.native_handle());
    EXPECT_TRUE(bytes_ == 0 || work_.owner().deallocate(pointer_, bytes_, 0));
  }

  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(pointer_); }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(pointer_);
  }

  /// Copies the content to the memory and waits.
  void upload(std::span<const std::uint8_t> content) const {
    work_.owner().copy(pointer_, content.data(), content.size(), copy_kind::host_to_device,
                       work_.native_handle());
    work_.owner().synchronize_stream(work_.native_handle());
  }
  /// Returns all bytes after the work queued on the stream so far.
  [[nodiscard]] std::vector<std::uint8_t> download() const {
    std::vector<std::uint8_t> content(bytes_);
    work_.owner().copy(content.data(), pointer_, bytes_, copy_kind::device_to_host, work_.native_handle());
    work_.owner().synchronize_stream(work_.native_handle());
    return content;
  }

private:
  stream_ref work_;
  std::size_t bytes_;
  void* pointer_;
};

} // namespace saeta::conformance
