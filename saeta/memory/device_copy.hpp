// Small host arrays copied to the device as arguments of one kernel, and the numbers that a kernel returns.
//
// @code
// const std::array<std::int64_t, 3> limits{10, 20, 30}; // on the host it is used in place: keep it
// const device_copy<std::int64_t> uploaded(ctx, limits);
// use_token token(ctx->work_stream(), {reads(uploaded.memory()), writes(bytes)});
// launch(token.stream(), uploaded.data(token), token.span<float>(bytes).data());
// token.finish();
// @endcode
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/required.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

/// On the host it refers to the array, which must outlive the work. Elsewhere it copies the array on the
/// context's work stream.
/// @tparam T  trivially copyable.
template <class T>
class device_copy {
public:
  device_copy(const std::shared_ptr<context>& ctx, std::span<const T> values) : values_(values.data()) {
    require_argument(ctx, "ctx");
    if (values.empty() || ctx->on_host()) {
      return;
    }
    const stream_ref work = ctx->work_stream();
    copy_ = buffer::allocate(ctx, values.size_bytes(), work, "kernel arguments");
    use_token token(work, {writes(copy_)});
    ctx->copies().send_description(token.span<std::byte>(copy_).data(), std::as_bytes(values), work);
    token.finish();
  }

  /// Absent if nothing was copied.
  [[nodiscard]] const buffer& memory() const noexcept { return copy_; }
  /// @param token  must name `memory()` for reading.
  [[nodiscard]] const T* data(const use_token& token) const {
    return copy_.present() ? token.span<const T>(copy_).data() : values_;
  }

private:
  const T* values_;
  buffer copy_;
};

/// Returns `count` numbers that `compute(token, target)` writes on the context's work stream. They are read
/// in one copy, and the host waits for them.
/// @param described  buffer that the kernel reads; may be absent.
template <class Compute>
[[nodiscard]] std::vector<std::int64_t> kernel_results(const std::shared_ptr<context>& ctx, std::size_t count,
                                                       const buffer& described, Compute compute) {
  require_argument(ctx, "ctx");
  std::vector<std::int64_t> values(count);
  if (count != 0) {
    const stream_ref work = ctx->work_stream();
    const buffer target = buffer::allocate(ctx, count * sizeof(std::int64_t), work, "kernel results");
    use_token token(work, {reads(described), writes(target)});
    auto* const written = token.span<std::int64_t>(target).data();
    compute(token, written);
    ctx->copies().read_scalars(values, written, work);
    token.finish();
  }
  return values;
}

/// Reads the value of each request. The caller keeps the requested memory alive and orders its use.
[[nodiscard]] inline std::vector<std::int64_t> read_values(const std::shared_ptr<context>& ctx,
                                                           std::span<const value_request> requests) {
  const device_copy<value_request> uploaded(ctx, requests);
  return kernel_results(
      ctx, requests.size(), uploaded.memory(), [&](const use_token& token, std::int64_t* values) {
        ctx->kernels().read_values(token.stream().native_handle(), requests, uploaded.data(token), values);
      });
}

} // namespace saeta
