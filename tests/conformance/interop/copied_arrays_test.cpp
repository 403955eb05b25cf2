// Imports of device arrays with copy_policy::always.
#include "conformance/harness/context_test.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"
#include "support/nested_arrays.hpp"
#include "support/passed_on.hpp"

#include <gtest/gtest.h>

namespace saeta::conformance {
namespace {

using support::array_shape;
using support::carried_types;
using support::nulls;
using support::passed_on;
using support::random_array;
using support::same_rows;
using support::shared_array;

/// The arrays are in memory of `ctx()` and are imported into another context, for which it is foreign memory.
class copied_arrays : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    context_options options;
    options.budget = limit;
    taker_ = new_context(options);
  }
  [[nodiscard]] const std::shared_ptr<context>& taker() const { return taker_; }
  [[nodiscard]] column made(const shared_array& source) const {
    arrow_array given = support::to_c(source);
    import_options options;
    options.copy = copy_policy::always;
    return import_column(ctx(), {"x", source->type, true, {}}, given.get(), options);
  }
  [[nodiscard]] static arrow_device_array exported(const column& source) {
    arrow_device_array given = export_device_column(source);
    return given;
  }
  [[nodiscard]] column copied(const data_type& type, ArrowDeviceArray& from) const {
    import_options options;
    options.copy = copy_policy::always;
    return import_device_column(taker(), {"x", type, true, {}}, from, options);
  }
  [[nodiscard]] static arrow_array on_host(const column& source) {
    arrow_array seen = export_column(source);
    return seen;
  }
  static void expect_own(const column& of) {
    for (const buffer& each : of.buffers()) {
      if (each.present()) {
        EXPECT_FALSE(each.owner()->external());
        // Buffers are aligned to 64 bytes, except for neighbours on the host: these keep their distance,
        // because they are transferred together (staging/transfer_plan.hpp).
        EXPECT_EQ(each.address() % 8, 0U);
      }
    }
    for (const column& child : of.children()) {
      expect_own(child);
    }
    if (of.dictionary() != nullptr) {
      expect_own(*of.dictionary());
    }
  }

private:
  std::shared_ptr<context> taker_;
};

TEST_P(copied_arrays, of_every_type_are_in_memory_of_the_context) {
  for (const data_type& type : carried_types()) {
    for (const array_shape& shape :
         {array_shape{65, 9, nulls::some, false}, array_shape{0, 3, nulls::none, true},
          array_shape{200, 0, nulls::absent, true}, array_shape{64, 1, nulls::all, false}}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", length " << shape.length);
      const shared_array source = random_array(type, shape, 5);
      const column ours = made(source);
      taker()->copies().reset_counters();
      ArrowDeviceArray given = passed_on(exported(ours), 0, shape.length);
      const column seen = copied(type, given);
      EXPECT_EQ(given.array.release, nullptr);
      const counter_values now = taker()->copies().read_counters();
      EXPECT_EQ(now.device_to_host.transfers + now.host_to_device.transfers, 0U) << "it stays on its device";
      expect_own(seen);
      ASSERT_TRUE(same_rows(on_host(seen).get(), *source));
      const std::int64_t part = shape.length / 2;
      ArrowDeviceArray cut = passed_on(exported(ours), part, shape.length - part);
      ASSERT_TRUE(same_rows(on_host(copied(type, cut)).get(), *source, part, shape.length - part));
    }
  }
}

TEST_P(copied_arrays, do_not_see_later_writes_of_their_producer) {
  const data_type type(type_id::uint8);
  constexpr std::int64_t rows = 1 << 16;
  const buffer memory = make(rows);
  fill(memory, 1, ctx()->work_stream());
  const column ours = column::make(ctx(), {type, rows, 0, 0, {{}, memory}});
  const std::unique_ptr<gate> held = close_gate(taker()->work_stream().native_handle());
  ArrowDeviceArray given = passed_on(exported(ours), 0, rows);
  const column seen = copied(type, given);
  fill(memory, 2, ctx()->work_stream()); // ordered after the copy
  if (held) {
    held->open();
  }
  std::vector<std::uint8_t> found(rows);
  {
    const use_token token(taker()->work_stream(), {reads(seen.values())});
    taker()->copies().copy(found.data(), token.span<const std::uint8_t>(seen.values()).data(), rows,
                           to_host(), taker()->work_stream());
  }
  taker()->synchronize(taker()->work_stream());
  EXPECT_TRUE(std::ranges::all_of(found, [](std::uint8_t value) { return value == 1; }));
}

TEST_P(copied_arrays, copy_only_their_rows) {
  const data_type type(type_id::int64);
  const column ours = made(random_array(type, {100'000, 0, nulls::some, false}, 5));
  ArrowDeviceArray given = passed_on(exported(ours), 5'000, 100);
  const std::uint64_t before = taker()->reports().statistics().budget.current;
  const column seen = copied(type, given);
  EXPECT_LE(taker()->reports().statistics().budget.current - before, 2'048U);
  EXPECT_EQ(seen.length(), 100);
}

TEST_P(copied_arrays, beyond_the_budget_are_not_consumed) {
  const data_type type(type_id::int64);
  const column ours = made(random_array(type, {100'000, 0, nulls::some, false}, 5));
  taker()->set_budget(1'000);
  ArrowDeviceArray given = passed_on(exported(ours), 0, 100'000);
  const std::uint64_t before = taker()->reports().statistics().budget.current;
  EXPECT_THROW(static_cast<void>(copied(type, given)), error);
  EXPECT_EQ(taker()->reports().statistics().budget.current, before);
  ASSERT_NE(given.array.release, nullptr);
  given.array.release(&given.array);
}

TEST_P(copied_arrays, with_a_common_dictionary_share_its_copy) {
  const data_type type = data_type::dictionary(data_type(type_id::int32), data_type(type_id::string));
  const column ours = made(random_array(type, {100, 0, nulls::some, false}, 5));
  const table both = table::make(ctx(), {{{"a", type, true, {}}, {"b", type, true, {}}}, {}},
                                 {{100, {ours, ours}}, {50, {ours.slice(0, 50), ours.slice(50, 50)}}});
  ArrowDeviceArrayStream stream{};
  stream = export_device_stream(both).release();
  import_options options;
  options.copy = copy_policy::always;
  const table seen = import_device_stream(taker(), stream, options).rows;
  ASSERT_EQ(seen.batches().size(), 2U);
  const column& first = seen.batches()[0].columns[0];
  expect_own(first);
  const auto bytes_of = [](const column& of) { return of.dictionary()->bytes().address(); };
  EXPECT_EQ(bytes_of(first), bytes_of(seen.batches()[0].columns[1]));
  EXPECT_EQ(bytes_of(first), bytes_of(seen.batches()[1].columns[0])) << "of the batch before";
  EXPECT_NE(bytes_of(first), bytes_of(ours));
}

/// Every buffer is padded with zeros to a multiple of 64 bytes.
TEST_P(copied_arrays, are_padded_with_zeros) {
  for (const data_type& type : carried_types()) {
    SCOPED_TRACE(type.name());
    {
      const buffer used = buffer::allocate(taker(), 1 << 16, taker()->work_stream());
      const use_token token(taker()->work_stream(), {writes(used)});
      taker()->copies().fill(token.span<std::byte>(used).data(), 0xEE, used.size(), taker()->work_stream());
    }
    ArrowDeviceArray given =
        passed_on(exported(made(random_array(type, {65, 9, nulls::some, false}, 5))), 0, 65);
    const column seen = copied(type, given);
    const auto expect_padding = [](const column& of, const auto& self) -> void {
      for (const buffer& each : of.buffers()) {
        const std::size_t end = each.offset() + each.size();
        const std::size_t padding = each.present() ? (end + 63) / 64 * 64 - end : 0;
        if (padding == 0) {
          continue;
        }
        const auto& ctx = of.ctx();
        const buffer behind = buffer(each.owner()).slice(end, padding);
        std::vector<std::uint8_t> found(padding);
        const use_token token(ctx->work_stream(), {reads(behind)});
        ctx->copies().copy(found.data(), token.span<const std::uint8_t>(behind).data(), padding,
                           ctx->on_host() ? copy_kind::host_to_host : copy_kind::device_to_host,
                           ctx->work_stream());
        ctx->synchronize(ctx->work_stream());
        EXPECT_EQ(found, std::vector<std::uint8_t>(padding));
      }
      for (const column& child : of.children()) {
        self(child, self);
      }
    };
    expect_padding(seen, expect_padding);
  }
}

/// No buffer of a copied dictionary, at any depth, may be foreign memory.
TEST_P(copied_arrays, copy_dictionaries_that_contain_any_foreign_memory) {
  const auto stranger = [&](const shared_array& source) { // foreign memory for the importing context
    ArrowDeviceArray given = passed_on(exported(made(source)), 0, source->length);
    return import_device_column(taker(), {"x", source->type, true, {}}, given);
  };
  const auto own = [&](const data_type& type) {
    arrow_array given = support::to_c(random_array(type, {4, 0, nulls::absent, true}, 6));
    import_options options;
    options.copy = copy_policy::always;
    return import_column(taker(), {"x", type, true, {}}, given.get(), options);
  };
  const data_type number(type_id::int8);
  const data_type pairs = data_type::nested("+s", {{"a", data_type(type_id::int64), true, {}}});
  const data_type words = data_type::dictionary(number, data_type(type_id::string));
  const auto encoded = [&](const data_type& values, std::shared_ptr<const column> dictionary) {
    return column::make(
        taker(),
        {data_type::dictionary(number, values), 4, 0, 0, {{}, own(number).values()}, std::move(dictionary)});
  };
  const auto structs =
      std::make_shared<const column>(stranger(random_array(pairs, {300, 0, nulls::absent, true}, 7)));
  const auto texts = std::make_shared<const column>(
      stranger(random_array(data_type(type_id::string), {300, 0, nulls::absent, true}, 8)));
  const auto inner = std::make_shared<const column>(encoded(data_type(type_id::string), texts));
  const std::vector<column> sources{encoded(pairs, structs), encoded(words, inner)};
  for (const column& seen : copy_columns(taker(), sources, "copy")) {
    expect_own(seen);
  }
}

TEST_P(copied_arrays, are_copied_without_waiting_on_the_host) {
  const column ours = made(random_array(data_type(type_id::string), {1'000, 3, nulls::some, false}, 5));
  ctx()->copies().reset_counters();
  const std::vector<column> seen = copy_columns(ctx(), std::span(&ours, 1), "copy");
  EXPECT_EQ(ctx()->copies().read_counters().synchronizations, 0U);
  EXPECT_NE(seen[0].bytes().owner(), ours.bytes().owner());
  EXPECT_EQ(seen[0].bytes().owner(), seen[0].offsets().owner()) << "one allocation";
  EXPECT_THROW(static_cast<void>(copy_columns(taker(), std::span(&ours, 1), "copy")), error);
}

SAETA_CONFORMANCE_SUITE(copied_arrays);

} // namespace
} // namespace saeta::conformance
