// Copies of bytes between host memory and a buffer, done when the call returns.
//
// @code
// const buffer prices = ctx->allocate<float>(values.size());
// copy_from_host(prices, 0, std::as_bytes(values)); // waits for earlier users of the buffer
// std::vector<float> seen(values.size());
// copy_to_host(prices, 0, std::as_writable_bytes(std::span(seen)));
// @endcode
//
// Order     On the context's work stream, under a use token. The host waits, because a copy of page-locked
//           host memory runs asynchronously.
// Failure   out_of_range (naming the numbers), busy, download_forbidden, device.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/memory/buffer.hpp"

#include <cstddef>
#include <span>

namespace SAETA_EXPORT saeta {

void copy_from_host(const buffer& target, std::size_t offset, std::span<const std::byte> source);
void copy_to_host(const buffer& source, std::size_t offset, std::span<std::byte> target);

} // namespace saeta
