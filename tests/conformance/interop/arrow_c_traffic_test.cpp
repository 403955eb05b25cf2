// The copies, allocations and lifetimes of Arrow C Data imports and exports.

#include "conformance/harness/context_test.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "support/arrays.hpp"
#include "support/faulty_backend.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::random_array;
using support::same_rows;
using support::shared_array;

class arrow_c_traffic : public context_test {
protected:
  /// Returns a schema with columns of various layouts; `codes` is a dictionary.
  static schema fields() {
    return {
        {{"numbers", data_type(type_id::int64), true, {}},
         {"flags", data_type(type_id::boolean), true, {}},
         {"words", data_type(type_id::string), true, {}},
         {"codes", data_type::dictionary(data_type(type_id::int8), data_type(type_id::string)), true, {}}},
        {}};
  }

  void SetUp() override {
    context_test::SetUp();
    for (const field& f : fields().fields) {
      plain_.push_back(random_array(f.type, {1000, 9, nulls::some, true}, plain_.size() + 1));
    }
  }
  /// Makes a batch whose dictionary column shares the dictionary of the first batch.
  [[nodiscard]] arrow_array next_batch() const {
    std::vector<shared_array> children = plain_;
    children.back() = support::random_indices(plain_.back()->type, {1000, 9, nulls::some, true},
                                              plain_.back()->dictionary, 99);
    return support::to_c_batch(children, 1000, 0, releases_);
  }
  [[nodiscard]] batch take(arrow_array& given, const import_options& options = {}) {
    return import_batch(ctx(), fields(), given.get(), dictionaries_, options);
  }
  /// Returns the counter of copies into the context's memory.
  [[nodiscard]] traffic inward() const {
    const counter_values seen = ctx()->copies().read_counters();
    return ctx()->on_host() ? seen.host_to_host : seen.host_to_device;
  }

  std::vector<shared_array> plain_;
  dictionary_cache dictionaries_;
  std::shared_ptr<std::atomic<int>> releases_ = std::make_shared<std::atomic<int>>(0);
};

TEST_P(arrow_c_traffic, an_import_copies_nothing_on_the_host_and_takes_one_transfer_to_a_device) {
  arrow_array first = next_batch();
  const batch seen = take(first);
  const counter_values counted = ctx()->copies().read_counters();
  if (ctx()->on_host()) {
    counter_values expected;
    expected.imports = counted.imports;
    EXPECT_EQ(counted, expected) << "imports are all that happened";
    EXPECT_GT(counted.imports, 0U);
    EXPECT_EQ(*releases_, 0) << "the columns keep the struct";
  } else {
    EXPECT_EQ(counted.host_to_device.transfers, 2U) << "one for the batch and one for its new dictionary";
    EXPECT_EQ(counted.imports, 0U);
    EXPECT_EQ(*releases_, 0) << "the cache keeps the source of the dictionary";
  }
  ctx()->copies().reset_counters();
  arrow_array second = next_batch();
  const batch more = take(second);
  EXPECT_EQ(inward().transfers, ctx()->on_host() ? 0U : 1U) << "the dictionary is there already";
  EXPECT_EQ(more.columns[3].dictionary(), seen.columns[3].dictionary());
}

TEST_P(arrow_c_traffic, a_slice_moves_only_its_window) {
  import_options copied;
  copied.copy = copy_policy::always;
  const shared_array source = random_array(data_type(type_id::int64), {1000, 500, nulls::absent, true}, 1);
  arrow_array given = support::to_c(source);
  const column seen = import_column(ctx(), {"x", source->type, true, {}}, given.get(), copied);
  EXPECT_EQ(inward().transfers, 1U);
  EXPECT_LE(inward().bytes, 8U * 1000U + 63U) << "rows, and padding to 64 bytes";
  EXPECT_EQ(seen.length(), 1000);
}

TEST_P(arrow_c_traffic, copy_always_charges_the_budget_and_releases_the_arrays) {
  import_options copied;
  copied.copy = copy_policy::always;
  arrow_array given = next_batch();
  const batch seen = take(given, copied);
  EXPECT_EQ(*releases_, 0) << "another dictionary must not appear at the addresses that the cache knows";
  dictionaries_ = {};
  EXPECT_EQ(*releases_, 1);
  EXPECT_EQ(inward().transfers, 2U);
  EXPECT_EQ(ctx()->copies().read_counters().imports, 0U);
  EXPECT_GT(ctx()->reports().statistics().budget.current, 1000U * 8U);
  arrow_array out = export_column(seen.columns[2]);
  EXPECT_TRUE(same_rows(out.get(), *plain_[2]));
}

TEST_P(arrow_c_traffic, copy_never_is_a_view_or_an_error_without_release) {
  import_options in_place;
  in_place.copy = copy_policy::never;
  arrow_array given = next_batch();
  if (ctx()->on_host()) {
    const std::uint64_t before = ctx()->copies().read_counters().host_to_device.bytes;
    EXPECT_EQ(take(given, in_place).rows, 1000);
    EXPECT_TRUE(given.empty());
    EXPECT_EQ(ctx()->copies().read_counters().host_to_device.bytes, before);
    return;
  }
  try {
    static_cast<void>(take(given, in_place));
    FAIL() << "a device can't use host memory in place";
  } catch (const error& seen) {
    EXPECT_EQ(seen.code(), errc::exchange);
  }
  EXPECT_FALSE(given.empty());
  EXPECT_EQ(*releases_, 0);
  EXPECT_EQ(ctx()->copies().read_counters(), counter_values{});
}

TEST_P(arrow_c_traffic, misaligned_buffers_are_copied_never_adopted) {
  std::vector<std::byte> memory(8 * 100 + 1);
  const void* buffers[2] = {nullptr, memory.data() + 1};
  ArrowArray given{};
  given.length = 100;
  given.n_buffers = 2;
  given.buffers = buffers;
  given.release = [](ArrowArray* array) { array->release = nullptr; };
  const field described{"x", data_type(type_id::int64), true, {}};
  import_options in_place;
  in_place.copy = copy_policy::never;
  EXPECT_THROW(import_column(ctx(), described, given, in_place), error);
  ASSERT_NE(given.release, nullptr);
  const column seen = import_column(ctx(), described, given);
  EXPECT_EQ(inward().transfers, 1U);
  EXPECT_EQ(seen.values().address() % alignof(std::int64_t), 0U);
}

TEST_P(arrow_c_traffic, a_budget_refusal_does_not_consume_the_struct) {
  context_options small;
  small.budget = 1000;
  const auto tight = new_context(small);
  import_options copied;
  copied.copy = copy_policy::always;
  arrow_array given = next_batch();
  try {
    static_cast<void>(import_batch(tight, fields(), given.get(), dictionaries_, copied));
    FAIL() << "1000 bytes are not enough";
  } catch (const error& seen) {
    EXPECT_EQ(seen.code(), errc::budget_exceeded);
  }
  EXPECT_FALSE(given.empty());
  EXPECT_EQ(*releases_, 0);
}

TEST_P(arrow_c_traffic, the_struct_is_released_once_after_the_last_column) {
  arrow_array given = next_batch();
  std::optional<column> last;
  {
    batch seen = take(given);
    last = seen.columns[1].slice(3, 5);
  }
  dictionaries_ = {};
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(*releases_, ctx()->on_host() ? 0 : 1);
  last.reset();
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(*releases_, 1);
}

TEST_P(arrow_c_traffic, an_export_copies_nothing_on_the_host_and_takes_one_download_from_a_device) {
  arrow_array given = next_batch();
  const table whole = table::make(ctx(), fields(), {take(given)});
  ctx()->copies().reset_counters();
  arrow_array out = export_batch(whole, 0);
  const counter_values counted = ctx()->copies().read_counters();
  if (ctx()->on_host()) {
    counter_values expected;
    expected.exports = 1;
    EXPECT_EQ(counted, expected);
    EXPECT_EQ(out.get().children[0]->buffers[1], plain_[0]->buffers[1].data());
    EXPECT_EQ(out.get().children[0]->offset, 9);
    EXPECT_EQ(out.get().children[2]->buffers[2], plain_[2]->buffers[2].data());
    EXPECT_EQ(out.get().children[3]->dictionary->buffers[1], plain_[3]->dictionary->buffers[1].data());
  } else {
    EXPECT_EQ(counted.device_to_host.transfers, 1U);
    EXPECT_EQ(counted.exports, 0U);
  }
}

TEST_P(arrow_c_traffic, an_export_keeps_the_memory_of_its_dictionary) {
  import_options copied;
  copied.copy = copy_policy::always; // so that the arrays are released
  arrow_array out;
  {
    arrow_array given = support::to_c(plain_[3]);
    out = export_column(import_column(ctx(), fields().fields[3], given.get(), copied));
  }
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, ctx()->on_host() ? 2U : 1U)
      << "one slab each, or one download of both";
  EXPECT_TRUE(same_rows(out.get(), *plain_[3]));
  out.reset();
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
}

TEST_P(arrow_c_traffic, an_export_outlives_its_column_and_the_context) {
  arrow_array out;
  {
    arrow_array given = support::to_c(plain_[2]);
    out = export_column(import_column(ctx(), fields().fields[2], given.get()));
    context_.reset();
  }
  EXPECT_TRUE(same_rows(out.get(), *plain_[2]));
}

TEST_P(arrow_c_traffic, a_moved_child_outlives_its_parent) {
  arrow_array given = next_batch();
  const std::weak_ptr<context> alive = ctx()->weak_from_this();
  const bool on_host = ctx()->on_host();
  arrow_array child;
  {
    arrow_array out = export_batch(table::make(ctx(), fields(), {take(given)}), 0);
    child.take(*out.get().children[2]);
    dictionaries_ = {};
    context_.reset();
  }
  EXPECT_TRUE(same_rows(child.get(), *plain_[2]));
  EXPECT_EQ(*releases_, on_host ? 0 : 1);
  child.reset();
  EXPECT_EQ(*releases_, 1);
  EXPECT_TRUE(alive.expired() || !on_host) << "on the host nothing is pending";
}

TEST_P(arrow_c_traffic, a_failed_get_next_can_be_repeated) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "an export of host memory asks nothing of the backend";
  }
  const auto faulty = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  const auto ctx = watch(context::create(faulty));
  arrow_array given = support::to_c(plain_[0]);
  const column source = import_column(ctx, fields().fields[0], given.get());
  arrow_stream made = export_stream(fields().fields[0], {source});
  ArrowArrayStream& stream = made.get();
  arrow_array out;
  faulty->fail_at(1, std::make_exception_ptr(std::runtime_error("interrupted")));
  EXPECT_EQ(stream.get_next(&stream, out.out()), EINVAL);
  EXPECT_STREQ(stream.get_last_error(&stream), "interrupted");
  faulty->fail_at(1, std::make_exception_ptr(std::bad_alloc()));
  EXPECT_EQ(stream.get_next(&stream, out.out()), ENOMEM);
  EXPECT_EQ(stream.get_last_error(&stream), nullptr) << "the last failure has no text";
  faulty->fail_at(1);
  EXPECT_EQ(stream.get_next(&stream, out.out()), EIO);
  EXPECT_STREQ(stream.get_last_error(&stream), "device: call 1 was chosen to fail");
  EXPECT_EQ(stream.get_next(&stream, out.out()), 0);
  EXPECT_EQ(stream.get_last_error(&stream), nullptr);
  EXPECT_TRUE(same_rows(out.get(), *plain_[0]));
}

SAETA_CONFORMANCE_SUITE(arrow_c_traffic);

} // namespace
} // namespace saeta::conformance
