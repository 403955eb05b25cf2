// The fixture of cache tests: a cache over a fault_resource over the pool of a mocked GPU.
#pragma once

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/decorators/fault_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "unit/device/mock_backend.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace saeta::unit {

inline constexpr std::size_t large = 3 << 20; // a block of this size has its own slab

inline std::uintptr_t address(const block& of) { return reinterpret_cast<std::uintptr_t>(of.pointer); }

/// The mock allocates host memory.
class cache_over_driver : public ::testing::Test {
protected:
  cache_over_driver();

  void make(caching_options options, std::shared_ptr<const budget> bound = {}) {
    first_.reset();
    second_.reset();
    made_.reset();
    upstream_ = std::make_shared<fault_resource>(std::make_shared<async_resource>(driver_));
    made_ = std::make_unique<caching_resource>(upstream_, driver_, options, std::move(bound));
    first_.emplace(clocks_);
    second_.emplace(clocks_);
  }
  [[nodiscard]] stream_ref first() const { return first_->ref(); }
  [[nodiscard]] stream_ref second() const { return second_->ref(); }
  [[nodiscard]] block get(std::size_t bytes, stream_ref on) { return made_->allocate(bytes, 0, on); }
  void put(const block& freed, stream_ref on) { EXPECT_TRUE(made_->deallocate(freed, on)); }
  void expect_nothing_held() {
    made_->trim();
    EXPECT_EQ(made_->statistics().in_use, 0U);
    EXPECT_EQ(made_->statistics().held, 0U);
    EXPECT_EQ(made_->statistics().slabs, 0U);
    EXPECT_EQ(upstream_->held_bytes(), 0U);
  }

  std::shared_ptr<backend> memory_ = make_host_backend();
  std::shared_ptr<::testing::NiceMock<mock_backend>> driver_ =
      std::make_shared<::testing::NiceMock<mock_backend>>();
  std::shared_ptr<fault_resource> upstream_;
  std::unique_ptr<caching_resource> made_;
  std::shared_ptr<timelines> clocks_ = timelines::of(*driver_);
  std::optional<own_stream> first_;
  std::optional<own_stream> second_;
};

} // namespace saeta::unit
