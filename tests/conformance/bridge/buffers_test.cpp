// arrow::Buffer over memory of Saeta: properties, lifetime and ordering.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/copies.hpp"
#include "support/child_process.hpp"
#include "support/faulty_backend.hpp"
#include "unit/base/raises.hpp"

#include <arrow/io/interfaces.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

namespace saeta::conformance {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t bridged_bytes = 1 << 16;

class arrow_buffers : public bridge_test {
protected:
  static std::string repeated(char value) { return std::string(bridged_bytes, value); }
  /// Queues a fill behind a closed gate, without a use token.
  std::unique_ptr<gate> write_late(std::uintptr_t address, char value, const stream_lease& theirs) {
    std::unique_ptr<gate> held = close_gate(theirs.ref().native_handle());
    device().fill(reinterpret_cast<void*>(address), static_cast<std::uint8_t>(value), bridged_bytes,
                  theirs.ref().native_handle());
    return held;
  }
};

TEST_P(arrow_buffers, have_device_type_address_and_mutability) {
  const buffer memory = make(bridged_bytes);
  const buffer_ptr read_only = arrow_buffer(memory);
  const buffer_ptr writable = arrow_buffer(memory, access::write);
  EXPECT_EQ(read_only->address(), memory.address());
  EXPECT_EQ(read_only->size(), static_cast<std::int64_t>(bridged_bytes));
  EXPECT_EQ(read_only->is_cpu(), ctx()->on_host());
  EXPECT_FALSE(read_only->is_mutable());
  EXPECT_TRUE(writable->is_mutable());
  EXPECT_EQ(static_cast<int>(read_only->device_type()), static_cast<int>(ctx()->device().kind));
  EXPECT_EQ(read_only->device()->device_id(), ctx()->on_host() ? -1 : ctx()->device().ordinal);
  EXPECT_EQ(read_only->memory_manager(), manager());
  EXPECT_EQ(context_of(*read_only->memory_manager()), ctx());
  EXPECT_EQ(read_only->device()->default_memory_manager(), manager());
  EXPECT_EQ(context_of(*cpu()), nullptr);
  EXPECT_THROW(static_cast<void>(arrow_buffer({})), error);
}

TEST_P(arrow_buffers, have_one_memory_manager_for_each_context) {
  const auto first = manager();
  EXPECT_EQ(first, manager());
  const std::shared_ptr<context> other = new_context();
  const auto second = memory_manager_of(other);
  EXPECT_NE(first, second);
  EXPECT_TRUE(first->device()->Equals(*second->device()));
  EXPECT_FALSE(first->device()->Equals(*arrow::CPUDevice::Instance()));
}

TEST_P(arrow_buffers, of_libarrow_keep_their_mutability) {
  if (!ctx()->on_host()) {
    GTEST_SKIP() << "a device can't use memory of the CPU where it is";
  }
  const std::string text = "to be read";
  const auto read_only = std::make_shared<arrow::Buffer>(text);
  EXPECT_FALSE(bytes_of(ctx(), read_only).owner()->writable());
  const buffer_ptr writable = take(arrow::AllocateBuffer(100));
  EXPECT_TRUE(bytes_of(ctx(), writable).owner()->writable());
}

TEST_P(arrow_buffers, of_several_kinds_of_memory_have_different_devices) {
  const auto pinned = memory_manager_of(ctx(), memory_kind::pinned);
  EXPECT_EQ(pinned->device()->Equals(*manager()->device()), ctx()->on_host());
  EXPECT_TRUE(pinned->device()->Equals(*memory_manager_of(new_context(), memory_kind::pinned)->device()));
}

TEST_P(arrow_buffers, refuse_copies_beyond_their_size) {
  const buffer source = make(100);
  std::vector<std::byte> bytes_there(99);
  EXPECT_EQ(unit::code_raised_by([&] { download(source, bytes_there); }), errc::out_of_range);
  const std::vector<std::byte> more(101);
  EXPECT_EQ(unit::code_raised_by([&] { write_bytes(source, more); }), errc::out_of_range);
}

TEST_P(arrow_buffers, are_written_by_one_transfer) {
  const buffer target = make(100);
  const std::vector<std::byte> content(100, std::byte{7});
  ctx()->copies().reset_counters();
  write_bytes(target, content);
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ((ctx()->on_host() ? now.host_to_host : now.host_to_device).transfers, 1U);
  EXPECT_EQ((ctx()->on_host() ? now.host_to_host : now.host_to_device).bytes, 100U);
  EXPECT_EQ(read(target), std::vector<std::uint8_t>(100, 7));
}

/// The caller may free the source as soon as the call has failed.
TEST_P(arrow_buffers, whose_copy_fails_after_it_was_queued_are_waited_for) {
  const auto faulty = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  const auto ctx = watch(context::create(faulty));
  const buffer target = buffer::allocate(ctx, 100, ctx->work_stream());
  ctx->synchronize(ctx->work_stream());
  const std::vector<std::byte> content(100, std::byte{7});
  faulty->fail_behind_copies();
  EXPECT_EQ(unit::code_raised_by([&] { write_bytes(target, content); }), errc::device);
  if (const auto* const simulated = dynamic_cast<const sim::simulated_device*>(&device())) {
    EXPECT_TRUE(simulated->idle());
  }
}

TEST_P(arrow_buffers, have_events_only_for_streams_of_their_device) {
  const auto device_stream = take(manager()->device()->MakeStream());
  std::shared_ptr<saeta::backend> elsewhere = make_host_backend();
  if (ctx()->on_host()) {
    elsewhere = sim::device::create({.seed = 1});
  }
  const auto other = watch(context::create(elsewhere));
  const auto foreign = take(memory_manager_of(other)->WrapDeviceSyncEvent(nullptr, nullptr));
  const arrow::Status refused = device_stream->WaitEvent(*foreign);
  EXPECT_TRUE(refused.IsInvalid());
  EXPECT_THAT(refused.message(), HasSubstr("with a stream of"));
}

TEST_P(arrow_buffers, treat_stream_0_as_the_legacy_default_stream) {
  stream_handle none{};
  const auto wrapped = take(manager()->device()->WrapStream(&none, nullptr));
  check(wrapped->Synchronize());
}

TEST_P(arrow_buffers, are_copied_both_ways) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, bridged_bytes + 7}) {
    const std::string given = text(size);
    const buffer_ptr copied = there(given);
    EXPECT_EQ(copied->memory_manager(), manager());
    EXPECT_EQ(here(copied), given);
    const buffer_ptr again = take(arrow::Buffer::Copy(copied, manager()));
    EXPECT_TRUE(size == 0 || again->address() != copied->address());
    EXPECT_EQ(here(again), given);
    const auto source = arrow::Buffer::FromString(given);
    const buffer_ptr unowned = take(arrow::Buffer::CopyNonOwned(*source, manager()));
    EXPECT_EQ(take(arrow::Buffer::CopyNonOwned(*unowned, cpu()))->ToString(), given);
    EXPECT_EQ(here(take(arrow::Buffer::CopyNonOwned(*unowned, manager()))), given);
  }
}

TEST_P(arrow_buffers, of_nested_slices_keep_address_and_storage) {
  buffer_ptr whole = there(text(bridged_bytes));
  const std::uintptr_t first = whole->address();
  const std::weak_ptr<storage> memory = own_bytes(*whole)->owner();
  buffer_ptr outer = arrow::SliceBuffer(whole, 100, 1000);
  const buffer_ptr inner = arrow::SliceBuffer(outer, 10, 20);
  whole.reset();
  outer.reset();
  EXPECT_FALSE(memory.expired());
  EXPECT_EQ(inner->address(), first + 110);
  EXPECT_EQ(inner->device_type(), manager()->device()->device_type());
  const std::optional<buffer> ours = own_bytes(*inner);
  ASSERT_TRUE(ours);
  EXPECT_EQ(ours->address(), first + 110);
  EXPECT_EQ(ours->size(), 20U);
  EXPECT_EQ(here(inner), text(bridged_bytes).substr(110, 20));
  EXPECT_EQ(bytes_of(ctx(), inner).owner(), memory.lock());
}

TEST_P(arrow_buffers, keep_memory_manager_and_mutability_when_sliced) {
  for (const buffer_ptr& whole : {arrow_buffer(make(1000)), arrow_buffer(make(1000), access::write)}) {
    const buffer_ptr part = slice_buffer(whole, 100, 900);
    EXPECT_EQ(part->address(), whole->address() + 100);
    EXPECT_EQ(part->size(), 900);
    EXPECT_EQ(part->is_mutable(), whole->is_mutable());
    EXPECT_EQ(part->is_cpu(), whole->is_cpu());
    EXPECT_EQ(part->memory_manager(), manager());
    EXPECT_EQ(part->device_type(), whole->device_type());
    EXPECT_EQ(part->parent(), whole);
    EXPECT_EQ(own_bytes(*part)->owner(), own_bytes(*whole)->owner());
    EXPECT_EQ(slice_buffer(whole, 1000, 0)->size(), 0);
    for (const auto& [offset, size] :
         {std::pair<std::int64_t, std::int64_t>{-1, 1}, {0, -1}, {1001, 0}, {0, 1001}, {101, 900}}) {
      try {
        static_cast<void>(slice_buffer(whole, offset, size));
        ADD_FAILURE() << "no error at " << offset;
      } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::out_of_range);
        EXPECT_EQ(refused.message(),
                  concat("a slice of ", size, " bytes at offset ", offset, " of a buffer of 1000 bytes"));
      }
    }
  }
}

TEST_P(arrow_buffers, of_no_bytes_are_recognised_as_saetas) {
  const buffer memory = make(bridged_bytes);
  const buffer_ptr inner = arrow::SliceBuffer(arrow::SliceBuffer(arrow_buffer(memory), 100, 50), 10, 0);
  const std::optional<buffer> ours = own_bytes(*inner);
  ASSERT_TRUE(ours);
  EXPECT_EQ(ours->owner(), memory.owner());
  EXPECT_EQ(ours->address(), memory.address() + 110);
  EXPECT_EQ(ours->size(), 0U);
}

TEST_P(arrow_buffers, that_exceed_their_parent_are_not_recognised) {
  const buffer memory = make(bridged_bytes);
  const buffer_ptr held = arrow_buffer(memory.slice(100, 100));
  const auto own = [&](std::int64_t offset, std::int64_t size) {
    return own_bytes(arrow::Buffer(held, offset, size));
  };
  EXPECT_TRUE(own(0, 100));
  EXPECT_TRUE(own(100, 0));
  const auto whole = static_cast<std::int64_t>(bridged_bytes);
  EXPECT_FALSE(own(0, whole));
  EXPECT_FALSE(own(99, whole));
  EXPECT_FALSE(own(whole, 100));
  EXPECT_FALSE(own(101, 0));
  EXPECT_FALSE(own(-1, 0));
}

TEST_P(arrow_buffers, of_read_only_memory_are_exported_only_for_reading) {
  void* const foreign = device().allocate(bridged_bytes, 256);
  {
    external_memory theirs;
    theirs.pointer = foreign;
    theirs.bytes = bridged_bytes;
    theirs.device = ctx()->device();
    theirs.tag = "theirs";
    const buffer memory = buffer::adopt(ctx(), std::move(theirs));
    EXPECT_EQ(arrow_buffer(memory)->address(), memory.address());
    for (const access mode : {access::write, access::read_write}) {
      try {
        static_cast<void>(arrow_buffer(memory, mode));
        ADD_FAILURE() << "no error";
      } catch (const error& refused) {
        EXPECT_EQ(refused.code(), errc::invalid_argument);
        EXPECT_EQ(refused.message(), "buffer 'theirs' is read-only");
      }
    }
  }
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_TRUE(device().deallocate(foreign, bridged_bytes, 256));
}

TEST_P(arrow_buffers, are_copied_on_their_device_without_the_host) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "its copies are all of the host";
  }
  const buffer_ptr given = there(text(bridged_bytes));
  const buffer_ptr empty = there("");
  ctx()->copies().reset_counters();
  const buffer_ptr copied = take(arrow::Buffer::Copy(given, manager()));
  EXPECT_EQ(ctx()->copies().read_counters().device_to_device.transfers, 1U);
  EXPECT_EQ(take(arrow::Buffer::Copy(empty, manager()))->size(), 0);
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ(now.device_to_device.transfers, 1U) << "of no bytes there is none";
  EXPECT_EQ(now.device_to_host.transfers, 0U);
  EXPECT_EQ(now.host_to_device.transfers, 0U);
  EXPECT_EQ(here(copied), text(bridged_bytes));
}

TEST_P(arrow_buffers, of_libarrow_are_not_recognised_as_saetas) {
  EXPECT_FALSE(own_bytes(*arrow::Buffer::FromString("of libarrow")));
  if (!ctx()->on_host()) {
    EXPECT_THROW(static_cast<void>(bytes_of(ctx(), arrow::Buffer::FromString("of libarrow"))), error);
  }
}

TEST_P(arrow_buffers, wait_for_the_last_write_before_they_return_the_address) {
  const buffer memory = make(bridged_bytes);
  const stream_lease side = ctx()->borrow_stream();
  const std::unique_ptr<gate> held = close_gate(side.ref().native_handle());
  fill(memory, 'x', side.ref());
  buffer_ptr shown;
  open_while_the_host_waits(held, [&] { shown = arrow_buffer(memory); });
  const stream_lease theirs = ctx()->borrow_stream(); // a user of the address without a use token
  const buffer sink = make(bridged_bytes);
  {
    use_token token(theirs.ref(), {writes(sink)});
    device().copy(token.span<char>(sink).data(), reinterpret_cast<const void*>(shown->address()),
                  bridged_bytes, within(), theirs.ref().native_handle());
    token.finish();
  }
  EXPECT_EQ(read(sink), std::vector<std::uint8_t>(bridged_bytes, 'x'));
}

TEST_P(arrow_buffers, that_are_mutable_are_copied_after_unknown_writers) {
  const buffer_ptr shown = take(manager()->AllocateBuffer(bridged_bytes));
  const stream_lease theirs = ctx()->borrow_stream();
  const std::unique_ptr<gate> held = write_late(shown->address(), 'x', theirs);
  std::string seen;
  open_while_the_host_waits(held, [&] { seen = here(shown); });
  EXPECT_EQ(seen, repeated('x'));
}

TEST_P(arrow_buffers, of_foreign_memory_are_copied_after_all_work_of_the_device) {
  void* const foreign = device().allocate(bridged_bytes, 256);
  {
    const buffer_ptr shown =
        std::make_shared<arrow::Buffer>(reinterpret_cast<std::uintptr_t>(foreign), bridged_bytes, manager());
    EXPECT_FALSE(own_bytes(*shown));
    const stream_lease theirs = ctx()->borrow_stream();
    std::unique_ptr<gate> held = write_late(shown->address(), 'x', theirs);
    std::string seen;
    open_while_the_host_waits(held, [&] { seen = here(shown); });
    EXPECT_EQ(seen, repeated('x'));
    held.reset();
    held = write_late(shown->address(), 'y', theirs);
    open_while_the_host_waits(held,
                              [&] { seen = take(arrow::Buffer::CopyNonOwned(*shown, cpu()))->ToString(); });
    EXPECT_EQ(seen, repeated('y'));
    held.reset();
    held = write_late(shown->address(), 'z', theirs);
    const auto reader = take(arrow::Buffer::GetReader(shown));
    open_while_the_host_waits(held,
                              [&] { static_cast<void>(take(reader->Read(bridged_bytes, seen.data()))); });
    EXPECT_EQ(seen, repeated('z'));
  }
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_TRUE(device().deallocate(foreign, bridged_bytes, 256));
}

TEST_P(arrow_buffers, of_foreign_memory_are_not_read_during_a_graph_capture) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << nothing_pends;
  }
  void* const foreign = device().allocate(bridged_bytes, 256);
  {
    const buffer_ptr shown =
        std::make_shared<arrow::Buffer>(reinterpret_cast<std::uintptr_t>(foreign), bridged_bytes, manager());
    const std::shared_ptr<void> capture = ctx()->capturing();
    const arrow::Status refused = arrow::Buffer::Copy(shown, cpu()).status();
    EXPECT_TRUE(refused.IsIOError()) << refused.ToString();
    EXPECT_THAT(refused.message(), HasSubstr("captures a graph"));
  }
  EXPECT_TRUE(device().deallocate(foreign, bridged_bytes, 256));
}

TEST_P(arrow_buffers, are_allocated_and_copied_without_waiting_for_unrelated_work) {
  const stream_lease theirs = ctx()->borrow_stream();
  std::vector<buffer_ptr> kept; // reusing the memory of a dropped buffer would wait for its unknown users
  const auto use_all = [&] {
    kept.push_back(take(manager()->AllocateBuffer(bridged_bytes)));
    kept.push_back(there(repeated('a')));
    EXPECT_EQ(here(kept.back()), repeated('a'));
    kept.push_back(arrow_buffer(make(bridged_bytes), access::write));
    kept.push_back(arrow_buffer(make(bridged_bytes)));
  };
  use_all(); // allocates slabs of the cache and chunks of the ring, which happens only once
  const buffer busy = make(bridged_bytes);
  const std::unique_ptr<gate> held = close_gate(theirs.ref().native_handle());
  fill(busy, 'b', theirs.ref());
  use_all(); // would hang if it waited for the busy stream
  EXPECT_EQ(kept.size(), 8U);
}

TEST_P(arrow_buffers, can_be_used_by_many_threads) {
  std::vector<std::jthread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      const std::string mine = text(100 + static_cast<std::size_t>(number));
      for (int round = 0; round < 50; ++round) {
        const buffer_ptr slice = arrow::SliceBuffer(there(mine), 10);
        EXPECT_EQ(own_bytes(*slice)->address(), slice->address());
        EXPECT_EQ(here(slice), mine.substr(10));
      }
    });
  }
}

TEST_P(arrow_buffers, share_a_memory_manager_while_other_threads_drop_it) {
  constexpr int count = 4;
  std::atomic<int> wrong{0};
  std::barrier begin(count);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < count; ++t) {
      threads.emplace_back([&] {
        begin.arrive_and_wait();
        for (int round = 0; round < 20'000; ++round) {
          const auto first = manager(); // often the only reference, dropped while another thread requests one
          wrong += manager() == first ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(arrow_buffers, can_be_dropped_in_a_forked_child) {
  if (!ctx()->on_host()) {
    GTEST_SKIP() << "a child has no device of its parent";
  }
  auto kept = manager();
  support::expect_in_a_child([&] {
    kept = nullptr;
    const std::shared_ptr<context> own = new_context();
    EXPECT_EQ(memory_manager_of(own), memory_manager_of(own));
  });
  EXPECT_EQ(kept, manager());
}

TEST_P(arrow_buffers, are_reused_after_their_readers) {
  const buffer sink = make(bridged_bytes);
  const stream_lease theirs = ctx()->borrow_stream();
  buffer_ptr shown = there(repeated('a'));
  use_token token(theirs.ref(), {writes(sink)});
  const std::unique_ptr<gate> held = close_gate(theirs.ref().native_handle());
  device().copy(token.span<char>(sink).data(), reinterpret_cast<const void*>(shown->address()), bridged_bytes,
                within(), theirs.ref().native_handle());
  token.finish();
  buffer_ptr slice = arrow::SliceBuffer(shown, 5);
  shown.reset();
  std::jthread([&] { slice.reset(); }).join();
  std::vector<buffer> next; // one of these may reuse the memory
  for (int i = 0; i < 100; ++i) {
    next.push_back(make(bridged_bytes));
    fill(next.back(), 'b', ctx()->work_stream());
  }
  if (held) {
    held->open();
  }
  EXPECT_EQ(read(sink), std::vector<std::uint8_t>(bridged_bytes, 'a'));
}

TEST_P(arrow_buffers, beyond_the_budget_give_out_of_memory_with_the_numbers) {
  const arrow::Status refused = manager()->AllocateBuffer(2 * limit).status();
  EXPECT_TRUE(refused.IsOutOfMemory()) << refused.ToString();
  EXPECT_THAT(refused.message(), HasSubstr(std::to_string(2 * limit)));
  EXPECT_THAT(refused.message(), HasSubstr(std::to_string(limit)));
  try {
    check(refused);
    ADD_FAILURE() << "no error";
  } catch (const error& thrown) {
    ASSERT_NE(thrown.refusal(), nullptr) << "it came through libarrow as it was";
    EXPECT_EQ(thrown.refusal()->limit, limit);
  }
  const std::string large(limit + 1, 'x');
  EXPECT_TRUE(
      arrow::Buffer::Copy(std::make_shared<arrow::Buffer>(large), manager()).status().IsOutOfMemory());
  EXPECT_EQ(ctx()->reports().statistics().budget.current, 0U);
}

TEST_P(arrow_buffers, of_negative_sizes_are_refused) {
  const arrow::Status refused = manager()->AllocateBuffer(-5).status();
  EXPECT_TRUE(refused.IsInvalid()) << refused.ToString();
  EXPECT_THAT(refused.message(), HasSubstr("-5"));
  EXPECT_TRUE(manager()->AllocateBuffer(0).ok());
}

TEST_P(arrow_buffers, of_page_locked_memory_are_viewed_on_the_cpu) {
  const auto pinned = memory_manager_of(ctx(), memory_kind::pinned);
  const buffer_ptr whole = take(arrow::Buffer::Copy(arrow::Buffer::FromString(text(100)), pinned));
  const buffer_ptr part = arrow::SliceBuffer(whole, 10, 50);
  if (!ctx()->on_host()) {
    EXPECT_EQ(part->device_type(), arrow::DeviceAllocationType::kCUDA_HOST) << "a slice says it, too";
    EXPECT_FALSE(part->is_cpu());
  }
  const buffer_ptr view = take(arrow::Buffer::View(part, cpu()));
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->address(), part->address());
  EXPECT_EQ(view->ToString(), text(100).substr(10, 50));
  EXPECT_TRUE(own_bytes(*view));
  EXPECT_EQ(here(take(arrow::Buffer::Copy(part, manager()))), text(100).substr(10, 50));
  if (!ctx()->on_host()) {
    EXPECT_TRUE(arrow::Buffer::View(there("x"), cpu()).status().IsNotImplemented())
        << "a device's own memory";
  }
}

TEST_P(arrow_buffers, that_are_viewed_wait_for_their_writer) {
  const auto pinned = memory_manager_of(ctx(), memory_kind::pinned);
  const buffer_ptr shown = take(pinned->AllocateBuffer(bridged_bytes));
  const stream_lease theirs = ctx()->borrow_stream();
  const std::unique_ptr<gate> held = write_late(shown->address(), 'x', theirs);
  std::string seen;
  open_while_the_host_waits(held, [&] { seen = take(arrow::Buffer::View(shown, cpu()))->ToString(); });
  EXPECT_EQ(seen, repeated('x'));
}

TEST_P(arrow_buffers, can_be_copied_between_two_devices) {
  if (!second_device()) {
    GTEST_SKIP() << one_device_alone;
  }
  const std::shared_ptr<context> other = watch(context::create(second_device()));
  const auto second = memory_manager_of(other);
  const buffer_ptr given = there(text(bridged_bytes));
  const buffer_ptr sent = take(arrow::Buffer::Copy(given, second));
  EXPECT_EQ(sent->memory_manager(), second);
  if (!ctx()->on_host()) {
    EXPECT_EQ(second->device()->device_id(), 1);
    EXPECT_FALSE(second->device()->Equals(*manager()->device()));
    EXPECT_THAT(second->device()->ToString(), HasSubstr("(device_number=1, name=\""));
    EXPECT_THROW(static_cast<void>(bytes_of(ctx(), sent)), error);
  }
  EXPECT_EQ(here(sent), text(bridged_bytes));
  EXPECT_EQ(here(take(arrow::Buffer::Copy(sent, manager()))), text(bridged_bytes));
}

TEST_P(arrow_buffers, keep_their_context_alive) {
  buffer_ptr kept = there(text(100));
  std::weak_ptr<context> alive = context_->weak_from_this();
  context_.reset();
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(here(kept), text(100));
  context_ = context_of(*kept->memory_manager());
}

SAETA_CONFORMANCE_SUITE(arrow_buffers);

} // namespace
} // namespace saeta::conformance
