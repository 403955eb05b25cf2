// Writing a batch from a device in several windows: a window is written while the next one is downloaded, and
// a failure ends both.
#include "ipc_test.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "support/ring_options.hpp"
#include "system_calls.hpp"

#include <cerrno>
#include <chrono>
#include <thread>

namespace saeta::ipc {
namespace {

class streamed_batches : public ipc_test {
protected:
  static constexpr std::size_t window_bytes = std::size_t{64} << 10;
  static constexpr std::int64_t rows = 60'000; ///< rows of 8 bytes, which make eight windows

  void SetUp() override {
    device_ = context::create(sim::device::create({.seed = 3}), support::ring_options(2, 4096));
    original_ = support::random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {rows}});
    store(file("source"), write_bytes(*original_));
    there_ = reader::open(file("source"), {.copy = copy_policy::always})->read_all(device_);
    std::filesystem::remove(file("source"));
  }
  void TearDown() override {
    original_.reset();
    there_.reset();
    EXPECT_TRUE(device_->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(device_->reports().statistics().ledger.buffers, 0U);
    ipc_test::TearDown();
  }

  [[nodiscard]] std::uint64_t downloads() const {
    return device_->copies().read_counters().device_to_host.transfers;
  }
  [[nodiscard]] static write_options options(compression body) {
    return {.body = body, .window_bytes = window_bytes};
  }

  std::shared_ptr<context> device_;
  std::optional<table> original_;
  std::optional<table> there_;
};

TEST_F(streamed_batches, are_downloaded_while_the_previous_window_is_written) {
  if (std::thread::hardware_concurrency() < 2) {
    GTEST_SKIP() << "a write has no other threads";
  }
  device_->copies().reset_counters();
  bool second_came = false;
  const support::system_call_trap trap(
      support::system_call::pwritev, [&](std::size_t number, const std::string&) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (number == 0 && downloads() < 2 && std::chrono::steady_clock::now() < end) {
          std::this_thread::yield();
        }
        second_came = number == 0 ? downloads() >= 2 : second_came;
        return 0;
      });
  write(*there_, file("a"), options(compression::none));
  EXPECT_TRUE(second_came);
  EXPECT_GE(trap.calls(), 8U);
  EXPECT_GE(downloads(), 8U);
  EXPECT_TRUE(support::same_contents(read(file("a")), *original_));
}

TEST_F(streamed_batches, leave_nothing_after_any_failed_write) {
  store(file("a"), "the old one");
  const auto before = support::open_files();
  for (const auto body : {compression::none, compression::lz4, compression::zstd}) {
    bool met = true;
    for (std::size_t full = 0; met; ++full) {
      const support::system_call_trap trap(
          support::system_call::pwritev,
          [&](std::size_t number, const std::string&) { return number >= full ? ENOSPC : 0; });
      try {
        write(*there_, file("a"), options(body));
      } catch (const error& failure) {
        EXPECT_EQ(name_of(failure.code()), name_of(errc::io)) << failure.message();
        EXPECT_THAT(failure.message(), ::testing::HasSubstr("(errno 28)"));
        EXPECT_EQ(load(file("a")), "the old one");
      }
      met = trap.calls() > full;
      EXPECT_LE(device_->pinned_budget()->statistics().current, device_->options().staging.pinned_bytes);
    }
    EXPECT_TRUE(support::same_contents(read(file("a")), *original_));
    store(file("a"), "the old one");
  }
  EXPECT_THAT(names(), ::testing::ElementsAre("a"));
  EXPECT_EQ(support::open_files(), before);
}

} // namespace
} // namespace saeta::ipc
