// The order that the cache keeps (saeta/memory/caching_resource.hpp), on work that is certainly pending.

#include "conformance/backends.hpp"
#include "conformance/device_memory.hpp"
#include "saeta/memory/caching_resource.hpp"
#include "saeta/memory/driver_resources.hpp"

#include <optional>

namespace saeta::conformance {
namespace {

class caching : public backend_test {
protected:
  static constexpr std::size_t size = 3 << 20; // has a slab to itself

  void make(caching_resource::fence_source fence_over = {}) {
    upstream_ = std::make_shared<async_resource>(shared_device());
    cache_.emplace(upstream_, shared_device(), std::make_shared<event_pool>(shared_device()),
                   caching_options{}, std::move(fence_over));
  }
  void TearDown() override {
    for (const stream* each : {&first_, &second_}) {
      device().synchronize_stream(each->ref().native_handle());
    }
    cache_->trim();
    EXPECT_EQ(cache_->statistics().in_use, 0U);
    EXPECT_EQ(cache_->held_bytes(), 0U);
  }
  [[nodiscard]] stream_ref first() const { return first_.ref(); }
  [[nodiscard]] stream_ref second() const { return second_.ref(); }
  void fill(const block& what, std::uint8_t value, stream_ref on) {
    device().fill(what.pointer, value, what.bytes, on.native_handle());
  }
  [[nodiscard]] bool on_host() const { return device().device().kind == device_kind::cpu; }

  /// Reads a block late on one stream, frees it, has it again on `next` and writes it. What the late read saw.
  std::vector<std::uint8_t> reuse(stream_ref next, bool next_runs_ahead) {
    const device_memory seen(first(), size);
    const block before = cache_->allocate(size, 0, first());
    fill(before, 1, first());
    device().synchronize_stream(first().native_handle());
    const auto held = close_gate(first().native_handle());
    device().copy(seen.data(), before.pointer, size,
                  on_host() ? copy_kind::host_to_host : copy_kind::device_to_device, first().native_handle());
    EXPECT_TRUE(cache_->deallocate(before, first()));
    const block after = cache_->allocate(size, 0, next);
    EXPECT_EQ(after.pointer, before.pointer);
    EXPECT_NE(after.generation, before.generation);
    fill(after, 2, next);
    if (next_runs_ahead) {
      device().synchronize_stream(next.native_handle());
    } else if (held) {
      EXPECT_FALSE(next.idle());
    }
    if (held) {
      held->open();
    }
    const auto content = seen.download();
    EXPECT_TRUE(cache_->deallocate(after, next));
    return content;
  }

  std::shared_ptr<async_resource> upstream_;
  std::optional<caching_resource> cache_;

private:
  stream first_{shared_device()};
  stream second_{shared_device()};
};

TEST_P(caching, a_block_of_the_same_stream_comes_after_its_earlier_use) {
  make();
  EXPECT_EQ(reuse(first(), false), std::vector<std::uint8_t>(size, 1));
  EXPECT_EQ(cache_->statistics().steals, 0U);
}

TEST_P(caching, a_block_of_another_stream_comes_after_its_earlier_use) {
  make();
  EXPECT_EQ(reuse(second(), false), std::vector<std::uint8_t>(size, 1));
  EXPECT_EQ(cache_->statistics().steals, 1U);
}

TEST_P(caching, without_the_fence_a_block_of_another_stream_is_corrupted) {
  if (!GetParam().close_gate) {
    make();
    GTEST_SKIP() << "nothing is ever pending on " << GetParam().name;
  }
  expect_races();
  make([](std::uint64_t) { return fence{}; });
  EXPECT_EQ(reuse(second(), true), std::vector<std::uint8_t>(size, 2)) << "the test above can't fail";
}

SAETA_CONFORMANCE_SUITE(caching);

} // namespace
} // namespace saeta::conformance
