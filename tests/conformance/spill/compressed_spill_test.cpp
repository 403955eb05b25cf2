// Tables that leave the device compressed: they come back equal, take fewer bytes meanwhile, and what can't be
// compressed leaves as it is.
#include "conformance/spill/spill_test.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/transfer/makers.hpp"
#include "support/golden_files.hpp"

#include <array>
#include <atomic>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace saeta::conformance {
namespace {

class compressed_tables : public spill_test {
protected:
  void SetUp() override {
    spill_test::SetUp();
    use_options(options(limit));
  }

  /// Numbers, money and words, as tables of sales have them.
  [[nodiscard]] static table sales(const std::shared_ptr<context>& in, std::int64_t count,
                                   std::uint64_t seed = 1) {
    std::mt19937_64 random(seed);
    std::vector<std::int64_t> keys;
    std::vector<double> prices;
    std::vector<std::optional<std::int32_t>> amounts;
    std::vector<std::string> words;
    const std::array<std::string, 4> ways{"AIR", "SHIP", "TRUCK", "MAIL"};
    for (std::int64_t row = 0; row < count; ++row) {
      keys.push_back(4 * row + static_cast<std::int64_t>(random() % 4));
      prices.push_back(static_cast<double>(random() % 10000) / 100);
      amounts.push_back(random() % 10 == 0 ? std::nullopt
                                           : std::optional(static_cast<std::int32_t>(random() % 50)));
      words.push_back(ways[random() % ways.size()]);
    }
    const table made = make_table(in, {{"key", make_column(in, std::span<const std::int64_t>(keys))},
                                       {"price", make_column(in, std::span<const double>(prices))},
                                       {"amount", make_column(in, amounts)},
                                       {"way", make_column(in, words)}});
    const auto packed = ipc::pack(made);
    return ipc::unpack(in, packed.metadata, packed.body);
  }
  [[nodiscard]] spill_handle compressible(std::int64_t count, std::uint64_t seed = 1) const {
    return spillable(ctx(), sales(ctx(), count, seed), 0, true);
  }
  [[nodiscard]] ::testing::AssertionResult holds_sales(const spill_handle& kept, std::int64_t count,
                                                       std::uint64_t seed = 1) const {
    return support::same_contents(kept.use(ctx()).value(), sales(host_, count, seed));
  }
  /// Numbers of whose bytes none can be saved.
  [[nodiscard]] table noise(std::int64_t count) const {
    std::mt19937_64 random(3);
    std::vector<std::uint64_t> numbers(static_cast<std::size_t>(count));
    std::ranges::generate(numbers, random);
    const auto packed =
        ipc::pack(make_table(ctx(), {{"n", make_column(ctx(), std::span<const std::uint64_t>(numbers))}}));
    return ipc::unpack(ctx(), packed.metadata, packed.body);
  }
  /// A descriptor of the one spill file that this process has open.
  [[nodiscard]] int open_spill_file() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
      if (target.starts_with(folder_.string() + "/")) {
        return ::open(entry.path().c_str(), O_RDWR);
      }
    }
    return -1;
  }
  static constexpr std::int64_t many = 100'000; ///< rows of several windows
};

TEST_P(compressed_tables, take_fewer_bytes_in_every_tier) {
  for (const std::int64_t count : {std::int64_t{300}, std::int64_t{5000}, many}) {
    for (const spill_tier tier : tiers_here()) {
      SCOPED_TRACE(::testing::Message() << count << " rows, " << to_string(tier));
      const spill_handle kept = compressible(count);
      EXPECT_EQ(kept.stored_bytes(), kept.bytes());
      EXPECT_EQ(kept.spill(tier), tier);
      if (count > 300) {
        EXPECT_LT(2 * kept.stored_bytes(), kept.bytes());
      }
      EXPECT_EQ(seen(tier).charged, kept.stored_bytes());
      EXPECT_TRUE(holds_sales(kept, count));
      EXPECT_EQ(kept.tier(), spill_tier::device);
      EXPECT_EQ(seen(tier).charged, 0U);
    }
  }
}

TEST_P(compressed_tables, of_every_type_come_back_equal) {
  std::vector<data_type> types = support::carried_types();
  std::erase_if(types, [](const data_type& type) { // types that the IPC format does not support
    const data_type* const values = type.value_type();
    return values != nullptr && (values->id() == type_id::dictionary || !values->extension_name().empty());
  });
  for (const std::int64_t count : {0, 1, 77, 3000}) {
    support::table_shape shape;
    shape.batch_rows = {count, count / 2};
    const table expected = support::random_table(host_, types, shape);
    for (const spill_tier tier : tiers_here()) {
      SCOPED_TRACE(::testing::Message() << count << " rows, " << to_string(tier));
      const spill_handle kept = spillable(ctx(), support::random_table(ctx(), types, shape), 0, true);
      kept.spill(tier);
      EXPECT_TRUE(support::same_contents(kept.use(ctx()).value(), expected));
    }
  }
}

TEST_P(compressed_tables, of_the_integration_files_come_back_equal) {
  const auto files = support::golden_files();
  if (files.empty()) {
    GTEST_SKIP() << "no golden files: SAETA_SHARED_DATA names no folder that has them";
  }
  for (const auto& path : files) {
    SCOPED_TRACE(path.string());
    const table expected = ipc::reader::open(path)->read_all(host_);
    const spill_handle kept = spillable(
        ctx(),
        ipc::reader::open(path, {.copy = copy_policy::always, .combine_chunks = false})->read_all(ctx()), 0,
        true);
    for (const spill_tier tier : tiers_here()) {
      SCOPED_TRACE(to_string(tier));
      kept.spill(tier);
      EXPECT_TRUE(support::same_contents(kept.use(ctx()).value(), expected));
    }
  }
}

TEST_P(compressed_tables, of_random_sizes_come_back_equal) {
  std::mt19937_64 random(5);
  for (int turn = 0; turn < 40; ++turn) {
    const auto count = static_cast<std::int64_t>(random() % 40'000);
    const std::uint64_t seed = random();
    SCOPED_TRACE(::testing::Message() << count << " rows, seed " << seed);
    const spill_handle kept = compressible(count, seed);
    kept.spill();
    EXPECT_TRUE(holds_sales(kept, count, seed));
  }
}

TEST_P(compressed_tables, that_would_not_get_smaller_leave_as_they_are) {
  const spill_handle kept = spillable(ctx(), noise(many), 0, true);
  for (const spill_tier tier : tiers_here()) {
    kept.spill(tier);
    EXPECT_EQ(kept.stored_bytes(), kept.bytes());
    EXPECT_TRUE(support::same_contents(kept.use(ctx()).value(), noise(many)));
  }
}

TEST_P(compressed_tables, leave_as_they_are_without_room_for_the_windows) {
  use_options(options(room));
  const buffer taken = make(room - (room >> 3));
  const spill_handle kept = compressible(500);
  kept.spill(spill_tier::file);
  EXPECT_EQ(kept.stored_bytes(), kept.bytes());
  EXPECT_TRUE(holds_sales(kept, 500));
}

TEST_P(compressed_tables, stay_where_they_are_when_any_step_back_finds_no_room) {
  use_options(options(room * 4));
  const spill_handle kept = compressible(5000);
  kept.spill();
  const std::uint64_t others = in_use();
  int refused = 0;
  for (std::uint64_t left = 0; left < 2 * kept.bytes(); left += 16'000) {
    const spill_tier tier = kept.spill();
    const buffer taken = make(room * 4 - others - left);
    try {
      static_cast<void>(kept.use(ctx()));
    } catch (const error& why) {
      ++refused;
      EXPECT_EQ(name_of(why.code()), name_of(errc::budget_exceeded)) << why.message();
      EXPECT_EQ(kept.tier(), tier);
    }
  }
  EXPECT_GT(refused, 2);
  EXPECT_LT(refused, 20); // with room for the table and what is on its way it came back
  EXPECT_TRUE(holds_sales(kept, 5000));
}

TEST_P(compressed_tables, of_several_contexts_share_the_windows) {
  const auto first = ctx()->with_budget("first", room);
  const auto second = ctx()->with_budget("second", room);
  const spill_handle one = spillable(first, sales(first, 5000, 1), 0, true);
  const std::uint64_t before = in_use();
  const spill_handle other = spillable(second, sales(second, 5000, 2), 0, true);
  EXPECT_LT(in_use(), before + other.bytes() + 10'000);
  one.spill();
  other.spill();
  EXPECT_TRUE(support::same_contents(one.use(second).value(), sales(host_, 5000, 1)));
  EXPECT_TRUE(support::same_contents(other.use(first).value(), sales(host_, 5000, 2)));
}

TEST_P(compressed_tables, give_the_memory_of_the_windows_back) {
  {
    const spill_handle kept = compressible(1000);
    EXPECT_GT(in_use(), kept.bytes());
    kept.spill();
    EXPECT_GT(in_use(), 0U);
  }
  EXPECT_EQ(in_use(), 0U);
}

TEST_P(compressed_tables, leave_by_themselves_when_a_request_has_no_room) {
  std::vector<spill_handle> kept;
  for (std::uint64_t seed = 0; seed < 40; ++seed) { // 100 MB under a budget of 64 MiB
    kept.push_back(compressible(many, seed));
  }
  std::uint64_t stored = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    stored += kept[seed].tier() == spill_tier::device ? 0 : kept[seed].stored_bytes();
    EXPECT_TRUE(holds_sales(kept[seed], many, seed));
  }
  EXPECT_GT(stored, 0U);
  EXPECT_EQ(read_spill_statistics(ctx()).failures, 0U);
}

TEST_P(compressed_tables, can_be_used_and_spilled_by_many_threads) {
  std::vector<spill_handle> kept;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    kept.push_back(compressible(5000, seed));
  }
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t first = 0; first < 4; ++first) {
      threads.emplace_back([&, first] {
        for (std::uint64_t turn = 0; turn < 12; ++turn) {
          const std::uint64_t seed = (first * 3 + turn * 5) % kept.size();
          wrong += holds_sales(kept[seed], 5000, seed) ? 0 : 1;
          try {
            kept[seed].spill();
          } catch (const error& why) { // another thread uses it
            wrong += why.code() == errc::busy ? 0 : 1;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(compressed_tables, move_on_compressed) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host has one tier";
  }
  context_options small = options(limit);
  small.spill.pinned = 290'000; // three of them are more than 85%
  use_options(small);
  std::vector<spill_handle> kept;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    kept.push_back(compressible(10'000, seed));
    kept.back().spill(spill_tier::pinned);
  }
  EXPECT_TRUE(comes_true([&] { return seen(spill_tier::pageable).demotions > 0; }));
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    EXPECT_LT(kept[seed].stored_bytes(), kept[seed].bytes() / 2);
    EXPECT_TRUE(holds_sales(kept[seed], 10'000, seed));
  }
}

TEST_P(compressed_tables, whose_file_was_damaged_are_refused) {
  const spill_handle kept = compressible(5000);
  kept.spill(spill_tier::file);
  const int file = open_spill_file();
  ASSERT_GE(file, 0);
  const auto bytes = static_cast<off_t>(kept.stored_bytes());
  for (off_t at = 7; at < bytes; at += bytes / 50) {
    char byte = 0;
    ASSERT_EQ(::pread(file, &byte, 1, at), 1);
    const char changed = static_cast<char>(byte ^ 0x11);
    ASSERT_EQ(::pwrite(file, &changed, 1, at), 1);
    expect_error(errc::io, "is damaged: 1 of its", [&] { static_cast<void>(kept.use(ctx())); });
    EXPECT_EQ(kept.tier(), spill_tier::file);
    ASSERT_EQ(::pwrite(file, &byte, 1, at), 1);
  }
  ::close(file);
  EXPECT_TRUE(holds_sales(kept, 5000));
}

TEST_P(compressed_tables, are_chosen_by_an_option_of_the_context) {
  context_options chosen = options(limit);
  chosen.spill.compress = true;
  use_options(chosen);
  const spill_handle kept = spillable(ctx(), sales(ctx(), 5000));
  kept.spill();
  EXPECT_LT(kept.stored_bytes(), kept.bytes() / 2);
  const spill_handle plain = spillable(ctx(), sales(ctx(), 5000), 0, false);
  plain.spill();
  EXPECT_EQ(plain.stored_bytes(), plain.bytes());
}

SAETA_CONFORMANCE_SUITE(compressed_tables);

} // namespace
} // namespace saeta::conformance
