// Imports and exports through the CUDA Array Interface on every backend; on the host backend with host
// memory.
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/interop/cuda_array/cuda_array_interface.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace saeta::conformance {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t interface_bytes = 1 << 16;

class array_interface : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    foreign_.emplace(shared_device()); // can't be created behind a closed gate
  }
  void TearDown() override {
    foreign_.reset();
    context_test::TearDown();
  }
  [[nodiscard]] stream_handle foreign() const { return foreign_->ref().native_handle(); }
  /// Makes a buffer whose byte i is `value(i)`.
  [[nodiscard]] buffer filled(const std::function<std::uint8_t(std::size_t)>& value) const {
    std::vector<std::uint8_t> content(interface_bytes);
    for (std::size_t i = 0; i < interface_bytes; ++i) {
      content[i] = value(i);
    }
    const stream_ref work = ctx()->work_stream();
    buffer made = make(interface_bytes);
    use_token token(work, {writes(made)});
    ctx()->copies().copy(token.span<std::uint8_t>(made).data(), content.data(), interface_bytes,
                         ctx()->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device, work);
    token.finish();
    ctx()->synchronize(work);
    return made;
  }
  /// Describes the bytes as an array without pending work.
  [[nodiscard]] cuda_array array_of(const buffer& memory, std::string typestr = "|u1") const {
    cuda_array made;
    made.data = memory.address();
    made.shape = {static_cast<std::int64_t>(interface_bytes) / (typestr[2] - '0')};
    made.typestr = std::move(typestr);
    made.owner = std::shared_ptr<void>(nullptr, [count = dropped_](void*) { ++*count; });
    return made;
  }
  void expect_refused(const cuda_array& values, const cuda_array* mask, errc code, const std::string& text,
                      copy_policy copy = copy_policy::when_needed) const {
    try {
      static_cast<void>(import_cuda_array(ctx(), values, mask, copy));
      ADD_FAILURE() << "accepted; expected: " << text;
    } catch (const error& seen) {
      EXPECT_EQ(name_of(seen.code()), name_of(code)) << seen.message();
      EXPECT_THAT(seen.message(), HasSubstr(text));
    }
  }

  std::shared_ptr<std::atomic<int>> dropped_ = std::make_shared<std::atomic<int>>(0);

private:
  std::optional<stream> foreign_;
};

TEST_P(array_interface, an_import_is_a_view_that_keeps_its_owner_alive) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i); });
  for (const auto& [typestr, id] :
       {std::pair{"<i2", type_id::int16}, std::pair{"=u4", type_id::uint32},
        std::pair{"<f8", type_id::float64}, std::pair{"|i1", type_id::int8},
        std::pair{"<f2", type_id::half_float}, std::pair{">u1", type_id::uint8}}) {
    *dropped_ = 0;
    {
      const column taken = import_cuda_array(ctx(), array_of(memory, typestr), nullptr, copy_policy::never);
      EXPECT_EQ(taken.type(), data_type(id));
      EXPECT_EQ(taken.values().address(), memory.address());
      EXPECT_EQ(taken.null_count(), 0);
      EXPECT_TRUE(taken.values().owner()->writable());
      EXPECT_EQ(*dropped_, 0);
    }
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(*dropped_, 1);
  }
  EXPECT_EQ(import_cuda_array(ctx(), array_of(memory, "|b1")).type(), data_type::byte_bool());
  cuda_array locked = array_of(memory);
  locked.read_only = true;
  EXPECT_FALSE(import_cuda_array(ctx(), locked).values().owner()->writable());
}

TEST_P(array_interface, a_mask_becomes_the_validity) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i); });
  const buffer valid = filled([](std::size_t i) { return static_cast<std::uint8_t>(i % 3 == 0 ? 0 : 7); });
  for (const char* const typestr : {"|b1", "|i1", "|u1"}) {
    const cuda_array mask = array_of(valid, typestr);
    const column taken = import_cuda_array(ctx(), array_of(memory), &mask);
    EXPECT_EQ(taken.values().address(), memory.address());
    EXPECT_EQ(taken.null_count(), static_cast<std::int64_t>(interface_bytes + 2) / 3);
    const auto bits = read(taken.validity());
    for (std::size_t i = 0; i < interface_bytes; ++i) {
      ASSERT_EQ((bits[i / 8] >> (i % 8) & 1) != 0, i % 3 != 0) << i;
    }
  }
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  EXPECT_EQ(*dropped_, 6);
}

TEST_P(array_interface, strides_are_bytes) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i / 2 % 5); });
  cuda_array every_third = array_of(memory, "<u2");
  every_third.shape = {100};
  every_third.strides = std::vector<std::int64_t>{6};
  const auto seen = read(import_cuda_array(ctx(), every_third).values());
  for (std::size_t i = 0; i < 200; ++i) {
    ASSERT_EQ(seen[i], i / 2 * 3 % 5) << i;
  }
  expect_refused(every_third, nullptr, errc::exchange, "a copy was forbidden", copy_policy::never);
  cuda_array contiguous = array_of(memory, "<u2");
  contiguous.strides = std::vector<std::int64_t>{2};
  EXPECT_EQ(import_cuda_array(ctx(), contiguous, nullptr, copy_policy::never).values().address(),
            memory.address());
}

TEST_P(array_interface, an_import_waits_for_the_streams_of_the_array_and_of_its_mask) {
  for (const bool by_version : {false, true}) { // version 2 names no stream
    const buffer memory = filled([](std::size_t) { return std::uint8_t{1}; });
    const buffer valid = filled([](std::size_t) { return std::uint8_t{0}; });
    cuda_array values = array_of(memory);
    cuda_array mask = array_of(valid);
    for (cuda_array* each : {&values, &mask}) {
      each->version = by_version ? 2 : 3;
      if (!by_version && !ctx()->on_host()) {
        each->stream = static_cast<std::int64_t>(foreign());
      }
    }
    const auto held = close_gate(foreign());
    device().fill(reinterpret_cast<void*>(memory.address()), 2, interface_bytes, foreign());
    device().fill(reinterpret_cast<void*>(valid.address()), 1, interface_bytes, foreign());
    const column taken = import_cuda_array(ctx(), values, &mask);
    if (held) {
      held->open();
    }
    EXPECT_EQ(taken.null_count(), 0) << "the mask was read before it was written";
    const auto seen = read(taken.values());
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](std::uint8_t b) { return b == 2; }));
  }
}

TEST_P(array_interface, an_import_refuses_each_broken_field_by_name) {
  struct broken {
    std::function<void(cuda_array&)> field;
    errc code;
    std::string text;
  };
  const buffer memory = filled([](std::size_t) { return std::uint8_t{1}; });
  for (const broken& one : std::vector<broken>{
           {[](cuda_array& a) { a.version = 1; }, errc::exchange, "version is 1, expected 2 or newer"},
           {[](cuda_array& a) { a.shape = {}; }, errc::exchange, "shape has 0 dimensions"},
           {[](cuda_array& a) { a.shape = {-1}; }, errc::format, "shape[0] is -1"},
           {[](cuda_array& a) { a.typestr = ""; }, errc::format, "typestr '' is not"},
           {[](cuda_array& a) { a.typestr = "f4"; }, errc::format, "typestr 'f4' is not"},
           {[](cuda_array& a) { a.typestr = ">f4"; }, errc::exchange, "big-endian"},
           {[](cuda_array& a) { a.typestr = "<c8"; }, errc::exchange, "typestr '<c8' has no column type"},
           {[](cuda_array& a) { a.typestr = "<M8[ns]"; }, errc::exchange, "'<M8[ns]' has no column type"},
           {[](cuda_array& a) { a.typestr = "<i16"; }, errc::exchange, "no column type"},
           {[](cuda_array& a) { a.typestr = "|f1"; }, errc::exchange, "no column type"},
           {[](cuda_array& a) { a.strides = std::vector<std::int64_t>{}; }, errc::format,
            "strides has 0 entries and shape 1"},
           {[](cuda_array& a) { a.strides = std::vector<std::int64_t>{5}; }, errc::exchange,
            "strides[0] is 5 bytes, which is not a multiple of 4"},
           {[](cuda_array& a) { a.data = 0; }, errc::format, "data is null"},
           {[](cuda_array& a) { a.data += 2; }, errc::format, "not aligned"},
           {[](cuda_array& a) { a.stream = 0; }, errc::invalid_argument, "stream 0 is ambiguous"}}) {
    SCOPED_TRACE(one.text);
    *dropped_ = 0;
    {
      cuda_array values = array_of(memory, "<i4");
      one.field(values);
      expect_refused(values, nullptr, one.code, one.text);
    }
    EXPECT_EQ(*dropped_, 1) << "a refused import does not keep the owner alive";
  }
}

TEST_P(array_interface, an_import_refuses_an_incompatible_mask) {
  const buffer memory = filled([](std::size_t) { return std::uint8_t{1}; });
  const cuda_array values = array_of(memory);
  cuda_array mask = array_of(memory);
  expect_refused(values, &mask, errc::exchange, "a copy was forbidden", copy_policy::never);
  mask.shape = {5};
  expect_refused(values, &mask, errc::format, "the mask has 5 elements and the array 65536");
  mask.shape = {256, 256};
  expect_refused(values, &mask, errc::exchange,
                 "the mask has 2 dimensions, expected 1: only whole rows can be null");
  mask = array_of(memory, "<i2");
  mask.shape = values.shape;
  expect_refused(values, &mask, errc::exchange, "typestr of the mask is '<i2'");
}

TEST_P(array_interface, further_dimensions_become_fixed_size_lists) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i); });
  cuda_array cube = array_of(memory, "<i4");
  cube.shape = {10, 3, 2};
  const column taken = import_cuda_array(ctx(), cube, nullptr, copy_policy::never);
  EXPECT_EQ(taken.length(), 10);
  EXPECT_EQ(taken.type().list_size(), 3);
  EXPECT_EQ(taken.child(0).type().list_size(), 2);
  EXPECT_EQ(taken.child(0).child(0).values().address(), memory.address());
  const cuda_array shown = export_cuda_array(taken.slice(2, 5));
  EXPECT_EQ(shown.shape, (std::vector<std::int64_t>{5, 3, 2}));
  EXPECT_EQ(shown.typestr, "<i4");
  EXPECT_FALSE(shown.strides);
  EXPECT_EQ(shown.data, memory.address() + std::uintptr_t{2} * 3 * 2 * 4);
  const column back = import_cuda_array(ctx(), shown, nullptr, copy_policy::never);
  EXPECT_EQ(back.type(), taken.type());
  EXPECT_EQ(back.child(0).child(0).values().owner(), taken.child(0).child(0).values().owner());
}

TEST_P(array_interface, a_strided_matrix_is_copied_to_contiguous_rows) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i); });
  cuda_array transposed = array_of(memory);
  transposed.shape = {3, 4};
  transposed.strides = std::vector<std::int64_t>{1, 3};
  expect_refused(transposed, nullptr, errc::exchange, "a copy was forbidden", copy_policy::never);
  const column taken = import_cuda_array(ctx(), transposed);
  const auto seen = read(taken.child(0).values());
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_EQ(seen[row * 4 + i], row + 3 * i);
    }
  }
  transposed.strides = std::vector<std::int64_t>{1};
  expect_refused(transposed, nullptr, errc::format, "strides has 1 entries and shape 2");
  transposed.shape = {3, -4};
  expect_refused(transposed, nullptr, errc::format, "shape[1] is -4");
}

TEST_P(array_interface, a_mask_of_rows_becomes_the_validity_of_lists) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i % 2); });
  cuda_array matrix = array_of(memory, "<i2");
  matrix.shape = {6, 4};
  cuda_array mask = array_of(memory);
  mask.shape = {6};
  const column taken = import_cuda_array(ctx(), matrix, &mask);
  EXPECT_EQ(taken.null_count(), 3);
  EXPECT_EQ(taken.child(0).null_count(), 0);
  EXPECT_EQ(taken.child(0).values().address(), memory.address());
}

TEST_P(array_interface, equally_spaced_fields_of_a_struct_are_a_dimension) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i); });
  const data_type number(type_id::int32);
  const data_type pair = data_type::nested("+s", {{"x", number, true, {}}, {"y", number, true, {}}});
  const auto part = [&](std::size_t first) {
    return column::make(
        ctx(), {.type = number, .length = 8, .null_count = 0, .buffers = {{}, memory.slice(first, 32)}});
  };
  const column pairs = column::make(
      ctx(), {.type = pair, .length = 8, .null_count = 0, .buffers = {{}}, .children = {part(0), part(64)}});
  const cuda_array shown = export_cuda_array(pairs);
  EXPECT_EQ(shown.shape, (std::vector<std::int64_t>{8, 2}));
  EXPECT_EQ(shown.strides, (std::vector<std::int64_t>{4, 64}));
  const column scattered = column::make(
      ctx(), {.type = data_type::nested(
                  "+s", {{"x", number, true, {}}, {"y", number, true, {}}, {"z", number, true, {}}}),
              .length = 8,
              .null_count = 0,
              .buffers = {{}},
              .children = {part(0), part(64), part(512)}});
  EXPECT_THROW(static_cast<void>(export_cuda_array(scattered)), error);
}

TEST_P(array_interface, an_export_has_the_same_memory) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i); });
  for (const type_id id :
       {type_id::int8, type_id::uint16, type_id::int64, type_id::half_float, type_id::float32}) {
    const column source = column::make(ctx(), {data_type(id), 100, 0, 0, {{}, memory}, {}}).slice(3, 50);
    const cuda_array shown = export_cuda_array(source);
    EXPECT_EQ(shown.version, 3);
    EXPECT_TRUE(shown.read_only);
    EXPECT_FALSE(shown.strides);
    EXPECT_EQ(shown.stream.has_value(), !ctx()->on_host());
    const column back = import_cuda_array(ctx(), shown, nullptr, copy_policy::never);
    EXPECT_EQ(back.type(), source.type());
    EXPECT_EQ(back.length(), 50);
    EXPECT_EQ(back.values().address(),
              memory.address() + 3 * static_cast<std::uintptr_t>(source.type().byte_width()));
  }
  const column flags = column::make(ctx(), {data_type::bool8(), 10, 0, 0, {{}, memory}, {}});
  EXPECT_EQ(export_cuda_array(flags).typestr, "|b1");
  EXPECT_EQ(export_cuda_array(flags.slice(4, 0)).data, 0U);
}

TEST_P(array_interface, an_exported_array_is_recognised_by_its_address) {
  const buffer memory = filled([](std::size_t i) { return static_cast<std::uint8_t>(i); });
  const column source = column::make(ctx(), {data_type(type_id::int32), 100, 0, 0, {{}, memory}, {}});
  std::optional<cuda_array> shown = export_cuda_array(source.slice(10, 40));
  cuda_array part = array_of(memory, "<i4"); // as exported by a library that has sliced the array
  part.data = shown->data + 8;
  part.shape = {20};
  {
    const column back = import_cuda_array(ctx(), part, nullptr, copy_policy::never);
    EXPECT_EQ(back.values().owner(), memory.owner()) << "the storage is one, and so is its order";
    EXPECT_EQ(back.values().address(), memory.address() + 48);
    EXPECT_EQ(ctx()->reports().statistics().ledger.external, 0U);
  }
  cuda_array beyond = part;
  beyond.shape = {static_cast<std::int64_t>(interface_bytes)};
  EXPECT_TRUE(import_cuda_array(ctx(), beyond).values().owner()->external())
      << "it does not fit into the storage";
  shown.reset();
  EXPECT_TRUE(import_cuda_array(ctx(), part).values().owner()->external()) << "there is no live export";
}

TEST_P(array_interface, a_reimported_array_waits_for_the_stream_that_wrote_it) {
  const buffer memory = filled([](std::size_t) { return std::uint8_t{0}; });
  const column source = column::make(
      ctx(), {data_type(type_id::uint8), static_cast<std::int64_t>(interface_bytes), 0, 0, {{}, memory}, {}});
  const cuda_array shown = export_cuda_array(source);
  const stream_handle writer = ctx()->on_host() ? ctx()->work_stream().native_handle() : foreign();
  const auto held = close_gate(foreign());
  device().fill(reinterpret_cast<void*>(shown.data), 3, interface_bytes, writer);
  cuda_array back = shown;
  back.stream = ctx()->on_host() ? std::nullopt : std::optional(static_cast<std::int64_t>(writer));
  const column taken = import_cuda_array(ctx(), back);
  EXPECT_EQ(taken.values().owner(), memory.owner());
  const buffer sink = make(interface_bytes);
  {
    use_token token(ctx()->work_stream(), {reads(taken.values()), writes(sink)});
    ctx()->copies().copy(token.span<std::uint8_t>(sink).data(),
                         token.span<const std::uint8_t>(taken.values()).data(), interface_bytes, within(),
                         ctx()->work_stream());
    token.finish();
  }
  if (held) {
    held->open();
  }
  const auto seen = read(sink);
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](std::uint8_t b) { return b == 3; }));
}

TEST_P(array_interface, an_export_refuses_nulls_and_bit_packed_booleans) {
  const buffer memory = filled([](std::size_t) { return std::uint8_t{0x55}; });
  for (const column& source :
       {column::make(ctx(), {data_type(type_id::int8), 100, 0, column::unknown_nulls, {memory, memory}, {}}),
        column::make(ctx(), {data_type(type_id::boolean), 100, 0, 0, {{}, memory}, {}})}) {
    EXPECT_THROW(static_cast<void>(export_cuda_array(source)), error);
  }
  EXPECT_EQ(ctx()->copies().read_counters().exports, 0U);
}

TEST_P(array_interface, an_export_is_ordered_by_the_stream_that_it_names) {
  const buffer memory = filled([](std::size_t) { return std::uint8_t{1}; });
  const buffer sink = filled([](std::size_t) { return std::uint8_t{0}; });
  const stream_lease ours = ctx()->borrow_stream();
  const auto held = close_gate(ours.ref().native_handle());
  fill(memory, 2, ours.ref());
  const column source = column::make(
      ctx(), {data_type(type_id::uint8), static_cast<std::int64_t>(interface_bytes), 0, 0, {{}, memory}, {}});
  const cuda_array shown = export_cuda_array(source);
  // A consumer makes its stream wait for the stream in the interface. Here it works on that stream itself.
  const stream_handle named =
      shown.stream ? static_cast<stream_handle>(*shown.stream) : ctx()->work_stream().native_handle();
  device().copy(reinterpret_cast<void*>(sink.address()), reinterpret_cast<const void*>(shown.data),
                interface_bytes, within(), named);
  if (held) {
    EXPECT_FALSE(device().stream_idle(named)) << "the named stream did not wait for the last write";
    held->open();
  }
  device().synchronize_stream(named);
  const auto seen = read(sink);
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](std::uint8_t b) { return b == 2; }));
}

TEST_P(array_interface, an_export_keeps_the_memory_until_all_work_has_finished) {
  const buffer sink = filled([](std::size_t) { return std::uint8_t{0}; });
  std::optional<buffer> memory = filled([](std::size_t) { return std::uint8_t{5}; });
  std::optional<cuda_array> shown = export_cuda_array(column::make(
      ctx(),
      {data_type(type_id::uint8), static_cast<std::int64_t>(interface_bytes), 0, 0, {{}, *memory}, {}}));
  const stream_handle reader = ctx()->on_host() ? ctx()->work_stream().native_handle() : foreign();
  const auto held = close_gate(foreign());
  device().copy(reinterpret_cast<void*>(sink.address()), reinterpret_cast<const void*>(shown->data),
                interface_bytes, within(), reader);
  shown.reset();
  memory.reset();
  std::vector<buffer> next;
  for (int i = 0; i < 4; ++i) {
    next.push_back(make(interface_bytes));
    fill(next.back(), 0xAA, ctx()->work_stream());
  }
  if (held) {
    held->open();
  }
  device().synchronize_stream(reader);
  const auto seen = read(sink);
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](std::uint8_t b) { return b == 5; }));
}

SAETA_CONFORMANCE_SUITE(array_interface);

} // namespace
} // namespace saeta::conformance
