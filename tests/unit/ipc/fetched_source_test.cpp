// Sources that fetch ahead: which ranges they are told to fetch, and that little else is read of them.

#include "ipc_test.hpp"
#include "saeta/ipc/data_set.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A file in a store. It notes what is fetched, and which bytes are read that nobody has fetched before.
class noted_store {
public:
  explicit noted_store(std::string content) : bytes_(std::move(content)), held_(bytes_.size(), 0) {}
  noted_store(const noted_store&) = delete;
  noted_store& operator=(const noted_store&) = delete;

  [[nodiscard]] std::unique_ptr<reader> open(read_options options = {}) {
    const auto read = [this](std::uint64_t offset, std::span<std::byte> target) {
      const std::lock_guard lock(noting_);
      missed_ += static_cast<std::uint64_t>(std::ranges::count(of({offset, target.size()}), 0));
      most_at_once_ = std::max(most_at_once_, target.size());
      read_bytes_ += target.size();
      readers_.insert(std::this_thread::get_id());
      std::memcpy(target.data(), bytes_.data() + offset, target.size());
    };
    const auto fetch = [this](std::span<const byte_range> ranges) { return keep(ranges); };
    auto made = reader::open("store", bytes_.size(), read, std::move(options), fetch);
    forget();
    return made;
  }
  /// Forgets what was noted, but not which bytes are kept.
  void forget() {
    calls_.clear();
    missed_ = in_place_ = read_bytes_ = 0;
    readers_.clear();
    most_at_once_ = 0;
  }
  /// The calls of the fetcher, as ranges without memory.
  [[nodiscard]] const std::vector<std::vector<byte_range>>& calls() const { return calls_; }
  /// Bytes that were read and had not been fetched.
  [[nodiscard]] std::uint64_t missed() const { return missed_; }
  /// Bytes of all reads.
  [[nodiscard]] std::uint64_t read_bytes() const { return read_bytes_; }
  /// Whether all reads came from this thread.
  [[nodiscard]] bool is_read_here() const { return readers_ == std::set{std::this_thread::get_id()}; }
  /// Bytes of the largest read.
  [[nodiscard]] std::size_t most_at_once() const { return most_at_once_; }
  /// Bytes that were fetched into memory of the reader.
  [[nodiscard]] std::uint64_t in_place() const { return in_place_; }
  [[nodiscard]] std::uint64_t fetched() const {
    std::uint64_t sum = 0;
    for (const auto& ranges : calls_) {
      for (const byte_range& range : ranges) {
        sum += range.bytes;
      }
    }
    return sum;
  }
  [[nodiscard]] bool keeps_anything() const {
    return std::ranges::any_of(held_, [](int times) { return times != 0; });
  }
  [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }

private:
  std::span<int> of(const byte_range& range) { return std::span(held_).subspan(range.offset, range.bytes); }

  std::shared_ptr<void> keep(std::span<const byte_range> ranges) {
    const std::lock_guard lock(noting_);
    std::vector<byte_range>& noted = calls_.emplace_back();
    for (const byte_range& range : ranges) {
      noted.push_back({range.offset, range.bytes});
      std::ranges::for_each(of(range), [](int& times) { ++times; });
      if (range.memory != nullptr) {
        in_place_ += range.bytes;
        std::memcpy(range.memory.get(), bytes_.data() + range.offset, range.bytes);
      }
    }
    return {this, [this, kept = noted](void*) {
              const std::lock_guard dropping(noting_);
              for (const byte_range& range : kept) {
                std::ranges::for_each(of(range), [](int& times) { --times; });
              }
            }};
  }

  std::string bytes_;
  std::mutex noting_;
  std::vector<int> held_; ///< for each byte, how often it is kept
  std::vector<std::vector<byte_range>> calls_;
  std::uint64_t missed_ = 0;
  std::uint64_t in_place_ = 0;
  std::uint64_t read_bytes_ = 0;
  std::size_t most_at_once_ = 0;
  std::set<std::thread::id> readers_;
};

/// More than the metadata of one batch has. A plan reads those of the first batch when it is made.
constexpr std::uint64_t few_bytes = 8192;

class fetched_source : public ipc_test {
protected:
  /// Six columns of numbers.
  [[nodiscard]] table numbers(std::vector<std::int64_t> rows, std::uint64_t seed = 1) const {
    return support::random_table(ctx(), std::vector<data_type>(6, data_type(type_id::int64)),
                                 {.batch_rows = std::move(rows), .seed = seed});
  }
  [[nodiscard]] static std::unique_ptr<data_set>
  data_of(std::vector<noted_store*> from, const data_set_options& options = {},
          const read_options& reading = {.copy = copy_policy::always}) {
    std::vector<std::unique_ptr<reader>> readers;
    for (noted_store* const each : from) {
      readers.push_back(each->open(reading));
    }
    return std::make_unique<data_set>(std::move(readers), options);
  }
  /// The rows of the first column of a scan.
  [[nodiscard]] static std::vector<support::cell> cells_of(scan& of) {
    std::vector<support::cell> all;
    while (const auto window = of.next()) {
      const auto cells = support::cells(*window, 0);
      all.insert(all.end(), cells.begin(), cells.end());
    }
    return all;
  }
  const std::vector<std::string> two_columns{"4:int64", "1:int64"};
};

TEST_F(fetched_source, is_told_all_messages_before_they_are_read) {
  const table original = every_type();
  noted_store from(write_bytes(original));
  for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
    const auto reading = from.open({.copy = copy});
    EXPECT_TRUE(support::same_contents(reading->read_all(ctx()), original));
    EXPECT_EQ(from.missed(), 0U);
    ASSERT_EQ(from.calls().size(), 1U) << "small messages are fetched together";
    std::vector<byte_range> ranges = from.calls().front();
    std::ranges::sort(ranges, {}, &byte_range::offset);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      EXPECT_EQ(ranges[i].offset, ranges[i - 1].offset + ranges[i - 1].bytes) << "each message once";
    }
    EXPECT_EQ(from.in_place() != 0, copy == copy_policy::when_needed) << "columns view what was fetched";
    EXPECT_FALSE(from.keeps_anything()) << "all were read";
  }
}

TEST_F(fetched_source, fetches_no_bodies_in_place_that_the_budget_has_no_room_for) {
  const table original = numbers({1000, 2000, 1000});
  noted_store from(write_bytes(original));
  const auto narrow = ctx()->with_budget("narrow", 150'000);
  const auto reading = from.open();
  EXPECT_EQ(reading->next(narrow)->rows, 1000);
  EXPECT_GT(from.in_place(), 6 * 1000 * sizeof(std::int64_t));
  EXPECT_LT(from.in_place(), 2 * 6 * 1000 * sizeof(std::int64_t)) << "those that follow have no room";
  EXPECT_EQ(reading->next(narrow)->rows, 2000);
  EXPECT_EQ(from.missed(), 0U);
}

TEST_F(fetched_source, is_told_only_the_requested_batches) {
  const table original = every_type();
  noted_store from(write_bytes(original));
  EXPECT_TRUE(support::same_contents(from.open()->read_all(ctx()), original));
  const std::vector<byte_range> all = from.calls().front();
  const auto reading = from.open({.batches = {{2, 4}}});
  EXPECT_EQ(reading->read_all(ctx()).rows(), 77);
  EXPECT_EQ(from.missed(), 0U);
  EXPECT_LT(from.calls().front().size(), all.size());
  EXPECT_EQ(from.calls().front().back().offset, all.back().offset) << "the last batch";
}

TEST_F(fetched_source, is_told_the_ranges_of_few_columns) {
  const table original = numbers({1000, 1000, 500, 0, 1000, 10'000});
  const std::string bytes = write_bytes(original);
  noted_store from(bytes);
  std::vector<progress> heard;
  std::vector<progress> expected;
  const auto note_in = [](std::vector<progress>& list) {
    return [&list](const progress& so_far) { list.push_back(so_far); };
  };
  const table plain = reader::open(std::as_bytes(std::span(bytes)), nullptr, {.columns = two_columns})
                          ->read_all(ctx(), note_in(expected));
  const auto whole = from.open({.columns = two_columns});
  EXPECT_TRUE(support::same_contents(whole->read_all(ctx(), note_in(heard)), plain));
  EXPECT_FALSE(whole->next(ctx()).has_value());
  EXPECT_LT(from.missed(), few_bytes);
  EXPECT_LT(from.fetched(), from.size() / 2);
  ASSERT_EQ(heard.size(), expected.size());
  for (std::size_t i = 0; i < heard.size(); ++i) {
    EXPECT_EQ(heard[i].batches, expected[i].batches);
    EXPECT_EQ(heard[i].total_batches, 6);
    EXPECT_EQ(heard[i].rows, expected[i].rows);
    EXPECT_EQ(heard[i].bytes, expected[i].bytes);
  }
  const auto one_by_one = from.open({.columns = two_columns});
  EXPECT_EQ(one_by_one->next(ctx())->rows, 1000);
  const table rest = one_by_one->read_all(ctx());
  EXPECT_TRUE(support::cells(rest, 1) == support::cells(plain.slice(1000, plain.rows() - 1000), 1));
  EXPECT_EQ(from.missed(), 0U);
  EXPECT_LT(from.fetched(), from.size() / 2);
}

TEST_F(fetched_source, is_told_only_the_dictionaries_of_the_columns_that_are_read) {
  std::vector<std::string_view> names(5000, "a name of a word that is read by nobody");
  const auto words = support::indices({1, 0, 1}, support::strings({"a", "b"}));
  const auto others = support::indices({0, 4999, 1}, support::strings(names));
  const table original = support::table_of(
      ctx(), {{{"words", words->type, true, {}}, {"others", others->type, true, {}}}, {}}, {{words, others}});
  noted_store from(write_bytes(original));
  const auto reading = from.open({.columns = {{"words"}}});
  EXPECT_THAT(support::cells(reading->next(ctx())->columns[0]), ElementsAre("b", "a", "b"));
  EXPECT_EQ(from.missed(), 0U);
  EXPECT_LT(from.fetched(), few_bytes);
}

TEST_F(fetched_source, is_told_whole_messages_if_most_of_them_is_read) {
  const table original = numbers({1000, 1000});
  noted_store from(write_bytes(original));
  std::vector<std::string> most;
  for (const field& each : original.fields().fields) {
    most.push_back(each.name);
  }
  most.pop_back();
  const auto reading = from.open({.columns = most});
  EXPECT_EQ(reading->next(ctx())->rows, 1000);
  EXPECT_EQ(reading->next(ctx())->rows, 1000);
  EXPECT_EQ(from.missed(), 0U);
  EXPECT_GT(from.fetched(), from.size() - few_bytes);
}

TEST_F(fetched_source, of_few_columns_is_read_batch_by_batch_if_the_budget_may_be_too_small) {
  noted_store from(write_bytes(numbers({1000, 1000})));
  constexpr std::uint64_t windows = std::uint64_t{4} * (128 << 20); // those of a scan by default
  for (const std::uint64_t budget : {windows - 1, windows}) {
    const auto limited = ctx()->with_budget("limited", budget);
    const auto reading = from.open({.columns = two_columns});
    EXPECT_EQ(reading->read_all(limited).rows(), 2000);
    EXPECT_EQ(from.missed() == 0, budget < windows) << "a plan reads metadata when it is made";
  }
}

TEST_F(fetched_source, is_told_its_batches_while_those_before_it_are_read) {
  noted_store first(write_bytes(numbers({10, 20}, 1)));
  noted_store second(write_bytes(numbers({30}, 2)));
  noted_store third(write_bytes(numbers({40}, 3)));
  const auto data = data_of({&first, &second, &third});
  EXPECT_EQ(data->next(ctx())->rows, 10);
  EXPECT_TRUE(third.keeps_anything());
  EXPECT_EQ(data->next(ctx())->rows, 20);
  EXPECT_EQ(data->next(ctx())->rows, 30);
  EXPECT_FALSE(first.keeps_anything());
  EXPECT_EQ(data->next(ctx())->rows, 40);
  EXPECT_FALSE(data->next(ctx()).has_value());
  for (const noted_store* const each : {&first, &second, &third}) {
    EXPECT_EQ(each->missed(), 0U);
    EXPECT_EQ(each->calls().size(), 1U);
    EXPECT_FALSE(each->keeps_anything());
  }
  const auto chosen = data_of({&first, &second, &third}, {.batches = {{0, 3}}});
  EXPECT_EQ(chosen->next(ctx())->rows, 10);
  EXPECT_THAT(third.calls(), IsEmpty()) << "it goes to its batch when its turn comes";
  EXPECT_EQ(chosen->next(ctx())->rows, 40);
  EXPECT_FALSE(chosen->next(ctx()).has_value());
}

TEST_F(fetched_source, behind_a_file_of_this_machine_waits_for_its_turn) {
  noted_store first(write_bytes(numbers({10})));
  noted_store last(write_bytes(numbers({30})));
  write(numbers({20}), file("near"));
  std::vector<std::unique_ptr<reader>> readers;
  const read_options options{.copy = copy_policy::always};
  readers.push_back(first.open(options));
  readers.push_back(reader::open(file("near"), options));
  readers.push_back(last.open(options));
  data_set data(std::move(readers));
  EXPECT_EQ(data.next(ctx())->rows, 10);
  EXPECT_EQ(data.next(ctx())->rows, 20);
  EXPECT_THAT(last.calls(), ::testing::SizeIs(1));
  EXPECT_EQ(data.next(ctx())->rows, 30);
  EXPECT_EQ(last.missed(), 0U);
}

TEST_F(fetched_source, knows_the_sizes_of_batches_after_one_request) {
  const std::string bytes = write_bytes(numbers({1000, 1000, 1000, 0}));
  noted_store first(bytes);
  noted_store second(bytes);
  const auto data = data_of({&first, &second});
  const std::vector<batch_size> guessed = data->guess_sizes();
  ASSERT_EQ(guessed.size(), 8U);
  EXPECT_THAT(first.calls(), ElementsAre(::testing::SizeIs(4)));
  EXPECT_THAT(second.calls(), ElementsAre(::testing::SizeIs(4)));
  const std::uint64_t before = first.missed() + second.missed();
  EXPECT_LT(before, 2 * few_bytes);
  const std::vector<batch_size>& known = data->sizes();
  EXPECT_EQ(first.missed() + second.missed(), before) << "all metadata were fetched";
  ASSERT_EQ(known.size(), guessed.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    EXPECT_EQ(guessed[i].rows, known[i].rows);
    EXPECT_EQ(known[i].rows, i % 4 == 3 ? 0 : 1000);
    EXPECT_EQ(guessed[i].bytes, known[i].bytes);
    EXPECT_FALSE(guessed[i].compressed);
  }
  EXPECT_FALSE(first.keeps_anything());
  EXPECT_THAT(data->guess_sizes(), IsEmpty()) << "they are known";
}

TEST_F(fetched_source, guesses_no_sizes_without_use) {
  const std::string bytes = write_bytes(numbers({1000, 1000}), {.body = compression::zstd});
  noted_store from(bytes);
  EXPECT_TRUE(data_of({&from, &from})->guess_sizes().at(3).compressed);
  EXPECT_THAT(data_of({&from, &from}, {.batches = {{0}}})->guess_sizes(), IsEmpty());
  EXPECT_THAT(
      data_of({&from, &from}, {}, {.columns = two_columns, .copy = copy_policy::always})->guess_sizes(),
      IsEmpty());
  EXPECT_THAT(data_of({&from}, {}, {.copy = copy_policy::never})->guess_sizes(), IsEmpty());
  noted_store none(write_bytes(numbers({})));
  EXPECT_THAT(data_of({&none})->guess_sizes(), IsEmpty());
  noted_store no_rows(write_bytes(numbers({0, 0})));
  EXPECT_THAT(data_of({&no_rows})->guess_sizes(), IsEmpty());
  std::vector<std::unique_ptr<reader>> near;
  near.push_back(reader::open(std::as_bytes(std::span(bytes)), nullptr, {.copy = copy_policy::always}));
  EXPECT_THAT(data_set(std::move(near)).guess_sizes(), IsEmpty());
}

TEST_F(fetched_source, is_told_batches_in_the_order_in_which_they_are_read) {
  const std::string bytes = write_bytes(numbers({1000, 1000, 1000}));
  noted_store from(bytes);
  const auto data = data_of({&from});
  {
    const std::vector<std::size_t> numbers{2, 0};
    const auto kept = data->fetch_batches(*ctx(), numbers);
    ASSERT_EQ(from.calls().size(), 1U);
    ASSERT_EQ(from.calls()[0].size(), 2U);
    EXPECT_GT(from.calls()[0][0].offset, from.calls()[0][1].offset);
    EXPECT_GT(from.fetched(), bytes.size() / 2);
    EXPECT_TRUE(from.keeps_anything());
  }
  EXPECT_FALSE(from.keeps_anything());
  EXPECT_ERROR(data->fetch_batches(*ctx(), std::vector<std::size_t>{3}), out_of_range,
               "batch 3 is not one of 3 batches");
  noted_store stream(write_bytes(numbers({1000}), {container::stream}));
  EXPECT_EQ(data_of({&stream})->fetch_batches(*ctx(), std::vector<std::size_t>{0}), nullptr);
}

TEST_F(fetched_source, of_small_bodies_is_planned_with_one_read_of_each) {
  constexpr std::size_t few = 4096; // of metadata
  const auto largest_read = [&](const data_type& type, std::int64_t rows, compression body) {
    const table source =
        support::table_of(ctx(), {{{"x", type, true, {}}}, {}},
                          {{support::random_array(type, {rows, 0, support::nulls::absent}, 1)}});
    noted_store from(write_bytes(source, {.body = body, .batch_rows = rows}));
    const auto data = data_of({&from});
    EXPECT_TRUE(data->planned());
    from.forget();
    EXPECT_EQ(data->divided_bytes(std::vector<std::size_t>{0}).size(), 1U);
    return std::pair(from.most_at_once(), from.size());
  };
  const data_type numbers(type_id::int64);
  const data_type texts(type_id::string);
  for (const auto body : {compression::lz4, compression::zstd}) {
    const auto [small, small_file] = largest_read(numbers, 12'000, body);
    EXPECT_GT(small, small_file - few) << "a body of 96 kB";
    EXPECT_LE(largest_read(numbers, 20'000, body).first, few) << "sizes in a body of 160 kB";
  }
  const auto [small, small_file] = largest_read(texts, 900, compression::none);
  EXPECT_GT(small, few);
  EXPECT_LT(small, small_file);
  EXPECT_LE(largest_read(texts, 2000, compression::none).first, few) << "first and last offsets";
  EXPECT_LE(largest_read(numbers, 900, compression::none).first, few) << "nothing of the body is needed";
}

TEST_F(fetched_source, is_told_the_batches_of_a_scan) {
  const table original = numbers({1000, 1000, 1000});
  const std::string bytes = write_bytes(original);
  noted_store first(bytes);
  noted_store second(bytes);
  const auto data = data_of({&first, &second});
  const auto scanned = data->scan_windows(ctx(), {.window_bytes = 64 << 10});
  const auto cells = support::cells(original, 0);
  std::vector<support::cell> expected = cells;
  expected.insert(expected.end(), cells.begin(), cells.end());
  EXPECT_TRUE(cells_of(*scanned) == expected);
  for (const noted_store* const each : {&first, &second}) {
    EXPECT_LT(each->missed(), few_bytes);
    EXPECT_EQ(each->calls().size(), 1U);
  }
}

TEST_F(fetched_source, is_read_by_the_caller_of_a_scan_of_one_window) {
  noted_store from(write_bytes(numbers({100, 100, 100})));
  for (const std::uint64_t window : {std::uint64_t{1} << 20, std::uint64_t{64} << 10}) {
    for (const bool compressed : {false, true}) {
      noted_store other(
          write_bytes(numbers({2000, 2000}), {.body = compressed ? compression::zstd : compression::none}));
      for (noted_store* const each : {&from, &other}) {
        const auto data = data_of({each});
        const auto scanned = data->scan_windows(ctx(), {.window_bytes = window});
        EXPECT_EQ(cells_of(*scanned).size(), each == &from ? 300U : 4000U);
        EXPECT_EQ(each->is_read_here(), each == &from || window > (64 << 10));
      }
    }
  }
}

TEST_F(fetched_source, is_read_once_by_a_scan) {
  const auto read_of = [&](const table& source, compression body) {
    noted_store from(write_bytes(source, {.body = body, .batch_rows = source.rows()}));
    const auto data = data_of({&from});
    const auto scanned = data->scan_windows(ctx(), {.window_bytes = 128 << 10});
    EXPECT_EQ(cells_of(*scanned).size(), static_cast<std::size_t>(source.rows()));
    return std::pair(from.read_bytes(), from.size());
  };
  const table many = numbers(std::vector<std::int64_t>(40, 300));
  const auto [plain, plain_size] = read_of(many, compression::none);
  EXPECT_LT(plain, plain_size * 5 / 4);
  const auto [packed, packed_size] = read_of(many, compression::zstd);
  EXPECT_LT(packed, packed_size * 3) << "small bodies are read as a whole to find their sizes, some twice";
}

TEST_F(fetched_source, is_told_the_rows_of_parts_of_batches) {
  const table original = numbers({50'000, 50'000});
  noted_store from(write_bytes(original));
  const auto data = data_of({&from});
  static_cast<void>(data->sizes());
  from.forget();
  const std::vector<std::vector<batch_span>> windows{{{1, 40'000, 200}}, {{0, 0, 300}}, {{0, 49'900, 100}}};
  const auto scanned = data->scan_spans(ctx(), windows, 2);
  const auto all = support::cells(original, 0);
  std::vector<support::cell> expected(all.begin() + 90'000, all.begin() + 90'200);
  expected.insert(expected.end(), all.begin(), all.begin() + 300);
  expected.insert(expected.end(), all.begin() + 49'900, all.begin() + 50'000);
  EXPECT_TRUE(cells_of(*scanned) == expected);
  EXPECT_LT(from.missed(), few_bytes);
  EXPECT_LT(from.fetched(), 64'000U) << "600 rows take 28 800 bytes";
  from.forget();
  const std::vector<std::vector<batch_span>> no_rows{{{0, 0, 0}}};
  EXPECT_THAT(cells_of(*data->scan_spans(ctx(), no_rows, 2)), IsEmpty());
  EXPECT_LT(from.fetched(), few_bytes);
}

} // namespace
} // namespace saeta::ipc
