// Casts that need no copy: which types have the same buffers, and the resulting columns.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/symbols/symbols.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace saeta {
namespace {

bool casts(std::string_view from, std::string_view to) {
  return is_view_cast(data_type::parse(from), data_type::parse(to));
}

TEST(view_cast, symbols_can_be_viewed_as_uint32_but_not_back) {
  const data_type number(type_id::uint32);
  EXPECT_TRUE(is_view_cast(symbol_type(), number));
  EXPECT_FALSE(is_view_cast(number, symbol_type()));
  EXPECT_FALSE(is_view_cast(symbol_type(), data_type(type_id::int32)));
  EXPECT_FALSE(is_view_cast(symbol_type(), number.with_extension("x", "")));
  EXPECT_FALSE(is_view_cast(symbol_type(), symbol_type(symbol_table::make())));
}

TEST(view_cast, strings_can_be_viewed_as_binary_but_not_back) {
  EXPECT_TRUE(casts("u", "z"));
  EXPECT_TRUE(casts("U", "Z"));
  EXPECT_TRUE(casts("vu", "vz"));
  EXPECT_FALSE(casts("z", "u"));
  EXPECT_FALSE(casts("u", "Z"));
  EXPECT_FALSE(casts("u", "vu"));
}

TEST(view_cast, times_can_be_viewed_as_integers_of_the_same_width) {
  for (const char* const time : {"tdm", "ttu", "ttn", "tss:", "tsn:UTC", "tDs", "tDn"}) {
    EXPECT_TRUE(casts(time, "l")) << time;
    EXPECT_TRUE(casts("l", time)) << time;
    EXPECT_FALSE(casts(time, "i")) << time;
    EXPECT_FALSE(casts(time, "L")) << time;
  }
  for (const char* const time : {"tdD", "tts", "ttm"}) {
    EXPECT_TRUE(casts(time, "i")) << time;
    EXPECT_FALSE(casts(time, "l")) << time;
  }
  EXPECT_FALSE(casts("tsu:", "tDu"));
  EXPECT_FALSE(casts("i", "I"));
  EXPECT_FALSE(casts("i", "f"));
}

TEST(view_cast, timestamps_keep_unit_and_presence_of_a_time_zone) {
  EXPECT_TRUE(casts("tsu:UTC", "tsu:Europe/Paris"));
  EXPECT_FALSE(casts("tsu:UTC", "tsm:UTC"));
  EXPECT_FALSE(casts("tsu:", "tsu:UTC"));
  EXPECT_FALSE(casts("tsu:UTC", "tsu:"));
}

TEST(view_cast, parameters_are_kept) {
  EXPECT_FALSE(casts("w:3", "w:4"));
  EXPECT_FALSE(casts("d:9,2", "d:10,2"));
}

TEST(view_cast, extensions_can_be_viewed_as_their_storage_but_not_back) {
  const data_type bytes = data_type::parse("w:16");
  const data_type uuid = bytes.with_extension("arrow.uuid", "");
  EXPECT_TRUE(is_view_cast(uuid, bytes));
  EXPECT_FALSE(is_view_cast(bytes, uuid));
  EXPECT_FALSE(is_view_cast(uuid, bytes.with_extension("other", "")));
  EXPECT_TRUE(is_view_cast(data_type::byte_bool(), data_type::bool8()));
  EXPECT_TRUE(is_view_cast(data_type::bool8(), data_type(type_id::int8)));
  EXPECT_FALSE(is_view_cast(data_type::byte_bool(), data_type(type_id::int8)));
  EXPECT_FALSE(is_view_cast(data_type(type_id::int8), data_type::byte_bool()));
  EXPECT_FALSE(is_view_cast(data_type(type_id::boolean), data_type::byte_bool()));
}

TEST(view_cast, nested_types_can_be_viewed_if_their_children_can) {
  const auto list = [](const char* format, const char* values) {
    return data_type::nested(format, {{"item", data_type::parse(values), true, {}}});
  };
  EXPECT_TRUE(is_view_cast(list("+l", "u"), list("+l", "z")));
  EXPECT_TRUE(is_view_cast(list("+w:2", "tsu:"), list("+w:2", "l")));
  EXPECT_FALSE(is_view_cast(list("+w:2", "l"), list("+w:3", "l")));
  EXPECT_FALSE(is_view_cast(list("+l", "u"), list("+L", "u")));
  EXPECT_FALSE(is_view_cast(list("+l", "u"), list("+l", "i")));
  const data_type index(type_id::int16);
  const auto words = [&](const data_type& by, const char* values) {
    return data_type::dictionary(by, data_type::parse(values));
  };
  EXPECT_TRUE(is_view_cast(words(index, "u"), words(index, "z")));
  EXPECT_FALSE(is_view_cast(words(index, "u"), words(data_type(type_id::int32), "u")));
  EXPECT_FALSE(is_view_cast(words(index, "u"), data_type::parse("u")));
}

TEST(view_cast, a_column_keeps_its_memory_its_offset_and_its_nulls) {
  const std::shared_ptr<context> ctx = context::create(make_host_backend());
  const buffer values = buffer::allocate(ctx, 80, ctx->work_stream());
  const buffer validity = buffer::allocate(ctx, 2, ctx->work_stream());
  const column source =
      column::make(ctx, {data_type::parse("tsu:UTC"), 7, 3, 2, {validity, values}, nullptr, {}});
  const column seen = view_cast(source, data_type(type_id::int64));
  EXPECT_EQ(seen.type(), data_type(type_id::int64));
  EXPECT_EQ(seen.length(), 7);
  EXPECT_EQ(seen.offset(), 3);
  EXPECT_EQ(seen.known_null_count(), 2);
  EXPECT_EQ(seen.values().address(), values.address());
  try {
    static_cast<void>(view_cast(source, data_type(type_id::float64)));
    FAIL() << "was taken";
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::type_mismatch);
  }
}

TEST(view_cast, a_dictionary_of_text_has_the_same_values_as_bytes) {
  const std::shared_ptr<context> ctx = context::create(make_host_backend());
  const auto allocate = [&](std::size_t bytes) { return buffer::allocate(ctx, bytes, ctx->work_stream()); };
  const data_type text(type_id::string);
  const data_type bytes(type_id::binary);
  const data_type index(type_id::int32);
  const column words = column::make(ctx, {text, 3, 0, 0, {{}, allocate(16), allocate(20)}, nullptr, {}});
  const column source = column::make(ctx, {data_type::dictionary(index, text),
                                           5,
                                           1,
                                           0,
                                           {{}, allocate(24)},
                                           std::make_shared<const column>(words),
                                           {}});
  const column seen = view_cast(source, data_type::dictionary(index, bytes));
  EXPECT_EQ(seen.type(), data_type::dictionary(index, bytes));
  EXPECT_EQ(seen.values().address(), source.values().address());
  ASSERT_NE(seen.dictionary(), nullptr);
  EXPECT_EQ(seen.dictionary()->type(), bytes);
  EXPECT_EQ(seen.dictionary()->length(), 3);
  ASSERT_EQ(seen.dictionary()->buffers().size(), 3U);
  EXPECT_EQ(seen.dictionary()->buffers()[1].address(), words.buffers()[1].address());
  EXPECT_EQ(seen.dictionary()->buffers()[2].address(), words.buffers()[2].address());
}

} // namespace
} // namespace saeta
