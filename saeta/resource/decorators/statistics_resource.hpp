// Decorator: counts the calls that pass through its position in a stack.
//
// @code
// const auto counted = std::make_shared<statistics_resource>(upstream);
// const block memory = counted->allocate(4096, 0, stream);
// std::cout << counted->read().live_bytes() << '\n'; // 4096
// const bool freed = counted->deallocate(memory, stream);
// @endcode
//
// Thread    Any. Counts are kept by thread and summed when read, so the sum is exact while no thread
//           allocates or frees.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/resource/resource.hpp"

#include <cstdint>
#include <memory>

namespace SAETA_EXPORT saeta {

struct resource_statistics {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failed_allocations = 0;
  std::uint64_t failed_frees = 0;
  std::uint64_t allocated_bytes = 0; ///< sum over all allocations
  std::uint64_t freed_bytes = 0;
  std::uint64_t largest = 0; ///< bytes of the largest allocation

  [[nodiscard]] std::uint64_t live() const noexcept { return allocations - frees; }
  [[nodiscard]] std::uint64_t live_bytes() const noexcept { return allocated_bytes - freed_bytes; }
  friend bool operator==(const resource_statistics&, const resource_statistics&) = default;
};

class statistics_resource final : public decorator {
public:
  explicit statistics_resource(std::shared_ptr<resource> upstream);
  ~statistics_resource() override;

  [[nodiscard]] resource_statistics read() const noexcept;

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& returned, std::span<const point> after) noexcept override;

  struct shards;
  std::unique_ptr<shards> shards_;
};

} // namespace saeta
