// Sharing device memory between processes: descriptions of shared bytes, imported pools, and when the
// exporter may free.
//
// On sim one process plays both parts, because it can import its own pool. On CUDA only the exporter is
// tested here; tests/interop/test_gpu_cuda_sharing.py uses two processes.
#include "conformance/harness/backends.hpp"
#include "saeta/base/error.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/imported_pool.hpp"
#include "saeta/memory/use_token.hpp"
#include "support/faulty_backend.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace saeta::conformance {
namespace {

constexpr std::size_t size = 5000;

class imported_pools : public backend_test {
protected:
  [[nodiscard]] bool on_host() const { return device().device().kind == device_kind::cpu; }
  /// Returns whether a process can import its own pool.
  [[nodiscard]] bool imports_own() const { return backend_name({GetParam(), 0}) == "sim"; }

  std::shared_ptr<context> exportable(resource_kind base = resource_kind::caching) {
    context_options options;
    options.memory.exportable_pool = true;
    options.memory.base = base;
    return new_context(std::move(options));
  }
  static buffer filled(const std::shared_ptr<context>& ctx, std::uint8_t value, std::size_t bytes = size) {
    buffer made = buffer::allocate(ctx, bytes, ctx->work_stream(), "shared");
    fill(made, value);
    return made;
  }
  static void fill(const buffer& bytes, std::uint8_t value) {
    const std::shared_ptr<context>& ctx = bytes.owner()->ctx();
    use_token token(ctx->work_stream(), {writes(bytes)});
    ctx->copies().fill(token.span<std::byte>(bytes).data(), value, bytes.size(), ctx->work_stream());
  }
  static std::vector<std::uint8_t> content(const buffer& bytes) {
    const std::shared_ptr<context>& ctx = bytes.owner()->ctx();
    std::vector<std::uint8_t> found(bytes.size());
    use_token token(ctx->work_stream(), {reads(bytes)});
    ctx->copies().copy(found.data(), token.span<const std::byte>(bytes).data(), found.size(),
                       copy_kind::device_to_host, ctx->work_stream());
    token.finish();
    ctx->synchronize(ctx->work_stream());
    return found;
  }
  static bool all(const std::vector<std::uint8_t>& bytes, std::uint8_t value) {
    return std::ranges::all_of(bytes, [&](std::uint8_t each) { return each == value; });
  }
  static std::shared_ptr<imported_pool> import(context& ctx) {
    const int descriptor = ctx.device_backend()->export_pool();
    auto pool = imported_pool::open(ctx, descriptor);
    EXPECT_EQ(::close(descriptor), 0);
    return pool;
  }
  /// Makes a lease that sets `dropped` when it is released.
  static std::shared_ptr<void> lease(bool& dropped) {
    return {&dropped, [](void* flag) { *static_cast<bool*>(flag) = true; }};
  }
  static errc code_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const error& refused) {
      return refused.code();
    }
    ADD_FAILURE() << "accepted";
    return errc::io;
  }
};

TEST_P(imported_pools, do_not_exist_on_the_host) {
  if (!on_host()) {
    GTEST_SKIP() << "of the host";
  }
  const auto ctx = new_context();
  EXPECT_EQ(code_of([&] { static_cast<void>(device().export_pool()); }), errc::unsupported);
  EXPECT_EQ(code_of([&] { static_cast<void>(imported_pool::open(*ctx, 0)); }), errc::unsupported);
  EXPECT_EQ(code_of([&] { static_cast<void>(share_bytes(filled(ctx, 1))); }), errc::unsupported);
}

TEST_P(imported_pools, require_a_context_with_an_exportable_pool) {
  if (on_host()) {
    GTEST_SKIP() << "the host has no pool";
  }
  const auto ctx = new_context();
  const buffer made = filled(ctx, 1);
  try {
    static_cast<void>(share_bytes(made));
    ADD_FAILURE() << "accepted";
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::unsupported);
    EXPECT_NE(refused.message().find("exportable_pool"), std::string::npos) << refused.message();
  }
  EXPECT_EQ(code_of([&] { static_cast<void>(device().export_pool()); }), errc::unsupported);
  EXPECT_EQ(code_of([&] { static_cast<void>(device().export_allocation(made.owner()->pointer())); }),
            errc::unsupported);
}

TEST_P(imported_pools, of_copies_exist_beside_the_pool_of_a_context) {
  const auto ctx = new_context();
  const buffer made = filled(ctx, 5);
  if (on_host()) {
    EXPECT_EQ(code_of([&] { static_cast<void>(shareable(made, "copy")); }), errc::unsupported);
    return;
  }
  const std::uint64_t before = ctx->memory_budget()->statistics().current;
  buffer copy = shareable(made, "copy");
  fill(made, 6); // after the copy, in stream order
  EXPECT_EQ(ctx->memory_budget()->statistics().current, before + size);
  EXPECT_THAT(ctx->reports().live_by_tag(), ::testing::Contains(::testing::Pair("copy", size)));
  EXPECT_TRUE(all(content(copy), 5));
  EXPECT_EQ(shareable(copy, "again").owner(), copy.owner()) << "it is shareable already";
  EXPECT_EQ(code_of([&] { static_cast<void>(share_bytes(made)); }), errc::unsupported);
  const shared_bytes named = share_bytes(copy);
  EXPECT_EQ(named.base + named.offset, copy.address());
  const int descriptor = ctx->export_pool();
  EXPECT_GE(descriptor, 0);
  if (imports_own()) {
    const export_hold kept({&copy, 1}, access::read);
    const auto pool = imported_pool::open(*ctx, descriptor);
    bool dropped = false;
    EXPECT_TRUE(all(content(pool->open_bytes(ctx, named, lease(dropped), "opened")), 5));
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_TRUE(dropped);
  }
  EXPECT_EQ(::close(descriptor), 0);
  copy = {};
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx->memory_budget()->statistics().current, before);
}

TEST_P(imported_pools, of_exportable_contexts_need_no_copy) {
  if (on_host()) {
    GTEST_SKIP() << "the host has no pool";
  }
  const auto ctx = exportable();
  const buffer made = filled(ctx, 5);
  EXPECT_EQ(shareable(made, "copy").owner(), made.owner());
}

TEST_P(imported_pools, identify_bytes_by_allocation_and_offset) {
  if (on_host()) {
    GTEST_SKIP() << "the host has no pool";
  }
  for (const resource_kind base : {resource_kind::caching, resource_kind::async}) {
    const auto ctx = exportable(base);
    const buffer first = filled(ctx, 1);
    const buffer second = filled(ctx, 2);
    const shared_bytes a = share_bytes(first.slice(100, 50));
    const shared_bytes b = share_bytes(second);
    EXPECT_EQ(a.base + a.offset, first.address() + 100);
    EXPECT_EQ(a.bytes, 50U);
    EXPECT_EQ(b.base + b.offset, second.address());
    EXPECT_LE(b.offset + b.bytes, b.allocation_bytes);
    EXPECT_EQ(a.base == b.base, base == resource_kind::caching) << "one slab";
    const int descriptor = device().export_pool();
    EXPECT_EQ(::fcntl(descriptor, F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(::close(descriptor), 0);
    if (base == resource_kind::caching) {
      EXPECT_EQ(code_of([&] { static_cast<void>(share_bytes(first.slice(10, 0))); }), errc::invalid_argument);
    }
  }
}

TEST_P(imported_pools, share_allocations_of_every_size) {
  if (on_host()) {
    GTEST_SKIP() << "the host has no pool";
  }
  const std::size_t large = device().properties().largest_pool_export + 1;
  for (const resource_kind base : {resource_kind::caching, resource_kind::async}) {
    const auto ctx = exportable(base);
    buffer made = filled(ctx, 7, large);
    fill(made.slice(large - 10, 10), 9);
    const shared_bytes named = share_bytes(made.slice(large - 20, 20));
    EXPECT_EQ(named.base + named.offset, made.address() + large - 20);
    EXPECT_GE(named.allocation_bytes, large);
    if (!imports_own()) {
      continue;
    }
    const export_hold kept({&made, 1}, access::read_write);
    const auto pool = import(*ctx);
    bool dropped = false;
    {
      const buffer seen = pool->open_bytes(ctx, named, lease(dropped), "opened");
      EXPECT_NE(seen.address(), made.address() + large - 20);
      EXPECT_TRUE(all(content(seen.slice(0, 10)), 7));
      EXPECT_TRUE(all(content(seen.slice(10, 10)), 9));
      EXPECT_FALSE(dropped);
    }
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_TRUE(dropped);
  }
}

TEST_P(imported_pools, refuse_memory_outside_of_the_pool) {
  if (on_host()) {
    GTEST_SKIP() << "the host has no pool";
  }
  const auto ctx = exportable();
  const buffer pinned = buffer::allocate(ctx, size, ctx->work_stream(), "pinned", 0, memory_kind::pinned);
  EXPECT_EQ(code_of([&] { static_cast<void>(share_bytes(pinned)); }), errc::unsupported);
  const buffer made = filled(ctx, 1);
  external_memory memory;
  memory.pointer = made.owner()->pointer();
  memory.bytes = size;
  memory.device = ctx->device();
  memory.keepalive = made.owner();
  EXPECT_EQ(code_of([&] { static_cast<void>(share_bytes(buffer::adopt(ctx, std::move(memory)))); }),
            errc::unsupported);
}

TEST_P(imported_pools, map_the_same_bytes_at_other_addresses) {
  if (!imports_own()) {
    GTEST_SKIP() << "one process alone";
  }
  const auto ctx = exportable();
  const buffer made = filled(ctx, 7);
  fill(made.slice(1000, 10), 9);
  const export_hold kept({&made, 1}, access::read_write);
  const auto pool = import(*ctx);
  bool dropped = false;
  {
    const buffer opened = pool->open_bytes(ctx, share_bytes(made.slice(990, 30)), lease(dropped), "opened");
    EXPECT_NE(opened.address(), made.address() + 990);
    EXPECT_EQ(opened.kind(), memory_kind::device);
    EXPECT_TRUE(opened.owner()->writable());
    auto expected = std::vector<std::uint8_t>(30, 7);
    std::fill_n(expected.begin() + 10, 10, std::uint8_t{9});
    EXPECT_EQ(content(opened), expected);
    fill(opened, 3);
    ctx->synchronize(ctx->work_stream());
    EXPECT_TRUE(all(content(made.slice(990, 30)), 3));
    EXPECT_TRUE(all(content(made.slice(0, 990)), 7));
    EXPECT_FALSE(dropped);
  }
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_TRUE(dropped);
}

TEST_P(imported_pools, map_an_allocation_once_for_all_users) {
  if (!imports_own()) {
    GTEST_SKIP() << "one process alone";
  }
  const auto ctx = exportable();
  const buffer first = filled(ctx, 1);
  const buffer second = filled(ctx, 2);
  const export_hold kept(std::vector{first, second}, access::read_write);
  const auto pool = import(*ctx);
  const shared_bytes a = share_bytes(first);
  const shared_bytes b = share_bytes(second);
  ASSERT_EQ(a.base, b.base);
  for (int turn = 0; turn < 3; ++turn) {
    buffer one = pool->open_bytes(ctx, a, nullptr, "a");
    buffer two = pool->open_bytes(ctx, b, nullptr, "b");
    buffer again = pool->open_bytes(ctx, a, nullptr, "again");
    EXPECT_EQ(one.address(), again.address());
    EXPECT_EQ(two.address() - one.address(), second.address() - first.address());
    one = {};
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_TRUE(all(content(again), 1));
    again = {};
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_TRUE(all(content(two), 2));
    two = {};
    EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
  }
}

/// The lease of an exporter: keeps the shared buffer alive for an importer.
struct kept_bytes {
  explicit kept_bytes(const buffer& of) : bytes(of), hold({&bytes, 1}, access::read_write) {}

  buffer bytes;
  export_hold hold;
};

TEST_P(imported_pools, are_unmapped_after_the_importers_work_and_before_the_lease_ends) {
  if (!imports_own()) {
    GTEST_SKIP() << "one process alone";
  }
  const auto ctx = exportable(resource_kind::async); // frees memory to the driver at once
  auto kept = std::make_shared<kept_bytes>(filled(ctx, 7));
  auto pool = import(*ctx);
  const shared_bytes named = share_bytes(kept->bytes);
  const std::weak_ptr<kept_bytes> held = kept;
  buffer opened = pool->open_bytes(ctx, named, std::move(kept), "opened");
  pool.reset(); // mapped memory keeps the pool alive
  stream side(shared_device());
  auto gate = close_gate(side.native_handle());
  {
    use_token token(side.ref(), {writes(opened)});
    ctx->copies().fill(token.span<std::byte>(opened).data(), 8, size, side.ref());
  }
  opened = {};
  EXPECT_FALSE(ctx->wait_for_releases(std::chrono::milliseconds(20)));
  EXPECT_FALSE(held.expired());
  gate.reset();
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_TRUE(held.expired());
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20))) << "of the exporter's memory";
}

TEST_P(imported_pools, wait_for_the_last_writes_before_an_export) {
  if (!imports_own()) {
    GTEST_SKIP() << "one process alone";
  }
  const auto ctx = exportable();
  const buffer made = filled(ctx, 1);
  stream side(shared_device());
  {
    use_token token(side.ref(), {writes(made)});
    ctx->copies().fill(token.span<std::byte>(made).data(), 2, size, side.ref());
  }
  const export_hold kept({&made, 1}, access::read_write);
  const shared_bytes named = share_bytes(made);
  EXPECT_TRUE(side.ref().idle());
  const auto pool = import(*ctx);
  EXPECT_TRUE(all(content(pool->open_bytes(ctx, named, nullptr, "opened")), 2));
}

TEST_P(imported_pools, report_memory_that_is_freed_while_it_is_mapped) {
  if (!imports_own()) {
    GTEST_SKIP() << "one process alone";
  }
  const auto ctx = exportable(resource_kind::async);
  buffer made = filled(ctx, 7);
  const auto pool = import(*ctx);
  const buffer opened = pool->open_bytes(ctx, share_bytes(made), nullptr, "opened");
  made = {};
  EXPECT_TRUE(ctx->wait_for_releases(std::chrono::seconds(20)));
  expect_races();
}

TEST_P(imported_pools, refuse_mismatched_arguments) {
  if (!imports_own()) {
    GTEST_SKIP() << "one process alone";
  }
  const auto ctx = exportable();
  const buffer made = filled(ctx, 7);
  const export_hold kept({&made, 1}, access::read_write);
  const auto pool = import(*ctx);
  const shared_bytes right = share_bytes(made);
  const auto refused = [&](std::uint64_t offset, std::uint64_t bytes) {
    shared_bytes wrong = right;
    wrong.offset = offset;
    wrong.bytes = bytes;
    return code_of([&] { static_cast<void>(pool->open_bytes(ctx, wrong, nullptr, "wrong")); });
  };
  EXPECT_EQ(refused(0, 0), errc::format);
  EXPECT_EQ(refused(0, right.allocation_bytes + 1), errc::format);
  EXPECT_EQ(refused(right.allocation_bytes, 1), errc::format);
  EXPECT_EQ(refused(~std::uint64_t{0}, 2), errc::format);
  EXPECT_EQ(refused(2, ~std::uint64_t{0}), errc::format);
  shared_bytes unknown = right;
  unknown.name = {};
  EXPECT_EQ(code_of([&] { static_cast<void>(pool->open_bytes(ctx, unknown, nullptr, "wrong")); }),
            errc::device);
  EXPECT_TRUE(all(content(pool->open_bytes(ctx, right, nullptr, "right")), 7)) << "nothing stays of it";
  EXPECT_EQ(code_of([&] { static_cast<void>(imported_pool::open(*ctx, -1)); }), errc::device);
  const auto other = second_device();
  if (other) {
    const auto elsewhere = watch(context::create(other));
    EXPECT_EQ(code_of([&] { static_cast<void>(pool->open_bytes(elsewhere, right, nullptr, "wrong")); }),
              errc::invalid_argument);
  }
}

TEST_P(imported_pools, leak_nothing_if_a_call_fails) {
  if (!imports_own()) {
    GTEST_SKIP() << "one process alone";
  }
  const auto ctx = exportable();
  const buffer made = filled(ctx, 7);
  const export_hold kept({&made, 1}, access::read_write);
  const shared_bytes named = share_bytes(made);
  const int descriptor = device().export_pool();
  const auto faulty = std::make_shared<testing::faulty_backend>(shared_device());
  const auto importer = watch(context::create(faulty));
  const std::int64_t before = faulty->alive();
  std::uint64_t position = 0;
  for (bool hit = true; hit;) {
    faulty->fail_at(++position);
    auto held = std::make_shared<int>(0);
    const std::weak_ptr<int> lease = held;
    try {
      const auto pool = imported_pool::open(*importer, descriptor);
      static_cast<void>(pool->open_bytes(importer, named, std::move(held), "opened"));
    } catch (const error&) {
      held.reset();
    }
    EXPECT_TRUE(importer->wait_for_releases(std::chrono::seconds(20)));
    hit = faulty->failed();
    faulty->fail_at(0);
    EXPECT_TRUE(lease.expired()) << position;
    EXPECT_EQ(faulty->alive(), before) << position;
  }
  EXPECT_GT(position, 3U) << "import, stream, open";
  EXPECT_EQ(::close(descriptor), 0);
}

SAETA_CONFORMANCE_SUITE(imported_pools);

} // namespace
} // namespace saeta::conformance
