// Small arrays of the host on the device for one kernel: descriptions of its work, and the numbers that it finds.
#pragma once

#include "saeta/device/kernels.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// @tparam T  trivially copyable. On the host the array itself is used, which outlives the work; elsewhere it is copied on the
/// context's work stream.
template <class T>
class device_copy {
public:
  device_copy(const std::shared_ptr<context>& ctx, std::span<const T> values) : values_(values.data()) {
    if (values.empty() || ctx->on_host()) {
      return;
    }
    const stream_ref work = ctx->work_stream();
    copy_ = buffer::allocate(ctx, values.size_bytes(), work, "kernel arguments");
    use_token token(work, {writes(copy_)});
    ctx->copies().send_description(token.mutable_data<std::byte>(copy_), std::as_bytes(values), work);
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

/// `count` numbers that `compute(token, target)` writes on the context's work stream, read in one go: the host waits for them.
/// @param described  what the kernel reads, may be absent.
template <class Compute>
std::vector<std::int64_t> kernel_results(const std::shared_ptr<context>& ctx, std::size_t count,
                                         const buffer& described, Compute compute) {
  std::vector<std::int64_t> values(count);
  if (count != 0) {
    const stream_ref work = ctx->work_stream();
    const buffer target = buffer::allocate(ctx, count * sizeof(std::int64_t), work, "kernel results");
    use_token token(work, {reads(described), writes(target)});
    auto* const written = token.mutable_data<std::int64_t>(target);
    compute(token, written);
    ctx->copies().read_scalars(values, written, work);
    token.finish();
  }
  return values;
}

/// What each request asks for. The caller keeps the memory that they name in place and in order.
inline std::vector<std::int64_t> read_values(const std::shared_ptr<context>& ctx,
                                             std::span<const value_request> requests) {
  const device_copy<value_request> uploaded(ctx, requests);
  return kernel_results(
      ctx, requests.size(), uploaded.memory(), [&](const use_token& token, std::int64_t* values) {
        ctx->kernels().read_values(token.stream().native_handle(), requests, uploaded.data(token), values);
      });
}

} // namespace saeta
