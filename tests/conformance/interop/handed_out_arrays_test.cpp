// Edge cases of Arrow exchange: null counts and addresses of child arrays, misaligned values, and work that
// is pending at the hand-over.
#include "conformance/harness/arrow_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"
#include "support/faulty_backend.hpp"
#include "support/tables.hpp"
#include "unit/base/raises.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::plain_array;
using support::random_array;
using support::shared_array;
using ::testing::HasSubstr;

constexpr std::int64_t handed_rows = 1 << 12;

class handed_out_arrays : public arrow_test {
protected:
  [[nodiscard]] static arrow_device_array on_device(const column& source) {
    arrow_device_array made = export_device_column(source);
    return made;
  }
  [[nodiscard]] static arrow_array on_host(const column& source) {
    arrow_array made = export_column(source);
    return made;
  }
  /// Makes a column of uint8 over the bytes of a buffer.
  [[nodiscard]] column of(const buffer& values) const {
    return column::make(ctx(), {data_type(type_id::uint8), handed_rows, 0, 0, {{}, values}});
  }
  [[nodiscard]] buffer page_locked() const {
    return buffer::allocate(ctx(), handed_rows, ctx()->work_stream(), "page-locked", 0, memory_kind::pinned);
  }
  static shared_array shared(plain_array made) {
    return std::make_shared<const plain_array>(std::move(made));
  }

  /// A column of type int64 or of a type that contains it, and the array with the int64 values.
  struct with_numbers {
    shared_array array;
    ArrowArray& (*inner)(ArrowArray&);
  };
  static std::vector<with_numbers> arrays_with_numbers() {
    const data_type number(type_id::int64);
    const support::array_shape shape{40, 0, nulls::absent, true};
    const data_type words = data_type::dictionary(data_type(type_id::int8), number);
    return {{random_array(number, shape, 1), [](ArrowArray& of) -> ArrowArray& { return of; }},
            {random_array(data_type::nested("+s", {{"a", number, true, {}}}), shape, 2),
             [](ArrowArray& of) -> ArrowArray& { return *of.children[0]; }},
            {random_array(words, shape, 3), [](ArrowArray& of) -> ArrowArray& { return *of.dictionary; }}};
  }
};

TEST_P(handed_out_arrays, with_any_misaligned_buffer_on_a_device_are_refused) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the host takes a copy of them";
  }
  for (const with_numbers& each : arrays_with_numbers()) {
    SCOPED_TRACE(each.array->type.name());
    arrow_device_array given = on_device(imported(each.array));
    ArrowArray& inner = each.inner(given.get().array);
    const void* const sound = inner.buffers[1];
    inner.buffers[1] = static_cast<const std::byte*>(sound) + 1;
    std::string message;
    EXPECT_EQ(
        unit::code_raised_by(
            [&] {
              static_cast<void>(import_device_column(ctx(), {"x", each.array->type, true, {}}, given.get()));
            },
            &message),
        errc::exchange);
    EXPECT_THAT(message, HasSubstr("not aligned"));
    EXPECT_FALSE(given.empty()) << "the struct stays with the caller";
    inner.buffers[1] = sound;
    EXPECT_EQ(import_device_column(ctx(), {"x", each.array->type, true, {}}, given.get()).length(), 40);
  }
}

TEST_P(handed_out_arrays, with_any_misaligned_buffer_on_the_host_are_copied) {
  for (const with_numbers& each : arrays_with_numbers()) {
    SCOPED_TRACE(each.array->type.name());
    arrow_array given = support::to_c(each.array);
    ArrowArray& inner = each.inner(given.get());
    const auto bytes = static_cast<std::size_t>(inner.length + inner.offset) * sizeof(std::int64_t);
    std::vector<std::byte> memory(bytes + 8 + 1);
    std::byte* const odd = memory.data() + 1;
    std::memcpy(odd, inner.buffers[1], bytes);
    inner.buffers[1] = odd;
    import_options options;
    options.copy = copy_policy::never;
    EXPECT_EQ(
        unit::code_raised_by([&] {
          static_cast<void>(import_column(ctx(), {"x", each.array->type, true, {}}, given.get(), options));
        }),
        errc::exchange);
    const column seen = import_column(ctx(), {"x", each.array->type, true, {}}, given.get());
    EXPECT_TRUE(support::same_rows(on_host(seen).get(), *each.array));
    const column& numbers = seen.dictionary() != nullptr ? *seen.dictionary()
                            : seen.children().empty()    ? seen
                                                         : seen.children()[0];
    EXPECT_EQ(numbers.values().address() % 8, 0U);
    EXPECT_EQ(numbers.values().owner()->external(), false);
  }
}

/// A producer may export CPU memory to which a GPU is still writing.
TEST_P(handed_out_arrays, in_page_locked_memory_are_read_after_their_event) {
  if (GetParam().name != "sim") {
    GTEST_SKIP() << "needs a device without CUDA that passes for one with it";
  }
  const auto passing = std::make_shared<saeta::testing::faulty_backend>(shared_device());
  passing->pass_for({device_kind::cuda, 0});
  const auto gpu = watch(context::create(passing));
  const auto free_pinned = [&](void* pointer) {
    EXPECT_TRUE(device().deallocate_pinned(pointer, handed_rows));
  };
  const std::unique_ptr<void, decltype(free_pinned)> memory(device().allocate_pinned(handed_rows),
                                                            free_pinned);
  const stream foreign(shared_device());
  const stream_handle theirs = foreign.ref().native_handle();
  const data_type type(type_id::uint8);
  for (const bool whole_batch : {true, false}) {
    device().fill(memory.get(), 1, handed_rows, theirs);
    device().synchronize_stream(theirs);
    device().fill(memory.get(), 2, handed_rows, theirs);
    event written(shared_device());
    event_handle handle = written.ref().native_handle();
    written.ref().record(foreign.ref());

    const shared_array stand_in = random_array(type, {handed_rows, 0, nulls::absent}, 1);
    arrow_array host = whole_batch ? support::to_c_batch({stand_in}, handed_rows) : support::to_c(stand_in);
    (whole_batch ? *host.get().children[0] : host.get()).buffers[1] = memory.get();
    arrow_device_array given;
    given.get().array = host.release();
    given.get().device_type = ARROW_DEVICE_CUDA_HOST;
    given.get().sync_event = &handle;
    dictionary_cache dictionaries;
    const field described{"x", type, true, {}};
    const column seen =
        whole_batch ? import_device_batch(gpu, {{described}, {}}, given.get(), dictionaries).columns.front()
                    : import_device_column(gpu, described, given.get());
    const auto found = support::cells(seen);
    EXPECT_EQ(found, (std::vector<support::cell>(handed_rows, std::string(1, '\2')))) << whole_batch;
  }
}

TEST_P(handed_out_arrays, with_an_event_of_an_unsupported_device_are_refused) {
  std::vector<std::byte> memory(handed_rows);
  const shared_array stand_in = random_array(data_type(type_id::uint8), {handed_rows, 0, nulls::absent}, 1);
  for (const auto& [type, said] : {std::pair{ARROW_DEVICE_CUDA_HOST, "can't wait for its sync_event"},
                                   std::pair{ARROW_DEVICE_CPU, "sync_event is set for memory of the CPU"}}) {
    if (type == ARROW_DEVICE_CUDA_HOST && to_string(ctx()->device()).starts_with("cuda")) {
      continue; // a CUDA context can wait for this event
    }
    arrow_device_array given;
    given.get().array = support::to_c(stand_in).release();
    given.get().device_type = type;
    given.get().sync_event = memory.data();
    std::string message;
    EXPECT_NE(unit::code_raised_by(
                  [&] {
                    static_cast<void>(
                        import_device_column(ctx(), {"x", data_type(type_id::uint8), true, {}}, given.get()));
                  },
                  &message),
              errc::closed);
    EXPECT_THAT(message, HasSubstr(said));
  }
}

void forget_counts(plain_array& of) {
  of.null_count = column::unknown_nulls;
  for (shared_array& child : of.children) {
    plain_array made(*child);
    forget_counts(made);
    child = std::make_shared<const plain_array>(std::move(made));
  }
  if (of.dictionary != nullptr) {
    plain_array made(*of.dictionary);
    forget_counts(made);
    of.dictionary = std::make_shared<const plain_array>(std::move(made));
  }
}

void expect_counts(const ArrowArray& seen, const plain_array& expected) {
  EXPECT_EQ(seen.null_count, expected.nulls_in(0, seen.length));
  for (std::size_t i = 0; i < expected.children.size(); ++i) {
    expect_counts(*seen.children[i], *expected.children[i]);
  }
  if (expected.dictionary != nullptr) {
    expect_counts(*seen.dictionary, *expected.dictionary);
  }
}

TEST_P(handed_out_arrays, of_a_device_have_exact_null_counts_at_all_levels) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "the CPU counts for itself";
  }
  const data_type text(type_id::string);
  const data_type words = data_type::dictionary(data_type(type_id::int8), text);
  const data_type inside = data_type::nested("+s", {{"a", text, true, {}}, {"b", words, true, {}}});
  for (const data_type& type : {text, words, inside}) {
    SCOPED_TRACE(type.name());
    plain_array source(*random_array(type, {60, 0, nulls::some, false}, 4));
    if (source.dictionary != nullptr) {
      source.dictionary = random_array(text, {9, 0, nulls::some, false}, 5);
    }
    forget_counts(source);
    import_options unchecked; // a full check would refuse indices of null dictionary entries
    unchecked.check = validation::structure;
    const column ours = imported(shared(source), unchecked);
    expect_counts(on_device(ours).get().array, source);
  }
}

TEST_P(handed_out_arrays, are_counted_after_the_last_write_of_their_validity) {
  const stream_lease theirs = ctx()->borrow_stream();
  const buffer validity = make(handed_rows / 8);
  fill(validity, 0xFF, ctx()->work_stream());
  const column ours = column::make(
      ctx(),
      {data_type(type_id::uint8), handed_rows, 0, column::unknown_nulls, {validity, make(handed_rows)}});
  ctx()->synchronize(ctx()->work_stream());
  const auto held = close_gate(theirs.ref().native_handle());
  fill(validity, 0x0F, theirs.ref());
  arrow_device_array seen;
  open_while_the_host_waits(held, [&] { seen = on_device(ours); });
  EXPECT_EQ(seen.get().array.null_count, ctx()->on_host() ? -1 : handed_rows / 2);
}

void append_addresses(const ArrowArray& of, std::vector<const void*>& found) {
  for (std::int64_t i = 1; i < of.n_buffers; ++i) { // starts after the validity, which may be null
    found.push_back(of.buffers[i]);
  }
  for (std::int64_t i = 0; i < of.n_children; ++i) {
    append_addresses(*of.children[i], found);
  }
  if (of.dictionary != nullptr) {
    append_addresses(*of.dictionary, found);
  }
}

TEST_P(handed_out_arrays, without_bytes_have_non_null_device_addresses) {
  const data_type text(type_id::string);
  const data_type words = data_type::dictionary(data_type(type_id::int32), text);
  plain_array lists;
  lists.type = data_type::nested("+l", {{"item", text, true, {}}});
  lists.length = 1;
  lists.buffers = {{}, std::vector<std::byte>(8)};
  lists.children = {support::strings({})};
  plain_array codes(*random_array(words, {4, 0, nulls::all, true}, 1));
  codes.dictionary = support::strings({});
  for (const shared_array& each : {support::strings({}), support::strings({"", ""}), shared(lists),
                                   shared(codes), random_array(words, {0, 0, nulls::absent, true}, 2)}) {
    SCOPED_TRACE(::testing::Message() << each->type.name() << ", " << each->length << " rows");
    const column ours = imported(each);
    const arrow_device_array seen = on_device(ours);
    std::vector<const void*> addresses;
    append_addresses(seen.get().array, addresses);
    for (const void* const address : addresses) {
      ASSERT_NE(address, nullptr);
      EXPECT_EQ(device().kind_of(address), own_kind(ctx()->device()));
    }
  }
}

TEST_P(handed_out_arrays, without_rows_have_no_offset_and_no_buffers) {
  const data_type text(type_id::string);
  const data_type pair = data_type::nested("+s", {{"a", text, true, {}}});
  for (const data_type& type : {text, pair, data_type(type_id::int64), data_type::parse("vu")}) {
    SCOPED_TRACE(type.name());
    const column none = imported(random_array(type, {40, 3, nulls::some, true}, 6)).slice(7, 0);
    for (const bool moved : {false, true}) {
      arrow_array host;
      arrow_device_array there;
      if (moved) {
        there = on_device(none);
      } else {
        host = on_host(none);
      }
      const ArrowArray& seen = moved ? there.get().array : host.get();
      EXPECT_EQ(seen.length, 0);
      EXPECT_EQ(seen.offset, 0);
      EXPECT_EQ(seen.null_count, 0);
      EXPECT_EQ(seen.buffers[0], nullptr);
    }
  }
}

TEST_P(handed_out_arrays, in_page_locked_memory_are_exported_after_their_last_write) {
  const stream_lease theirs = ctx()->borrow_stream();
  const buffer values = page_locked();
  fill(values, 1, ctx()->work_stream());
  const column ours = of(values);
  ctx()->synchronize(ctx()->work_stream());
  const auto held = close_gate(theirs.ref().native_handle());
  fill(values, 2, theirs.ref());
  arrow_array seen;
  open_while_the_host_waits(held, [&] { seen = on_host(ours); });
  const auto* const bytes = static_cast<const std::uint8_t*>(seen.get().buffers[1]);
  EXPECT_TRUE(std::all_of(bytes, bytes + handed_rows, [](std::uint8_t byte) { return byte == 2; }));
}

TEST_P(handed_out_arrays, of_batches_may_have_null_rows_outside_of_their_range) {
  const data_type number(type_id::int8);
  const data_type pair = data_type::nested("+s", {{"a", number, true, {}}});
  plain_array whole;
  whole.type = pair;
  whole.length = 16;
  whole.null_count = 8;
  whole.buffers = {{std::byte{0x00}, std::byte{0xFF}}}; // the first eight rows are null
  whole.children = {random_array(number, {16, 0, nulls::absent, true}, 1)};
  const schema fields{{{"a", number, true, {}}}, {}};
  for (const bool there : {true, false}) {
    for (const std::int64_t first : {8, 7}) {
      arrow_device_array moved;
      arrow_array host = support::to_c(shared(whole));
      if (there) {
        moved = on_device(imported(shared(whole)));
      }
      ArrowArray& given = there ? moved.get().array : host.get();
      given.offset = first;
      given.length = 16 - first;
      given.null_count = -1;
      dictionary_cache dictionaries;
      const auto import = [&] {
        return there ? import_device_batch(ctx(), fields, moved.get(), dictionaries)
                     : import_batch(ctx(), fields, host.get(), dictionaries);
      };
      if (first == 8) {
        EXPECT_EQ(import().rows, 8);
      } else {
        EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(import()); }), errc::unsupported);
      }
    }
  }
}

TEST_P(handed_out_arrays, of_a_stream_are_on_the_device_that_it_names) {
  const column ours = imported(random_array(data_type(type_id::int32), {9, 0, nulls::absent, true}, 1));
  const field described{"x", ours.type(), true, {}};
  const table rows_of_it = table::make(ctx(), {{described}, {}}, {{9, {ours}}});
  for (const bool structs : {true, false}) {
    arrow_device_stream stream;
    if (structs) {
      stream = export_device_stream(rows_of_it);
    } else {
      stream = export_device_stream(described, {ours});
    }
    stream.get().device_type = ARROW_DEVICE_CUDA_MANAGED;
    std::string message;
    EXPECT_EQ(
        unit::code_raised_by([&] { static_cast<void>(import_device_stream(ctx(), stream.get())); }, &message),
        errc::format);
    EXPECT_THAT(message, HasSubstr("the stream on 13"));
  }
}

TEST_P(handed_out_arrays, of_a_stream_are_not_downloaded_in_strict_mode) {
  const column ours = imported(random_array(data_type(type_id::int32), {9, 0, nulls::absent, true}, 1));
  const auto strict = ctx()->copies().forbid_downloads();
  arrow_stream stream;
  const auto refused = unit::code_raised_by([&] {
    stream = export_stream({"x", ours.type(), true, {}}, {ours, ours});
  });
  EXPECT_EQ(refused == errc::download_forbidden, !ctx()->on_host()) << "before an array is asked for";
}

SAETA_CONFORMANCE_SUITE(handed_out_arrays);

} // namespace
} // namespace saeta::conformance
