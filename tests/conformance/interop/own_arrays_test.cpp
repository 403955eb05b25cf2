// Imports of Arrow arrays whose memory Saeta has exported, directly or through other libraries. The import
// shares the original storages with their ordering state, and is not counted as external memory.
#include "conformance/harness/context_test.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"
#include "support/passed_on.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace saeta::conformance {
namespace {

using support::carried_types;
using support::nulls;
using support::passed_on;
using support::random_array;

class own_arrays : public context_test {
protected:
  [[nodiscard]] column made(const data_type& type) const {
    arrow_array given = support::to_c(random_array(type, {200, 0, nulls::some, false}, 5));
    import_options options;
    options.copy = copy_policy::always;
    return import_column(ctx(), {"x", type, true, {}}, given.get(), options);
  }
  [[nodiscard]] static arrow_device_array exported(const column& source) {
    arrow_device_array given = export_device_column(source);
    return given;
  }
  [[nodiscard]] static column taken(const std::shared_ptr<context>& where, const data_type& type,
                                    ArrowDeviceArray from) {
    column seen = import_device_column(where, {"x", type, true, {}}, from);
    EXPECT_EQ(from.array.release, nullptr);
    return seen;
  }
  /// Expects that all buffers, including those of children and dictionary, have the same storages.
  static void expect_same_storages(const column& seen, const column& ours) {
    ASSERT_GE(seen.buffers().size(), ours.type().buffer_count());
    for (std::size_t i = 0; i < ours.buffers().size(); ++i) {
      if (seen.buffers()[i].present()) {
        EXPECT_EQ(seen.buffers()[i].owner(), ours.buffers()[i].owner()) << "buffer " << i;
        EXPECT_EQ(seen.buffers()[i].address(), ours.buffers()[i].address()) << "buffer " << i;
      }
    }
    for (std::size_t i = 0; i < ours.children().size(); ++i) {
      expect_same_storages(seen.children()[i], ours.children()[i]);
    }
    if (ours.dictionary() != nullptr) {
      expect_same_storages(*seen.dictionary(), *ours.dictionary());
    }
  }
};

TEST_P(own_arrays, of_every_type_share_their_storages) {
  for (const data_type& type : carried_types()) {
    SCOPED_TRACE(type.name());
    const column ours = made(type);
    ctx()->copies().reset_counters();
    const column seen = taken(ctx(), type, passed_on(exported(ours), 9, 100));
    EXPECT_EQ(seen.offset(), ours.offset() + 9);
    EXPECT_EQ(seen.length(), 100);
    expect_same_storages(seen, ours);
    EXPECT_EQ(ctx()->copies().read_counters().imports, 0U);
  }
}

TEST_P(own_arrays, in_host_memory_share_their_storages_too) {
  if (!ctx()->on_host()) {
    GTEST_SKIP() << "a device downloads what it shows the CPU";
  }
  const data_type type(type_id::string);
  const column ours = made(type);
  arrow_array given = export_column(ours);
  const column seen = import_column(ctx(), {"x", type, true, {}}, given.get());
  expect_same_storages(seen, ours);
}

TEST_P(own_arrays, outlive_their_export) {
  const data_type type(type_id::int64);
  std::optional<column> ours = made(type);
  const std::weak_ptr<storage> bytes = ours->values().owner();
  const column seen = taken(ctx(), type, passed_on(exported(*ours), 0, 200));
  ours.reset();
  EXPECT_EQ(seen.values().owner(), bytes.lock()) << "the import keeps the storage";
  EXPECT_FALSE(seen.values().owner()->external());
}

TEST_P(own_arrays, are_foreign_for_another_root_context) {
  const data_type type(type_id::int32);
  const column ours = made(type);
  const std::shared_ptr<context> child = watch(ctx()->with_budget("child", 1 << 20));
  EXPECT_EQ(taken(child, type, passed_on(exported(ours), 0, 200)).values().owner(), ours.values().owner());
  const std::shared_ptr<context> stranger = new_context();
  const column seen = taken(stranger, type, passed_on(exported(ours), 0, 200));
  EXPECT_NE(seen.values().owner(), ours.values().owner());
  EXPECT_TRUE(seen.values().owner()->external());
  EXPECT_EQ(seen.values().address(), ours.values().address());
}

TEST_P(own_arrays, are_recognised_while_an_export_lives) {
  const data_type type(type_id::int32);
  const column ours = made(type);
  ArrowDeviceArray first = passed_on(exported(ours), 0, 200);
  ArrowDeviceArray second = passed_on(exported(ours), 0, 200);
  first.array.release(&first.array);
  EXPECT_EQ(taken(ctx(), type, second).values().owner(), ours.values().owner())
      << "one export of two is over";
  // The same addresses without a live export: the memory may belong to any library by now.
  arrow_device_array shown = exported(ours);
  ArrowDeviceArray bare = shown.get();
  const std::vector<const void*> buffers{nullptr, bare.array.buffers[1]};
  bare.array.buffers = const_cast<const void**>(buffers.data());
  bare.array.null_count = 0;
  bare.array.private_data = nullptr;
  bare.sync_event = nullptr;
  bare.array.release = [](ArrowArray* array) { array->release = nullptr; };
  shown = {};
  const column seen = taken(ctx(), type, bare);
  EXPECT_TRUE(seen.values().owner()->external());
}

TEST_P(own_arrays, wait_for_writes_of_the_consumer) {
  const data_type type(type_id::uint8);
  constexpr std::int64_t rows = 1 << 16;
  const buffer memory = make(rows);
  const buffer sink = make(rows);
  fill(memory, 1, ctx()->work_stream());
  const column ours = column::make(ctx(), {type, rows, 0, 0, {{}, memory}});
  const stream_lease theirs = ctx()->borrow_stream();
  ArrowDeviceArray given = passed_on(exported(ours), 0, rows);
  if (given.sync_event != nullptr) {
    device().wait_event(theirs.ref().native_handle(), *static_cast<const event_handle*>(given.sync_event));
  }
  const std::unique_ptr<gate> held = close_gate(theirs.ref().native_handle());
  device().fill(const_cast<void*>(given.array.buffers[1]), 2, rows, theirs.ref().native_handle());
  const event written(shared_device());
  event_handle handle = written.ref().native_handle();
  device().record_event(handle, theirs.ref().native_handle());
  given.sync_event = ctx()->on_host() ? nullptr : &handle;
  const column seen = taken(ctx(), type, given);
  {
    // A copy within the device, because a copy to the host would wait for the gate itself.
    use_token token(ctx()->work_stream(), {reads(ours.values()), writes(sink)});
    ctx()->copies().copy(token.span<char>(sink).data(), token.span<const char>(ours.values()).data(), rows,
                         within(), ctx()->work_stream());
    token.finish();
  }
  if (held) {
    held->open();
  }
  EXPECT_EQ(read(sink), std::vector<std::uint8_t>(rows, 2));
  EXPECT_EQ(seen.values().owner(), ours.values().owner());
}

SAETA_CONFORMANCE_SUITE(own_arrays);

} // namespace
} // namespace saeta::conformance
