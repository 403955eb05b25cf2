// libarrow arrays in device memory: copies to the device and back, exports and imports. Some have memory of
// Saeta, some memory of other libraries.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/bridge/buffer_io.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace saeta::conformance {
namespace {

using ::testing::HasSubstr;

using support::carried_types;
using support::nulls;
using support::random_array;

/// A stream of another library.
class foreign_stream final : public arrow::Device::Stream {
public:
  foreign_stream() : Stream(&handle_, [](void*) {}) {}
  arrow::Status WaitEvent(const arrow::Device::SyncEvent&) override { return arrow::Status::OK(); }
  [[nodiscard]] arrow::Status Synchronize() const override { return arrow::Status::OK(); }

private:
  stream_handle handle_{};
};

class arrow_arrays : public bridge_test {
protected:
  [[nodiscard]] batch_ptr there(const batch_ptr& of) const { return take(of->CopyTo(manager())); }
  /// Imports through the C Device interface, as if another library had exported the batch.
  [[nodiscard]] batch_ptr passed_on(const batch_ptr& of,
                                    std::shared_ptr<arrow::Device::SyncEvent> written = nullptr) const {
    ArrowDeviceArray array;
    ArrowSchema schema;
    check(arrow::ExportDeviceRecordBatch(*of, std::move(written), &array, &schema));
    return take(arrow::ImportDeviceRecordBatch(&array, &schema, mapper()));
  }
  [[nodiscard]] batch_ptr without(const batch_ptr& of, const std::string& name) const {
    return take(of->RemoveColumn(of->schema()->GetFieldIndex(name)));
  }
};

TEST_P(arrow_arrays, of_every_type_round_trip) {
  const batch_ptr original = all_types();
  const batch_ptr copied = there(original);
  EXPECT_EQ(copied->device_type(), manager()->device()->device_type());
  EXPECT_TRUE(on_cpu(copied)->Equals(*original));
  EXPECT_TRUE(on_cpu(copied->Slice(1, 3))->Equals(*original->Slice(1, 3)));
}

TEST_P(arrow_arrays, of_saeta_are_recognised_after_libarrow_exported_them) {
  const batch_ptr original = all_types();
  const batch_ptr ours = there(original);
  std::map<std::uintptr_t, std::shared_ptr<storage>> known;
  for_each_buffer(*ours, [&](const buffer_ptr& each) { known[each->address()] = own_bytes(*each)->owner(); });
  const batch_ptr seen = passed_on(ours);
  EXPECT_EQ(seen->device_type(), manager()->device()->device_type());
  for_each_buffer(*seen, [&](const buffer_ptr& each) {
    if (each->size() != 0) {
      const std::optional<buffer> found = own_bytes(*arrow::SliceBuffer(each, 0, each->size()));
      ASSERT_TRUE(found);
      EXPECT_EQ(found->owner(), known[each->address()]);
    }
  });
  EXPECT_TRUE(on_cpu(seen)->Equals(*original));
}

TEST_P(arrow_arrays, of_tables_are_imported_by_libarrow) {
  for (const data_type& type : carried_types()) {
    SCOPED_TRACE(type.name());
    const auto rows = random_array(type, {100, 0, nulls::some, false}, 7);
    arrow_array given = support::to_c(rows);
    import_options options;
    options.copy = copy_policy::always;
    const field described{"x", type, true, {}};
    const column ours = import_column(ctx(), described, given.get(), options);
    ArrowDeviceArray shown;
    shown = export_device_column(ours).release();
    ArrowSchema schema;
    schema = export_field(described).release();
    const auto imported = arrow::ImportDeviceArray(&shown, &schema, mapper());
    if (!imported.ok()) {
      EXPECT_TRUE(imported.status().IsNotImplemented()) << imported.status().ToString();
      continue;
    }
    const array_ptr seen = take((*imported)->CopyTo(cpu()));
    arrow_array returned;
    ArrowArray exported;
    check(arrow::ExportArray(*seen, &exported));
    EXPECT_TRUE(support::same_rows(exported, *rows));
    exported.release(&exported);
  }
}

TEST_P(arrow_arrays, are_imported_after_their_pending_writer) {
  const array_ptr strings = array(arrow::StringBuilder(), "one", "two", "and three");
  const batch_ptr original =
      arrow::RecordBatch::Make(arrow::schema({arrow::field("s", arrow::utf8())}), 3, {strings});
  const auto host_offsets = strings->data()->buffers[1];
  const auto host_text = strings->data()->buffers[2];
  for (const bool with_event : {true, false}) {
    // Memory of another library, which Saeta does not know.
    void* const offsets = device().allocate(64, 256);
    void* const letters = device().allocate(64, 256);
    {
      const auto foreign = [&](void* at, const buffer_ptr& like) {
        return std::make_shared<arrow::Buffer>(reinterpret_cast<std::uintptr_t>(at), like->size(), manager());
      };
      const auto data = arrow::ArrayData::Make(
          arrow::utf8(), 3, {nullptr, foreign(offsets, host_offsets), foreign(letters, host_text)}, 0);
      const batch_ptr theirs =
          arrow::RecordBatch::Make(original->schema(), 3, {data}, manager()->device()->device_type());
      const stream_lease writer = ctx()->borrow_stream();
      device().fill(offsets, 0x7f, 64, writer.ref().native_handle());
      const std::unique_ptr<gate> held = close_gate(writer.ref().native_handle());
      const copy_kind up = ctx()->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device;
      device().copy(offsets, host_offsets->data(), static_cast<std::size_t>(host_offsets->size()), up,
                    writer.ref().native_handle());
      device().copy(letters, host_text->data(), static_cast<std::size_t>(host_text->size()), up,
                    writer.ref().native_handle());
      std::shared_ptr<arrow::Device::SyncEvent> written;
      stream_handle handle = writer.ref().native_handle();
      if (with_event && !ctx()->on_host()) {
        written = take(manager()->MakeDeviceSyncEvent());
        check(written->Record(*take(manager()->device()->WrapStream(&handle, nullptr))));
      }
      batch_ptr seen;
      open_while_the_host_waits(held, [&] { seen = passed_on(theirs, written); });
      EXPECT_TRUE(on_cpu(seen)->Equals(*original));
    }
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_TRUE(device().deallocate(offsets, 64, 256));
    EXPECT_TRUE(device().deallocate(letters, 64, 256));
  }
}

TEST_P(arrow_arrays, of_saeta_are_used_after_their_event) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << nothing_pends;
  }
  constexpr std::int64_t rows = 1 << 16;
  for (const bool sliced : {false, true}) { // a slice inherits the event of its parent
    const buffer ours = make(rows);
    fill(ours, 'o', ctx()->work_stream());
    const buffer_ptr values = arrow_buffer(ours); // the later write has no use token
    const buffer sink = make(rows);
    const auto data = arrow::ArrayData::Make(arrow::int8(), rows, {nullptr, values}, 0);
    const batch_ptr shown = arrow::RecordBatch::Make(arrow::schema({arrow::field("x", arrow::int8())}), rows,
                                                     {data}, manager()->device()->device_type());
    const stream_lease theirs = ctx()->borrow_stream();
    const stream_lease side = ctx()->borrow_stream();
    stream_handle handle = theirs.ref().native_handle();
    const auto written = take(manager()->MakeDeviceSyncEvent());
    const auto stream = take(manager()->device()->WrapStream(&handle, nullptr));
    const std::unique_ptr<gate> held = close_gate(handle);
    device().fill(reinterpret_cast<void*>(values->address()), 'x', rows, handle);
    check(written->Record(*stream));
    const batch_ptr seen = passed_on(shown, written);
    const buffer_ptr came = seen->column_data(0)->buffers[1];
    const buffer again = bytes_of(ctx(), sliced ? arrow::SliceBuffer(came, 0) : came);
    EXPECT_EQ(again.owner(), ours.owner());
    {
      use_token token(side.ref(), {reads(ours), writes(sink)});
      ctx()->copies().copy(token.span<char>(sink).data(), token.span<const char>(ours).data(), rows, within(),
                           side.ref());
      token.finish();
    }
    held->open();
    EXPECT_EQ(read(sink), std::vector<std::uint8_t>(rows, 'x'));
  }
}

TEST_P(arrow_arrays, have_streams_and_events_of_their_device) {
  const auto device_of_arrow = manager()->device();
  const auto stream = take(device_of_arrow->MakeStream());
  check(stream->Synchronize());
  EXPECT_TRUE(device_of_arrow->MakeStream(2).status().IsInvalid());
  EXPECT_TRUE(device_of_arrow->WrapStream(nullptr, nullptr).status().IsInvalid());
  const auto event = take(manager()->MakeDeviceSyncEvent());
  if (ctx()->on_host()) {
    EXPECT_EQ(event, nullptr);
  } else {
    check(event->Wait());
    check(event->Record(*stream));
    check(stream->WaitEvent(*event));
    check(event->Wait());
  }
  bool released = false;
  {
    event_handle handle{};
    const auto wrapped = take(manager()->WrapDeviceSyncEvent(ctx()->on_host() ? nullptr : &handle,
                                                             [&](void*) { released = true; }));
  }
  EXPECT_EQ(released, !ctx()->on_host());
  const auto nothing = take(manager()->WrapDeviceSyncEvent(nullptr, nullptr));
  check(nothing->Wait());
  const arrow::Status no_event = nothing->Record(*stream);
  EXPECT_TRUE(no_event.IsInvalid());
  EXPECT_THAT(no_event.message(), HasSubstr("there is no event"));
  for (const auto& each : {event, nothing}) {
    if (each != nullptr) {
      const arrow::Status of_others = each->Record(foreign_stream());
      EXPECT_TRUE(of_others.IsInvalid());
      EXPECT_THAT(of_others.message(), HasSubstr("the stream does not belong to a Saeta device"));
    }
  }
}

TEST_P(arrow_arrays, find_registered_devices) {
  static std::weak_ptr<context> current; // a device type can be registered only once per process
  current = ctx()->weak_from_this();
  const auto open = [](std::int64_t ordinal) { return ordinal == 0 ? current.lock() : nullptr; };
  EXPECT_THROW(register_devices(arrow::DeviceAllocationType::kCPU, open), error);
  EXPECT_THROW(register_devices(arrow::DeviceAllocationType::kROCM, open), error);
  register_devices(arrow::DeviceAllocationType::kEXT_DEV, open);
  register_devices(arrow::DeviceAllocationType::kEXT_DEV, [](std::int64_t) { return nullptr; });
  register_devices(arrow::DeviceAllocationType::kCUDA_HOST, open);
  if (ctx()->device().kind != device_kind::sim) {
    return;
  }
  const arrow::DeviceMapper find = take(arrow::GetDeviceMapper(arrow::DeviceAllocationType::kEXT_DEV));
  EXPECT_EQ(take(find(0)), manager());
  const arrow::Status missing = find(7).status();
  EXPECT_TRUE(missing.IsIOError());
  EXPECT_THAT(missing.message(), HasSubstr("7"));
  const batch_ptr original = all_types();
  ArrowDeviceArray array;
  ArrowSchema schema;
  check(arrow::ExportDeviceRecordBatch(*there(original), nullptr, &array, &schema));
  const batch_ptr seen = take(arrow::ImportDeviceRecordBatch(&array, &schema));
  EXPECT_TRUE(on_cpu(seen)->Equals(*original));
}

SAETA_CONFORMANCE_SUITE(arrow_arrays);

} // namespace
} // namespace saeta::conformance
