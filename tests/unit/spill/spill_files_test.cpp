// The placement of spilled tables in files, observed by the descriptors of the process and the disk blocks in
// use.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/spill/spill.hpp"
#include "support/tables.hpp"
#include "unit/ipc/system_calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <filesystem>
#include <string>

#include <sys/resource.h>

namespace saeta {
namespace {

using support::system_call;
using support::system_call_trap;

/// Limits the size of files that the process writes, until the end of the scope.
class largest_file {
public:
  explicit largest_file(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit chosen = before_;
    chosen.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &chosen);
  }
  largest_file(const largest_file&) = delete;
  largest_file& operator=(const largest_file&) = delete;
  ~largest_file() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

class spill_files : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::path(::testing::TempDir()) / "saeta-spill-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    context_options options;
    options.spill.folder = folder_.string();
    ctx_ = context::create(make_host_backend(), options);
  }
  void TearDown() override {
    kept_.clear();
    EXPECT_EQ(files(), 0);
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] table numbers(std::uint64_t seed) const {
    support::table_shape shape;
    shape.batch_rows = {1000};
    shape.seed = seed;
    return support::random_table(ctx_, {data_type(type_id::int64)}, shape);
  }
  void spill(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      kept_.push_back(spillable(ctx_, numbers(i)));
      EXPECT_EQ(kept_.back().spill(), spill_tier::file);
    }
  }
  void expect_all() const {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      EXPECT_TRUE(support::same_contents(kept_[i].use(ctx_).value(), numbers(i))) << i;
    }
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    return std::ranges::count_if(support::open_files(), [&](const std::filesystem::path& each) {
      return each.string().starts_with(folder_.string());
    });
  }

  std::filesystem::path folder_;
  std::shared_ptr<context> ctx_;
  std::deque<spill_handle> kept_;
};

TEST_F(spill_files, hold_many_tables) {
  const system_call_trap holes(system_call::fallocate, [](std::size_t, const std::string&) { return 0; });
  spill(10);
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(holes.calls(), 1U) << "a new file is asked whether it can have holes";
  expect_all();
  EXPECT_EQ(holes.calls(), 10U) << "the last one ends with the file";
}

TEST_F(spill_files, hold_one_table_each_without_support_for_holes) {
  const system_call_trap no_holes(system_call::fallocate,
                                  [](std::size_t, const std::string&) { return EOPNOTSUPP; });
  spill(3);
  EXPECT_EQ(files(), 3);
  expect_all();
}

TEST_F(spill_files, respect_the_file_size_limit_of_the_process) {
  {
    const largest_file limit(100'000); // space for tables at offsets 0 and 64 KiB
    spill(5);
  }
  EXPECT_EQ(files(), 3);
  expect_all();
}

TEST_F(spill_files, are_filled_up_to_the_file_size_limit) {
  constexpr std::uint64_t second = 64 << 10; // offset of the second table
  const std::uint64_t bytes = spillable(ctx_, numbers(0)).bytes();
  for (const bool ends_behind : {false, true}) {
    {
      const largest_file limit(second + bytes - (ends_behind ? 1 : 0));
      spill(2);
    }
    EXPECT_EQ(files(), ends_behind ? 2 : 1);
    expect_all();
    kept_.clear();
    EXPECT_EQ(files(), 0);
  }
}

TEST_F(spill_files, refuse_a_table_larger_than_the_file_size_limit) {
  spill(1);
  const spill_handle large = spillable(ctx_, numbers(7));
  {
    const largest_file limit(large.bytes() - 1);
    EXPECT_THROW(large.spill(), error);
  }
  EXPECT_EQ(large.tier(), spill_tier::device);
  EXPECT_EQ(large.spill(), spill_tier::file);
  EXPECT_TRUE(support::same_contents(large.use(ctx_).value(), numbers(7)));
  expect_all();
}

TEST_F(spill_files, are_created_without_support_for_unnamed_files) {
  const system_call_trap refusing(system_call::open, [&](std::size_t, const std::string& path) {
    return path == folder_.string() ? EINVAL : 0;
  });
  spill(2);
  EXPECT_EQ(files(), 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  expect_all();
}

} // namespace
} // namespace saeta
