// A fixture with spill handles of small tables, and the tiers of a backend.
#pragma once

#include "conformance/harness/context_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/spill/spill.hpp"
#include "support/tables.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <stdlib.h>
#include <sys/resource.h>

namespace saeta::conformance {

/// Limits the size of files until the end of the scope, which simulates a full disk.
class full_disk {
public:
  full_disk() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit small = before_;
    small.rlim_cur = 4096;
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;
  ~full_disk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

class spill_test : public context_test {
protected:
  static constexpr std::uint64_t room = 1 << 20;
  /// Rows of a table with more than an eighth of `room`.
  static constexpr std::int64_t rows = 20'000;
  /// Rows of tables that are moved many times.
  static constexpr std::int64_t small = 500;

  void SetUp() override {
    std::string pattern = (std::filesystem::path(::testing::TempDir()) / "saeta-spill-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    context_ = new_context(options());
  }
  void TearDown() override {
    context_test::TearDown();
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "files are left";
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] context_options options(std::uint64_t limit = room) const {
    context_options made;
    made.budget = limit;
    made.spill.folder = folder_.string();
    return made;
  }
  /// Replaces the context of the test.
  void use_options(context_options chosen) { context_ = new_context(std::move(chosen)); }

  [[nodiscard]] std::vector<spill_tier> tiers_here() const {
    return ctx()->on_host() ? std::vector{spill_tier::file}
                            : std::vector{spill_tier::pinned, spill_tier::pageable, spill_tier::file};
  }
  /// Makes a table of one column of random numbers from a seed, in one allocation.
  [[nodiscard]] static table numbers(const std::shared_ptr<context>& in, std::uint64_t seed,
                                     std::int64_t count = rows) {
    support::table_shape shape;
    shape.batch_rows = {count};
    shape.seed = seed;
    const auto packed = ipc::pack(support::random_table(in, {data_type(type_id::int64)}, shape));
    return ipc::unpack(in, packed.metadata, packed.body);
  }
  [[nodiscard]] spill_handle handle(std::uint64_t seed, int priority = 0, std::int64_t count = rows) const {
    return spillable(ctx(), numbers(ctx(), seed, count), priority);
  }
  [[nodiscard]] ::testing::AssertionResult holds(const spill_handle& kept, std::uint64_t seed,
                                                 std::int64_t count = rows) const {
    return support::same_contents(kept.use(ctx()).value(), numbers(host_, seed, count));
  }
  [[nodiscard]] std::uint64_t in_use() const {
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    return ctx()->memory_budget()->statistics().current;
  }
  [[nodiscard]] spill_tier_statistics seen(spill_tier tier) const {
    return read_spill_statistics(ctx()).tiers[static_cast<std::size_t>(tier)];
  }
  /// Checks the invariants of the tiers' budgets, which must hold at any time.
  void expect_exact_budgets() const {
    const spill_statistics now = read_spill_statistics(ctx());
    for (const spill_tier_statistics& tier : now.tiers) {
      EXPECT_LE(tier.charged, tier.limit);
      // A table being spilled is counted on the device until the move has finished, slightly after it is
      // freed there.
      EXPECT_TRUE(&tier == now.tiers.data() || tier.bytes <= tier.charged);
    }
    EXPECT_EQ(now.failures, 0U);
  }
  /// Waits until no table is being moved in the background. Returns false after a timeout.
  [[nodiscard]] bool settle() const {
    return comes_true([&] {
      const auto now = read_spill_statistics(ctx()).tiers;
      return std::all_of(now.begin() + 1, now.end(),
                         [](const auto& tier) { return tier.bytes == tier.charged; });
    });
  }
  [[nodiscard]] std::uint64_t refused() const { return ctx()->memory_budget()->statistics().refused; }

  template <class Action>
  static void expect_error(errc code, const std::string& text, const Action& action) {
    try {
      action();
      ADD_FAILURE() << "accepted; expected: " << text;
    } catch (const error& why) {
      EXPECT_EQ(name_of(why.code()), name_of(code)) << why.message();
      EXPECT_THAT(why.message(), ::testing::HasSubstr(text));
    }
  }

  std::filesystem::path folder_;
  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
};

} // namespace saeta::conformance
