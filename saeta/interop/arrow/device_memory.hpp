// Reads values of arrays in memory of a context's device, after the work that is queued on its work stream.
//
// Order     The host waits for each read.
#pragma once

#include "saeta/interop/arrow/array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

class device_memory final : public array_memory {
public:
  /// Borrows the pointer.
  explicit device_memory(const std::shared_ptr<context>& ctx) : ctx_(ctx) {}

  [[nodiscard]] std::int64_t number(const std::byte* at, std::size_t width) const override;
  [[nodiscard]] std::int64_t count_nulls(const std::byte* validity, std::int64_t offset,
                                         std::int64_t length) const override;
  [[nodiscard]] std::vector<std::int64_t> numbers(std::span<const value_request> requests) const override;
  [[nodiscard]] std::vector<std::int64_t> find_bad_rows(check_list list) const override;

private:
  const std::shared_ptr<context>& ctx_;
};

} // namespace saeta
