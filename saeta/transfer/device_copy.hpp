// Small arrays of the host on the device for one kernel: descriptions of its work.
#pragma once

#include "saeta/memory/use_token.hpp"

#include <memory>
#include <span>

namespace saeta {

/// @tparam T  trivially copyable. On the host the array itself is used, which outlives the work; elsewhere it is copied on the
/// context's work stream.
template <class T>
class device_copy {
public:
  device_copy(const std::shared_ptr<context>& home, std::span<const T> values) : values_(values.data()) {
    if (values.empty() || home->on_host()) {
      return;
    }
    const stream_ref work = home->work_stream();
    copy_ = buffer::allocate(home, values.size_bytes(), work, "kernel arguments");
    use_token token(work, {writes(copy_)});
    home->send_description(token.mutable_data<std::byte>(copy_), std::as_bytes(values), work);
    token.finish();
  }

  /// Absent where nothing was copied.
  [[nodiscard]] const buffer& memory() const noexcept { return copy_; }
  /// @param token  names `memory()` for reading.
  [[nodiscard]] const T* data(const use_token& token) const {
    return copy_.present() ? token.data<T>(copy_) : values_;
  }

private:
  const T* values_;
  buffer copy_;
};

} // namespace saeta
