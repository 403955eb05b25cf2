// Every backend call that the bridge makes fails once. The result is a Status or an error, and nothing leaks.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/bridge/buffer_io.hpp"
#include "saeta/bridge/message.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace saeta::conformance {
namespace {

using saeta::testing::faulty_backend;

class bridge_faults : public bridge_test {
protected:
  void SetUp() override {
    faulty_ = std::make_shared<faulty_backend>(shared_device());
    context_options options;
    options.budget = limit;
    options.releases = release_thread::none; // makes the order of calls deterministic
    options.staging.threads = 1;
    context_ = watch(context::create(faulty_, options));
  }
  void TearDown() override {
    context_test::TearDown();
    context_.reset();
    EXPECT_EQ(faulty_->alive(), 0);
  }

  /// Runs `life` with its first backend call failing, then with its second one, and so on until none fails.
  void fail_everywhere(const std::function<void()>& life) {
    life(); // creates streams and the ring, which happens only once
    drop_pending();
    const std::uint64_t live = ctx()->reports().statistics().budget.current;
    int failures = 0;
    for (std::uint64_t position = 1;; ++position) {
      SCOPED_TRACE(::testing::Message() << "call " << position << " fails");
      faulty_->fail_at(position);
      bool thrown = false;
      try {
        life();
      } catch (const error& failure) {
        thrown = true;
        EXPECT_TRUE(failure.code() == errc::device || failure.code() == errc::out_of_memory)
            << failure.what();
      }
      const bool failed = faulty_->failed();
      faulty_->fail_at(0);
      drop_pending();
      EXPECT_EQ(ctx()->reports().statistics().budget.current, live);
      EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
      if (!failed) {
        EXPECT_FALSE(thrown);
        break;
      }
      ++failures;
      ASSERT_LT(position, 5000U);
    }
    EXPECT_TRUE(ctx()->on_host() || failures > 0);
  }
  void drop_pending() {
    ctx()->synchronize(ctx()->work_stream());
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  }

  std::shared_ptr<faulty_backend> faulty_;
};

TEST_P(bridge_faults, in_copies_leak_nothing) {
  fail_everywhere([&] {
    const buffer_ptr sent = there(text(1000));
    EXPECT_EQ(here(take(arrow::Buffer::Copy(arrow::SliceBuffer(sent, 10, 500), manager()))),
              text(1000).substr(10, 500));
    const auto source = arrow::Buffer::FromString(text(100));
    EXPECT_EQ(here(take(arrow::Buffer::CopyNonOwned(*source, manager()))), text(100));
  });
}

TEST_P(bridge_faults, in_files_leak_nothing) {
  fail_everywhere([&] {
    const buffer_ptr target = take(manager()->AllocateBuffer(1000));
    buffer_writer file(target);
    check(file.SetBufferSize(64));
    check(file.Write(text(40).data(), 40));
    check(file.Write(text(40).data(), 40));
    check(file.Write(text(400).data(), 400));
    check(file.Close());
    std::string seen(100, ' ');
    check(buffer_reader(target).ReadAt(0, 80, seen.data()).status());
    EXPECT_EQ(seen.substr(40, 40), text(40));
  });
}

TEST_P(bridge_faults, in_views_of_page_locked_memory_leak_nothing) {
  fail_everywhere([&] {
    const auto pinned = memory_manager_of(ctx(), memory_kind::pinned);
    const buffer_ptr there = take(arrow::Buffer::Copy(arrow::Buffer::FromString(text(100)), pinned));
    EXPECT_EQ(take(arrow::Buffer::View(there, cpu()))->ToString(), text(100));
  });
}

TEST_P(bridge_faults, in_imports_leak_nothing) {
  fail_everywhere([&] {
    const batch_ptr sent = take(all_types()->CopyTo(manager()));
    const auto written = take(manager()->MakeDeviceSyncEvent());
    ArrowDeviceArray array;
    ArrowSchema schema;
    check(arrow::ExportDeviceRecordBatch(*sent, written, &array, &schema));
    on_cpu(take(arrow::ImportDeviceRecordBatch(&array, &schema, mapper())));
  });
}

TEST_P(bridge_faults, in_messages_leak_nothing) {
  const batch_ptr original =
      take(all_types()->RemoveColumn(all_types()->schema()->GetFieldIndex("dictionary")));
  fail_everywhere([&] {
    const buffer_ptr message = arrow_buffer(serialize_batch(ctx(), original));
    const batch_ptr seen =
        read_batch(ctx(), original->schema(), nullptr, message, arrow::default_memory_pool());
    EXPECT_TRUE(on_cpu(seen)->Equals(*original));
  });
}

SAETA_CONFORMANCE_SUITE(bridge_faults);

} // namespace
} // namespace saeta::conformance
