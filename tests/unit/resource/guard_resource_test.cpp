// The guard over a resource whose addresses the test chooses. tests/conformance/resource runs on every
// backend.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/resource/decorators/guard_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "support/faulty_backend.hpp"
#include "unit/base/raises.hpp"
#include "unit/observe/counted_new.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace saeta {
namespace {

using kind = guard_finding::kind;

/// A resource that allocates from one array at positions chosen by the test, and records all calls.
class arena final : public resource {
public:
  static constexpr std::size_t size = 1 << 20;

  std::size_t next = 0;     ///< offset of the next block
  std::size_t refusals = 0; ///< number of requests that will fail
  errc refused_with = errc::out_of_memory;
  std::size_t trimmable = 0;
  std::vector<allocation_request> asked; ///< all requests, in order
  std::vector<std::uint64_t> given_back; ///< generations of freed blocks, in order
  std::size_t held = 0;
  bool takes_back = true;

  [[nodiscard]] std::uint8_t* at(std::size_t offset) { return bytes_.data() + offset; }
  std::size_t trim() override { return std::exchange(trimmable, 0); }
  [[nodiscard]] std::uint64_t held_bytes() const override { return held; }

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override {
    asked.push_back(request);
    if (refusals != 0) {
      --refusals;
      throw error(refused_with, "the arena is full");
    }
    block made = describe_block(request, stream.owner().device(), host_alignment, stream);
    made.pointer = at(next);
    next += request.bytes;
    held += request.bytes;
    return made;
  }
  bool do_deallocate(const block& freed, std::span<const point>) noexcept override {
    if (!takes_back) {
      return false;
    }
    given_back.push_back(freed.generation);
    held -= freed.bytes;
    return true;
  }

  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(size);
};

class guard_resource_test : public ::testing::Test {
protected:
  guard_resource_test() {
    reported.clear();
    make({});
  }
  ~guard_resource_test() override {
    guard.reset();
    EXPECT_EQ(upstream->held, 0U);
    set_report_sink(before_);
  }
  void make(guard_options options) { guard = std::make_unique<guard_resource>(upstream, device_, options); }
  [[nodiscard]] block take(std::size_t bytes, std::size_t alignment = 0) {
    return guard->allocate(bytes, alignment, stream_.ref());
  }
  void give_back(const block& freed) { EXPECT_TRUE(guard->deallocate(freed, stream_.ref())); }

  std::shared_ptr<arena> upstream = std::make_shared<arena>();
  static inline std::string reported; ///< the last reported message
  std::unique_ptr<guard_resource> guard;

  std::shared_ptr<backend> device_ = make_host_backend();
  stream stream_{device_};

private:
  report_sink before_ =
      set_report_sink([](std::string_view, std::string_view text) noexcept { reported = text; });
};

TEST_F(guard_resource_test, adds_a_canary_at_each_end_and_keeps_the_alignment) {
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{64}, std::size_t{1024}}) {
    upstream->next = 4096;
    const block made = take(1000, alignment);
    const std::size_t front = alignment == 1024 ? 1024 : 256;
    EXPECT_EQ(upstream->asked.back().bytes, front + 1000 + 256);
    EXPECT_EQ(upstream->asked.back().alignment, alignment);
    EXPECT_EQ(made.pointer, upstream->at(4096 + front));
    EXPECT_EQ(made.bytes, 1000U);
    give_back(made);
    guard->trim();
  }
}

TEST_F(guard_resource_test, finds_a_write_to_any_canary_byte) {
  constexpr std::int64_t size = 300;
  for (std::int64_t offset = -256; offset < size + 256; ++offset) {
    const std::size_t so_far = guard->findings().size();
    const bool inside = offset >= 0 && offset < size;
    upstream->next = 0;
    const block made = take(size);
    static_cast<std::uint8_t*>(made.pointer)[offset] = 7;
    EXPECT_EQ(guard->check(), so_far + (inside ? 0 : 1)) << offset;
    if (!inside) {
      EXPECT_EQ(guard->findings().back().found, offset < 0 ? kind::front_canary : kind::back_canary);
      EXPECT_EQ(guard->findings().back().offset, offset);
    }
    give_back(made);
    guard->trim();
  }
}

TEST_F(guard_resource_test, finds_a_write_to_any_byte_after_the_free) {
  constexpr std::int64_t size = 300;
  for (std::int64_t offset = 0; offset < size; ++offset) {
    upstream->next = 0;
    const block made = take(size);
    give_back(made);
    static_cast<std::uint8_t*>(made.pointer)[offset] = 7;
    guard->trim();
    ASSERT_EQ(guard->findings().size(), static_cast<std::size_t>(offset) + 1);
    EXPECT_EQ(guard->findings().back().found, kind::written_after_free);
    EXPECT_EQ(guard->findings().back().offset, offset);
    EXPECT_NE(guard->findings().back().text.find(": 7 instead of 221"), std::string::npos);
  }
}

TEST_F(guard_resource_test, checks_a_block_of_one_byte) {
  const block freed = take(1);
  give_back(freed);
  ++*static_cast<std::uint8_t*>(freed.pointer);
  ASSERT_EQ(guard->check(), 1U);
  EXPECT_EQ(guard->findings().back().found, kind::written_after_free);
  const block live = take(1);
  ++*(static_cast<std::uint8_t*>(live.pointer) + 1);
  EXPECT_EQ(guard->check(), 2U);
  EXPECT_EQ(guard->findings().back().found, kind::back_canary);
  give_back(live);
  guard->empty_quarantine();
  EXPECT_EQ(upstream->held, 0U);
}

TEST_F(guard_resource_test, frees_a_block_of_one_byte_from_quarantine) {
  constexpr std::size_t inner = 256 + 1 + 256;
  make({.quarantine = 1 << 10});
  give_back(take(1));
  EXPECT_EQ(guard->empty_quarantine(), inner);
  EXPECT_EQ(upstream->held, 0U);
  give_back(take(1));
  EXPECT_EQ(guard->trim(), inner);
  EXPECT_EQ(upstream->held, 0U);
}

TEST_F(guard_resource_test, reports_the_first_wrong_byte_of_each_kind) {
  const block made = take(300);
  auto* const bytes = static_cast<std::uint8_t*>(made.pointer);
  std::fill(bytes - 20, bytes - 10, std::uint8_t{7});
  std::fill(bytes + 310, bytes + 320, std::uint8_t{7});
  EXPECT_EQ(guard->check(), 2U);
  EXPECT_EQ(guard->findings()[0].offset, -20);
  EXPECT_EQ(guard->findings()[1].offset, 310);
  EXPECT_EQ(guard->check(), 2U);
  give_back(made);
  bytes[5] = 7;
  EXPECT_EQ(guard->check(), 3U) << "of another kind";
  EXPECT_EQ(guard->findings()[2].offset, 5);
  EXPECT_EQ(guard->check(), 3U);
}

TEST_F(guard_resource_test, finds_overlaps_at_any_position) {
  constexpr std::size_t canaries = 256 + 256;
  struct {
    std::size_t begin;
    std::size_t bytes; ///< with canaries
    bool overlaps;
  } const cases[] = {
      {0, 3000, false},    {0, 3001, true},     {2000, 1000, false}, {2000, 1001, true}, {3000, 1000, true},
      {3000, 600, true},   {3999, 600, true},   {3100, 600, true},   {3500, 5000, true}, {2900, 5000, true},
      {4000, 1000, false}, {4001, 1000, false}, {6000, 1000, false}, {2400, 600, false},
  };
  for (const auto& each : cases) {
    const std::size_t so_far = guard->findings().size();
    upstream->next = 3000;
    const block standing = take(1000 - canaries);
    upstream->next = each.begin;
    const block added = take(each.bytes - canaries);
    EXPECT_EQ(guard->findings().size() - so_far, each.overlaps ? 1U : 0U) << each.begin << ' ' << each.bytes;
    if (each.overlaps) {
      EXPECT_EQ(guard->findings().back().found, kind::overlap);
      EXPECT_EQ(guard->findings().back().generation, added.generation);
    }
    give_back(added);
    give_back(standing);
    guard->trim(); // freed blocks can't overlap
  }
}

TEST_F(guard_resource_test, finds_overlaps_with_blocks_in_quarantine) {
  give_back(take(100));
  upstream->next = 50;
  give_back(take(10));
  ASSERT_EQ(guard->findings().size(), 1U);
  EXPECT_EQ(guard->findings()[0].found, kind::overlap);
}

TEST_F(guard_resource_test, keeps_the_newest_blocks_in_quarantine_up_to_its_limit) {
  constexpr std::size_t inner = 256 + 100 + 256;
  make({.quarantine = 3 * inner});
  std::vector<std::uint64_t> freed;
  for (std::size_t i = 0; i < 8; ++i) {
    const block made = take(100);
    freed.push_back(made.generation);
    give_back(made);
    EXPECT_EQ(upstream->held, std::min<std::size_t>(i + 1, 3) * inner);
  }
  EXPECT_EQ(upstream->given_back.size(), 5U);
  EXPECT_EQ(guard->empty_quarantine(), 3 * inner);
  EXPECT_EQ(guard->empty_quarantine(), 0U);
  EXPECT_EQ(upstream->given_back, freed) << "the oldest first";
}

TEST_F(guard_resource_test, frees_immediately_without_a_quarantine) {
  make({.quarantine = 0});
  give_back(take(100));
  EXPECT_EQ(upstream->given_back.size(), 1U);
}

TEST_F(guard_resource_test, frees_its_quarantine_before_a_request_fails) {
  give_back(take(100));
  upstream->refusals = 1;
  const block made = take(200);
  EXPECT_EQ(upstream->given_back.size(), 1U);
  give_back(made);
  upstream->refusals = 2;
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(take(200)); }), errc::out_of_memory);
  EXPECT_EQ(upstream->refusals, 0U);
}

TEST_F(guard_resource_test, trim_returns_the_bytes_freed_from_quarantine) {
  give_back(take(100));
  EXPECT_EQ(guard->trim(), 256U + 100 + 256);
  EXPECT_EQ(guard->trim(), 0U);
}

TEST_F(guard_resource_test, identifies_a_block_by_generation_and_address) {
  const block made = take(100);
  block another = made;
  another.generation = next_generation();
  EXPECT_FALSE(guard->deallocate(another, std::span<const point>()));
  another = made;
  another.pointer = upstream->at(0);
  EXPECT_FALSE(guard->deallocate(another, std::span<const point>()));
  ASSERT_EQ(guard->findings().size(), 2U);
  EXPECT_EQ(guard->findings()[0].found, kind::unknown_block);
  EXPECT_EQ(guard->findings()[1].found, kind::unknown_block);
  give_back(made);
}

TEST_F(guard_resource_test, reports_at_its_end_that_blocks_could_not_be_freed) {
  give_back(take(100));
  guard.reset();
  EXPECT_EQ(reported, "");
  make({});
  give_back(take(100));
  upstream->takes_back = false;
  guard.reset();
  EXPECT_EQ(reported, "blocks in quarantine could not be freed");
  upstream->held = 0;
}

TEST_F(guard_resource_test, passes_on_requests_of_zero_bytes) {
  const block none = take(0);
  EXPECT_EQ(upstream->asked.back().bytes, 0U);
  give_back(none);
  EXPECT_EQ(upstream->given_back.size(), 1U);
  EXPECT_EQ(guard->check(), 0U);
}

TEST_F(guard_resource_test, describes_errors_in_words) {
  upstream->next = 0;
  const block made = guard->allocate({.bytes = 300, .label = "orders"}, stream_.ref());
  auto* const bytes = static_cast<std::uint8_t*>(made.pointer);
  const std::string block_text =
      concat("block 'orders' of 300 bytes at ", made.pointer, " (generation ", made.generation, "): ");
  bytes[-256] = 7;
  bytes[300] = 8;
  EXPECT_EQ(guard->check(), 2U);
  give_back(made);
  EXPECT_FALSE(guard->deallocate(made, stream_.ref()));
  bytes[0] = 9;
  EXPECT_EQ(guard->check(), 4U);
  upstream->next = 0;
  const block other = guard->allocate({.bytes = 300, .label = "orders"}, stream_.ref());
  const auto found = guard->findings();
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[0].text,
            block_text + "bytes before it were overwritten, first at byte -256: 7 instead of 203");
  EXPECT_EQ(found[1].text,
            block_text + "bytes behind it were overwritten, first at byte 300: 8 instead of 203");
  EXPECT_EQ(found[2].text, block_text + "it is freed, but not alive: freed twice, or never allocated here");
  EXPECT_EQ(found[3].text,
            block_text + "it was written to after its free, first at byte 0: 9 instead of 221");
  EXPECT_EQ(found[4].text, concat("block 'orders' of 300 bytes at ", other.pointer, " (generation ",
                                  other.generation, "): it overlaps a block that is alive or in quarantine"));
  EXPECT_EQ(reported, found[4].text);
  EXPECT_EQ(found[0].address, reinterpret_cast<std::uintptr_t>(made.pointer));
  EXPECT_EQ(found[2].offset, 0);
  EXPECT_EQ(found[4].offset, 0);
  give_back(other);
}

TEST_F(guard_resource_test, keeps_a_block_in_quarantine_if_its_free_fails) {
  constexpr std::size_t inner = 256 + 100 + 256;
  give_back(take(100));
  give_back(take(100));
  upstream->takes_back = false;
  EXPECT_EQ(guard->empty_quarantine(), 0U);
  EXPECT_EQ(guard->trim(), 0U);
  upstream->next = 0;
  upstream->takes_back = true;
  const block over = take(100);
  EXPECT_EQ(guard->findings().size(), 1U) << "it is in quarantine still";
  EXPECT_EQ(guard->empty_quarantine(), 2 * inner);
  EXPECT_EQ(guard->findings().size(), 2U) << "its poison was painted over";
  give_back(over);
}

TEST_F(guard_resource_test, leaves_a_block_with_its_caller_if_its_free_fails) {
  make({.quarantine = 0});
  const block made = take(100);
  upstream->takes_back = false;
  EXPECT_FALSE(guard->deallocate(made, stream_.ref()));
  static_cast<std::uint8_t*>(made.pointer)[0] = 7; // as it may
  EXPECT_EQ(guard->check(), 0U);
  upstream->takes_back = true;
  give_back(made);
  EXPECT_EQ(guard->findings().size(), 0U);
  EXPECT_EQ(guard->empty_quarantine(), 0U);
}

TEST_F(guard_resource_test, trim_returns_the_larger_of_its_own_and_upstreams_freed_bytes) {
  give_back(take(100));
  upstream->trimmable = 5000;
  EXPECT_EQ(guard->trim(), 5000U);
  give_back(take(100));
  upstream->trimmable = 5;
  EXPECT_EQ(guard->trim(), 256U + 100 + 256);
}

TEST_F(guard_resource_test, refuses_sizes_that_overflow_with_canaries) {
  EXPECT_EQ(
      unit::code_raised_by([&] { static_cast<void>(take(std::numeric_limits<std::size_t>::max() - 300)); }),
      errc::overflow);
  EXPECT_TRUE(upstream->asked.empty());
}

TEST_F(guard_resource_test, keeps_its_quarantine_after_failures_other_than_lack_of_memory) {
  give_back(take(100));
  upstream->refusals = 1;
  upstream->refused_with = errc::device;
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(take(200)); }), errc::device);
  EXPECT_TRUE(upstream->given_back.empty());
}

TEST_F(guard_resource_test, frees_a_block_that_it_has_no_memory_to_track) {
  constexpr std::size_t enough = 100;
  upstream->asked.reserve(enough);
  upstream->given_back.reserve(enough);
  block made;
  for (std::size_t successes = 0; made.bytes == 0 && successes < enough; ++successes) {
    upstream->next = 0;
    try {
      const unit::failing_new no_memory(successes);
      made = take(100);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(upstream->held, 0U);
    }
  }
  give_back(made);
  EXPECT_TRUE(guard->findings().empty()) << guard->findings().front().text;
}

/// A guard on a device whose calls fail.
class guard_on_a_broken_device : public guard_resource_test {
protected:
  guard_on_a_broken_device() { guard = std::make_unique<guard_resource>(upstream, broken, guard_options{}); }
  ~guard_on_a_broken_device() override { broken->fail_at(0); }

  std::shared_ptr<testing::faulty_backend> broken =
      std::make_shared<testing::faulty_backend>(make_host_backend());
  stream on{broken};
};

TEST_F(guard_on_a_broken_device, frees_a_block_that_it_could_not_fill) {
  for (const bool taken_back : {true, false}) {
    for (const std::uint64_t call : {1U, 2U, 3U}) { // the fills of both canaries and of the poison
      upstream->takes_back = taken_back;
      upstream->given_back.clear();
      reported.clear();
      broken->fail_at(call);
      EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(guard->allocate(100, 0, on.ref())); }),
                errc::device);
      broken->fail_at(0);
      EXPECT_EQ(upstream->given_back.size(), taken_back ? 1U : 0U);
      EXPECT_EQ(reported, taken_back ? "" : "a block that could not be guarded could not be freed");
      EXPECT_EQ(guard->check(), 0U);
    }
  }
  upstream->takes_back = true;
  upstream->held = 0;
}

TEST_F(guard_on_a_broken_device, leaves_a_block_with_its_caller_if_it_can_not_be_poisoned) {
  const block made = guard->allocate(100, 0, on.ref());
  broken->fail_at(1);
  EXPECT_FALSE(guard->deallocate(made, std::span<const point>()));
  broken->fail_at(0);
  static_cast<std::uint8_t*>(made.pointer)[0] = 7; // as it may
  EXPECT_EQ(guard->check(), 0U);
  EXPECT_EQ(guard->empty_quarantine(), 0U);
  EXPECT_TRUE(guard->deallocate(made, std::span<const point>()));
  EXPECT_EQ(guard->empty_quarantine(), 256U + 100 + 256);
}

TEST_F(guard_on_a_broken_device, keeps_a_block_that_it_could_not_check) {
  const block made = guard->allocate(100, 0, on.ref());
  EXPECT_TRUE(guard->deallocate(made, std::span<const point>()));
  broken->fail_at(1);
  EXPECT_EQ(guard->empty_quarantine(), 0U);
  broken->fail_at(0);
  EXPECT_TRUE(upstream->given_back.empty());
  EXPECT_EQ(guard->empty_quarantine(), 256U + 100 + 256);
}

} // namespace
} // namespace saeta
