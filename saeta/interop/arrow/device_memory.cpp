#include "saeta/interop/arrow/device_memory.hpp"

#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/host_window.hpp"

namespace saeta {

std::int64_t device_memory::number(const std::byte* at, std::size_t width) const {
  std::byte value[sizeof(std::int64_t)];
  ctx_->copies().read_scalar(value, at, width, ctx_->work_stream());
  return read_offset(value, width, 0);
}

std::int64_t device_memory::count_nulls(const std::byte* validity, std::int64_t offset,
                                        std::int64_t length) const {
  const auto count = [&](const use_token& token, std::int64_t* counted) {
    ctx_->kernels().count_nulls(token.stream().native_handle(),
                                reinterpret_cast<const std::uint8_t*>(validity), offset, length, counted);
  };
  return kernel_results(ctx_, 1, {}, count).front();
}

std::vector<std::int64_t> device_memory::numbers(std::span<const value_request> requests) const {
  return read_values(ctx_, requests);
}

std::vector<std::int64_t> device_memory::find_bad_rows(check_list list) const {
  if (list.checks.empty()) {
    return {};
  }
  const device_copy<std::int64_t> tables(ctx_, list.tables);
  use_token described(ctx_->work_stream(), {reads(tables.memory())});
  set_tables(list, tables.data(described));
  number_tiles(list.checks);
  const device_copy<value_check> uploaded(ctx_, list.checks);
  return kernel_results(
      ctx_, list.checks.size(), uploaded.memory(), [&](const use_token& token, std::int64_t* rows) {
        ctx_->kernels().check_values(token.stream().native_handle(), list.checks, uploaded.data(token), rows);
      });
}

} // namespace saeta
