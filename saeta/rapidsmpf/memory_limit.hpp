// The limit of a rapidsmpf::BufferResource that allocates from a context.
//
// @code
// const auto shuffles = ctx->with_budget("rapidsmpf", std::uint64_t{8} << 30);
// const auto limited =
//     rapidsmpf::BufferResource::create(context_resource(shuffles, "rapidsmpf"),
//                                       rapidsmpf::PinnedMemoryDisabled, memory_limits_of(*shuffles));
// @endcode
//
// What      rapidsmpf computes what is available as its limit less what it has allocated itself. It receives
//           into host memory, or spills, when that is too little. The budget counts everything, and refuses
//           what does not fit whatever rapidsmpf computes. The two agree as long as rapidsmpf alone charges
//           the budget, so give it one of its own. Tables that `unpack_data` takes over are charged there,
//           too; it sets the limit again.
// Thread    Any.
// Links     librapidsmpf (26.10).
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/rmm/context_resource.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <rapidsmpf/memory/buffer_resource.hpp>
#include <rapidsmpf/memory/memory_type.hpp>
#include <unordered_map>

namespace saeta {

/// The limit for device memory: the bytes that `ctx` can still allocate within its budget, or of its
/// reservation. Memory of rapidsmpf on the host is not charged.
[[nodiscard]] inline std::unordered_map<rapidsmpf::MemoryType, std::int64_t>
memory_limits_of(const context& ctx) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const reservation* const drawn = ctx.drawn_from();
  const std::uint64_t left = drawn != nullptr ? drawn->left() : ctx.memory_budget()->statistics().remaining;
  return {{rapidsmpf::MemoryType::DEVICE, static_cast<std::int64_t>(std::min(left, most))}};
}

/// Sets the limit so that rapidsmpf sees as available what its context can still allocate. Does nothing if
/// rapidsmpf does not allocate from a context.
/// @param leaving  bytes that rapidsmpf is about to give up, and that stay charged
inline void update_memory_limit(rapidsmpf::BufferResource& of, std::size_t leaving = 0) {
  rmm::device_async_resource_ref below = of.device_mr_adaptor().get_upstream_resource();
  if (const auto* const from = cuda::mr::resource_cast<context_resource>(&below)) {
    const std::int64_t allocated =
        of.device_mr_adaptor().current_allocated() - static_cast<std::int64_t>(leaving);
    const std::int64_t left = memory_limits_of(*from->ctx()).at(rapidsmpf::MemoryType::DEVICE);
    of.set_memory_limit(rapidsmpf::MemoryType::DEVICE,
                        std::min(left, std::numeric_limits<std::int64_t>::max() - allocated) + allocated);
  }
}

} // namespace saeta
