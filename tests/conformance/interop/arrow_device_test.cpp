// Arrow C Device import and export of every type without copies, ordered at hand-over and at release.
#include "conformance/harness/arrow_test.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace saeta::conformance {
namespace {

using support::array_shape;
using support::carried_types;
using support::nulls;
using support::random_array;
using support::same_rows;
using support::shared_array;

constexpr std::size_t array_bytes = 1 << 20;

class arrow_device : public arrow_test {
protected:
  [[nodiscard]] static arrow_device_array on_device(const column& source) {
    arrow_device_array made = export_device_column(source);
    return made;
  }
  [[nodiscard]] column taken(const data_type& type, arrow_device_array from) const {
    return import_device_column(ctx(), {"x", type, true, {}}, from.get());
  }
  [[nodiscard]] static arrow_array on_host(const column& source) {
    arrow_array made = export_column(source);
    return made;
  }
  /// Checks the fields that the standard requires for memory of this context.
  void expect_device(const ArrowDeviceArray& seen) const {
    EXPECT_EQ(seen.device_type, static_cast<std::int32_t>(ctx()->device().kind));
    EXPECT_EQ(seen.device_id, ctx()->on_host() ? -1 : ctx()->device().ordinal);
    EXPECT_TRUE(std::ranges::all_of(seen.reserved, [](std::int64_t word) { return word == 0; }));
  }
  [[nodiscard]] column of(const buffer& values) const {
    return column::make(
        ctx(), {data_type(type_id::uint8), static_cast<std::int64_t>(array_bytes), 0, 0, {{}, values}});
  }
  [[nodiscard]] buffer filled(std::uint8_t value) const {
    buffer made = make(array_bytes);
    fill(made, value, ctx()->work_stream());
    ctx()->synchronize(ctx()->work_stream());
    return made;
  }
  [[nodiscard]] bool holds(const buffer& used, std::uint8_t value) const {
    const auto content = read(used);
    return std::ranges::all_of(content, [&](std::uint8_t b) { return b == value; });
  }
  /// Makes the consumer's stream wait for the event of the array, if there is one.
  void wait_like_a_consumer(const ArrowDeviceArray& seen, stream_handle consumer) const {
    if (seen.sync_event != nullptr) {
      device().wait_event(consumer, *static_cast<const event_handle*>(seen.sync_event));
    }
  }
  void queue_foreign_read(const ArrowArray& seen, const buffer& into, stream_handle consumer) const {
    device().copy(reinterpret_cast<void*>(into.address()), seen.buffers[1], array_bytes, within(), consumer);
  }
};

TEST_P(arrow_device, round_trips_every_type_without_a_copy) {
  for (const data_type& type : carried_types()) {
    for (const array_shape& shape :
         {array_shape{65, 9, nulls::some, false}, array_shape{0, 3, nulls::none, true},
          array_shape{7, 0, nulls::absent, true}, array_shape{64, 1, nulls::all, false}}) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", length " << shape.length);
      const shared_array source = random_array(type, shape, 5);
      const column ours = imported(source);
      ctx()->copies().reset_counters();
      arrow_device_array struct_of_it = on_device(ours);
      expect_device(struct_of_it.get());
      const column seen = taken(type, std::move(struct_of_it));
      const counter_values now = ctx()->copies().read_counters();
      EXPECT_EQ(now.host_to_device.bytes + now.device_to_host.bytes + now.device_to_device.bytes +
                    now.host_to_host.bytes,
                0U);
      for (std::size_t i = 0; i < ours.buffers().size(); ++i) {
        if (seen.length() != 0 && ours.buffers()[i].present()) {
          // The offset of a union was pushed to its children, so its type ids begin later.
          const auto skipped = static_cast<std::uintptr_t>(ours.offset() - seen.offset());
          EXPECT_EQ(seen.buffers()[i].address(), ours.buffers()[i].address() + skipped) << "buffer " << i;
        }
      }
      ASSERT_TRUE(same_rows(on_host(seen).get(), *source));
      EXPECT_EQ(seen.null_count(), ours.null_count());
    }
  }
}

TEST_P(arrow_device, supports_slices_of_slices) {
  for (const data_type& type : carried_types()) {
    SCOPED_TRACE(type.name());
    const shared_array source = random_array(type, {200, 9, nulls::some, false}, 11);
    const column cut = imported(source).slice(10, 150).slice(3, 100);
    const column seen = taken(type, on_device(cut));
    ASSERT_TRUE(same_rows(on_host(seen).get(), *source, 13, 100));
    const column again = taken(type, on_device(seen.slice(7, 60)));
    ASSERT_TRUE(same_rows(on_host(again).get(), *source, 20, 60));
  }
}

TEST_P(arrow_device, exports_tables_as_streams_of_their_batches) {
  schema fields;
  std::vector<batch> batches;
  dictionary_cache dictionaries;
  for (const std::int64_t rows : {40, 0, 7}) {
    std::vector<shared_array> children;
    for (const data_type& type : carried_types()) {
      children.push_back(random_array(type, {rows, 1, nulls::some, true}, children.size() + 1));
    }
    if (batches.empty()) {
      for (const data_type& type : carried_types()) {
        fields.fields.push_back({type.name(), type, true, {{"k", "v"}}});
      }
    }
    arrow_array given = support::to_c_batch(children, rows);
    batches.push_back(import_batch(ctx(), fields, given.get(), dictionaries));
  }
  const table ours = table::make(ctx(), fields, batches);
  arrow_device_stream stream = export_device_stream(ours);
  EXPECT_EQ(stream.get().device_type, static_cast<std::int32_t>(ctx()->device().kind));
  const imported_stream seen = import_device_stream(ctx(), stream.get());
  EXPECT_TRUE(stream.empty());
  EXPECT_TRUE(seen.of_structs);
  ASSERT_EQ(seen.rows.fields(), fields);
  ASSERT_EQ(seen.rows.batches().size(), 3U);
  for (std::size_t b = 0; b < 3; ++b) {
    arrow_array left;
    arrow_array right;
    left = export_batch(seen.rows, b);
    right = export_batch(ours, b);
    EXPECT_EQ(left.get().length, right.get().length);
  }
  const std::vector<column> pieces = ours.pieces(3);
  stream = export_device_stream(fields.fields[3], pieces);
  const imported_stream column_of_it = import_device_stream(ctx(), stream.get());
  EXPECT_FALSE(column_of_it.of_structs);
  EXPECT_EQ(column_of_it.rows.rows(), 47);
}

TEST_P(arrow_device, a_consumer_waits_for_the_last_write) {
  const stream_lease ours = ctx()->borrow_stream();
  const stream foreign(shared_device());
  const buffer sink = filled(0);
  const buffer values = filled(1);
  const auto held = close_gate(ours.ref().native_handle());
  fill(values, 2, ours.ref());
  const arrow_device_array seen = on_device(of(values));
  wait_like_a_consumer(seen.get(), foreign.ref().native_handle());
  queue_foreign_read(seen.get().array, sink, foreign.ref().native_handle());
  if (held) {
    EXPECT_NE(seen.get().sync_event, nullptr);
    EXPECT_FALSE(foreign.ref().idle()) << "the consumer did not wait for the last write";
    held->open();
  }
  device().synchronize_stream(foreign.ref().native_handle());
  EXPECT_TRUE(holds(sink, 2));
}

TEST_P(arrow_device, has_no_event_without_pending_work) {
  const buffer values = filled(1);
  EXPECT_EQ(on_device(of(values)).get().sync_event, nullptr);
}

TEST_P(arrow_device, an_import_waits_for_the_producer_before_it_reads) {
  const stream foreign(shared_device());
  const buffer sink = filled(0);
  const buffer memory = filled(1);
  event written(shared_device());
  event_handle handle = written.ref().native_handle();
  const auto held = close_gate(foreign.ref().native_handle());
  device().fill(reinterpret_cast<void*>(memory.address()), 2, array_bytes, foreign.ref().native_handle());
  written.ref().record(foreign.ref());
  arrow_device_array given = on_device(of(memory));
  if (!ctx()->on_host()) {
    given.get().sync_event = &handle;
  }
  const column seen = taken(data_type(type_id::uint8), std::move(given));
  const stream_ref work = ctx()->work_stream();
  {
    use_token token(work, {reads(seen.values()), writes(sink)});
    ctx()->copies().copy(token.span<char>(sink).data(), token.span<const char>(seen.values()).data(),
                         array_bytes, within(), work);
  }
  if (held) {
    EXPECT_FALSE(work.idle()) << "our read did not wait for the producer";
    held->open();
  }
  ctx()->synchronize(work);
  EXPECT_TRUE(holds(sink, 2));
}

TEST_P(arrow_device, memory_is_reused_after_the_release_and_the_consumers_work) {
  const stream foreign(shared_device());
  const buffer sink = filled(0);
  const auto held = close_gate(foreign.ref().native_handle());
  {
    const buffer values = filled(3);
    arrow_device_array seen = on_device(of(values));
    wait_like_a_consumer(seen.get(), foreign.ref().native_handle());
    queue_foreign_read(seen.get().array, sink, foreign.ref().native_handle());
    seen.reset(); // while the read is pending
  }
  const buffer other = make(array_bytes); // may reuse the memory in stream order
  fill(other, 9, ctx()->work_stream());
  if (held) {
    held->open();
  }
  device().synchronize_stream(foreign.ref().native_handle());
  EXPECT_TRUE(holds(sink, 3));
}

TEST_P(arrow_device, a_moved_child_outlives_its_parent_array) {
  const shared_array source = random_array(data_type::parse("u"), {50, 3, nulls::some, true}, 2);
  arrow_device_array whole;
  {
    const column text = imported(source);
    whole = export_device_batch(table::make(ctx(), {{{"t", text.type(), true, {}}}, {}}, {{50, {text}}}), 0);
  }
  arrow_device_array alone;
  alone.get().device_type = whole.get().device_type;
  alone.get().device_id = whole.get().device_id;
  alone.get().array = std::exchange(*whole.get().array.children[0], ArrowArray{});
  whole.reset();
  EXPECT_TRUE(same_rows(on_host(taken(source->type, std::move(alone))).get(), *source));
}

struct defect {
  const char* what;
  std::function<void(ArrowDeviceArray&)> apply;
  errc code;
};

TEST_P(arrow_device, refuses_broken_structs_and_leaves_them_with_the_caller) {
  static const void* no_buffers[3] = {nullptr, nullptr, nullptr};
  const std::vector<defect> defects{
      {"device type", [](ArrowDeviceArray& a) { a.device_type = 99; }, errc::exchange},
      {"device type 0", [](ArrowDeviceArray& a) { a.device_type = 0; }, errc::exchange},
      {"length", [](ArrowDeviceArray& a) { a.array.length = -1; }, errc::format},
      {"offset", [](ArrowDeviceArray& a) { a.array.offset = -1; }, errc::format},
      {"null count", [](ArrowDeviceArray& a) { a.array.null_count = 999; }, errc::format},
      {"buffers", [](ArrowDeviceArray& a) { a.array.n_buffers = 1; }, errc::format},
      {"null buffers", [](ArrowDeviceArray& a) { a.array.buffers = nullptr; }, errc::format},
      {"no buffers", [](ArrowDeviceArray& a) { a.array.buffers = no_buffers; }, errc::format},
      {"children", [](ArrowDeviceArray& a) { a.array.n_children = 1; }, errc::format},
  };
  const shared_array source = random_array(data_type::parse("u"), {50, 3, nulls::absent, true}, 2);
  const column text = imported(source);
  for (const defect& each : defects) {
    arrow_device_array given = on_device(text);
    const ArrowDeviceArray sound = given.get();
    each.apply(given.get());
    try {
      static_cast<void>(import_device_column(ctx(), {"x", source->type, true, {}}, given.get()));
      ADD_FAILURE() << each.what << " was taken";
    } catch (const error& why) {
      EXPECT_EQ(why.code(), each.code) << each.what << ": " << why.what();
    }
    EXPECT_FALSE(given.empty()) << each.what;
    given.get() = sound;
    EXPECT_TRUE(same_rows(on_host(taken(source->type, std::move(given))).get(), *source)) << each.what;
  }
}

TEST_P(arrow_device, refuses_released_arrays) {
  const column text = imported(random_array(data_type::parse("u"), {50, 3, nulls::some, true}, 2));
  arrow_device_array given = on_device(text);
  given.get().array.release(&given.get().array); // the other fields stay unchanged
  dictionary_cache dictionaries;
  for (const auto& import : std::initializer_list<std::function<void()>>{
           [&] {
             static_cast<void>(import_device_column(ctx(), {"x", text.type(), true, {}}, given.get()));
           },
           [&] {
             static_cast<void>(
                 import_device_batch(ctx(), {{{"x", text.type(), true, {}}}, {}}, given.get(), dictionaries));
           }}) {
    try {
      import();
      ADD_FAILURE() << "was taken";
    } catch (const error& why) {
      EXPECT_EQ(why.code(), errc::closed);
      EXPECT_STREQ(why.what(), "the ArrowDeviceArray was released already");
    }
  }
}

/// An array with one value (offset, index, view, type id or run end) that is out of range.
struct bad_value {
  data_type type;
  std::size_t child; ///< the array with the value: 0 for the array itself, 1 for its first child
  std::size_t buffer;
  std::int64_t value;
  std::string_view said;
  std::int64_t row = 1500; ///< for run ends, a row that the binary search of an upload does not read
};

template <class T>
void put(support::plain_array& in, std::size_t buffer, std::int64_t row, std::int64_t value) {
  const auto narrow = static_cast<T>(value);
  std::memcpy(in.buffers[buffer].data() + static_cast<std::size_t>(in.offset + row) * sizeof(T), &narrow,
              sizeof narrow);
}

void put_value(support::plain_array& in, std::size_t buffer, std::int64_t row, std::int64_t value) {
  switch (in.type.buffer(buffer).width) {
  case 1:
    return put<std::int8_t>(in, buffer, row, value);
  case 2:
    return put<std::int16_t>(in, buffer, row, value);
  case 4:
    return put<std::int32_t>(in, buffer, row, value);
  case 8:
    return put<std::int64_t>(in, buffer, row, value);
  default: // a view of 20 bytes
    std::memset(in.buffers[buffer].data() + static_cast<std::size_t>(in.offset + row) * 16, 0, 16);
    in.buffers[buffer][static_cast<std::size_t>(in.offset + row) * 16] = std::byte{20};
    in.buffers[buffer][static_cast<std::size_t>(in.offset + row) * 16 + 8] = static_cast<std::byte>(value);
  }
}

std::vector<bad_value> bad_values() {
  const field number{"a", data_type(type_id::int32), true, {}};
  const field text{"b", data_type(type_id::string), true, {}};
  const data_type run_ends(type_id::int32);
  const auto list = [&](const char* format, const field& of) { return data_type::nested(format, {of}); };
  const data_type words = data_type::dictionary(data_type(type_id::uint8), text.type);
  return {
      {text.type, 0, 1, -3, "column 'x': offsets decrease from "},
      {data_type(type_id::large_string), 0, 1, -3, "column 'x': offsets decrease from "},
      {list("+L", number), 0, 1, 0, "column 'x': offsets decrease from "},
      {list("+w:1", text), 1, 1, -3, "column 'x', child 'b': offsets decrease from "},
      {list("+l", {"w", list("+vl", number), true, {}}), 1, 1, 1 << 20,
       "column 'x', child 'w': the list at row 1494 has 4 values from 1048576, "},
      {words, 0, 1, 255, "column 'x': index 255 at row 1500 is not in the dictionary, which has "},
      {data_type::dictionary(data_type(type_id::int8), text.type), 0, 1, -1,
       "column 'x': index -1 at row 1500"},
      {data_type::nested("+us:3,127", {number, text}), 0, 0, 4, "type id 4 at row 1500"},
      {data_type::nested("+ud:3,127", {number, text}), 0, 1, -9,
       "offset -9 at row 1500 is outside of child '"},
      {data_type::nested("+r", {{"run_ends", run_ends, false, {}}, {"values", text.type, true, {}}}), 1, 1, 0,
       "run ends don't increase: 0 after ", 40},
      {data_type::parse("vu"), 0, 1, 77, "the view at row 1500 has 20 bytes from 0 of buffer 77, there are "},
  };
}

TEST_P(arrow_device, refuses_values_out_of_range_by_checks_on_the_device) {
  import_options unchecked;
  unchecked.check = validation::structure;
  for (const bad_value& each : bad_values()) {
    SCOPED_TRACE(each.type.name());
    auto made =
        std::make_shared<support::plain_array>(*random_array(each.type, {3000, 3, nulls::absent, true}, 5));
    if (each.child == 0) {
      put_value(*made, each.buffer, each.row, each.value);
    } else {
      auto child = std::make_shared<support::plain_array>(*made->children[0]);
      put_value(*child, each.buffer, each.row, each.value);
      made->children[0] = std::move(child);
    }
    arrow_array host = support::to_c(made);
    const column bad = import_column(ctx(), {"x", each.type, true, {}}, host.get(), unchecked);
    arrow_device_array given = on_device(bad);
    const auto before = ctx()->copies().read_counters();
    try {
      static_cast<void>(import_device_column(ctx(), {"x", each.type, true, {}}, given.get()));
      ADD_FAILURE() << "was taken";
    } catch (const error& why) {
      EXPECT_EQ(why.code(), errc::format);
      EXPECT_NE(std::string(why.what()).find(each.said), std::string::npos) << why.what();
    }
    EXPECT_FALSE(given.empty()) << "the struct stays with the caller";
    EXPECT_EQ(ctx()->copies().read_counters().device_to_host, before.device_to_host);
    EXPECT_EQ(import_device_column(ctx(), {"x", each.type, true, {}}, given.get(), unchecked).length(), 3000);
  }
}

TEST_P(arrow_device, memory_of_another_device_is_refused) {
  arrow_device_array given = on_device(of(filled(1)));
  given.get().device_type = ARROW_DEVICE_CUDA;
  given.get().device_id = 77;
  try {
    static_cast<void>(import_device_column(ctx(), {"x", data_type(type_id::uint8), true, {}}, given.get()));
    ADD_FAILURE() << "taken";
  } catch (const error& why) {
    EXPECT_EQ(why.code(), errc::exchange);
    EXPECT_NE(std::string(why.what()).find("cuda:77"), std::string::npos) << why.what();
  }
}

TEST_P(arrow_device, host_arrays_are_imported_as_host_memory) {
  const shared_array source = random_array(data_type::parse("u"), {50, 3, nulls::some, true}, 2);
  arrow_device_array given;
  given.get().array = support::to_c(source).release();
  given.get().device_type = ARROW_DEVICE_CPU;
  given.get().device_id = -1;
  const column seen = taken(source->type, std::move(given));
  EXPECT_TRUE(same_rows(on_host(seen).get(), *source));
}

TEST_P(arrow_device, null_struct_rows_are_counted_on_their_device) {
  const data_type rows = data_type::nested("+s", {{"a", data_type(type_id::int32), true, {}}});
  const column structs = imported(random_array(rows, {40, 3, nulls::some, false}, 2));
  arrow_device_array given = on_device(structs.slice(0, 30));
  given.get().array.null_count = -1;
  dictionary_cache dictionaries;
  try {
    static_cast<void>(import_device_batch(ctx(), {{{"a", data_type(type_id::int32), true, {}}}, {}},
                                          given.get(), dictionaries));
    ADD_FAILURE() << "nulls were dropped";
  } catch (const error& why) {
    EXPECT_EQ(why.code(), errc::unsupported);
    EXPECT_NE(std::string(why.what()).find("of 30 rows are null as a whole"), std::string::npos)
        << why.what();
  }
}

TEST_P(arrow_device, nulls_of_dictionaries_and_their_children_are_counted) {
  const data_type words = data_type::nested("+s", {{"w", data_type(type_id::string), true, {}}});
  const data_type coded = data_type::dictionary(data_type(type_id::int32), words);
  const shared_array values = random_array(words, {40, 3, nulls::some, false}, 7);
  const shared_array source = support::random_indices(coded, {50, 9, nulls::some, false}, values, 8);
  const column ours = imported(source);
  for (int time = 0; time < 2; ++time) { // twice: the count is stored in the export, not in the column
    const arrow_device_array made = on_device(ours);
    ASSERT_NE(made.get().array.dictionary, nullptr);
    const ArrowArray& dictionary = *made.get().array.dictionary;
    if (!ctx()->on_host()) { // on the host the consumer can count itself
      EXPECT_EQ(dictionary.null_count, imported(values).null_count());
      EXPECT_GE(dictionary.children[0]->null_count, 0);
      EXPECT_GE(made.get().array.null_count, 0);
    }
    EXPECT_EQ(ours.dictionary()->null_count(), imported(values).null_count());
  }
}

TEST_P(arrow_device, arrays_without_rows_have_device_pointers) {
  const auto expect_pointers = [&](const ArrowArray& seen) {
    for (std::int64_t i = 1; i < seen.n_buffers; ++i) {
      ASSERT_NE(seen.buffers[i], nullptr) << "buffer " << i;
      if (!ctx()->on_host()) {
        EXPECT_NE(device().kind_of(seen.buffers[i]), memory_kind::host) << "buffer " << i;
      }
    }
  };
  for (const char* const format : {"i", "u", "Z"}) {
    SCOPED_TRACE(format);
    const data_type values = data_type::parse(format);
    const column some = imported(random_array(values, {20, 0, nulls::none, true}, 1));
    expect_pointers(on_device(some.slice(3, 0)).get().array);
    const data_type coded = data_type::dictionary(data_type(type_id::int8), values);
    const shared_array rows =
        support::random_indices(coded, {20, 0, nulls::all, false}, random_array(values, {}, 1), 2);
    arrow_device_array made = on_device(imported(rows));
    ASSERT_NE(made.get().array.dictionary, nullptr);
    const ArrowArray& dictionary = *made.get().array.dictionary;
    EXPECT_EQ(dictionary.length, 0);
    EXPECT_EQ(dictionary.null_count, 0);
    expect_pointers(dictionary);
    EXPECT_TRUE(same_rows(on_host(taken(coded, std::move(made))).get(), *rows));
  }
}

SAETA_CONFORMANCE_SUITE(arrow_device);

} // namespace
} // namespace saeta::conformance
