// Transfers of slices: only their rows are copied, for every type and offset.
#include "conformance/harness/arrow_test.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/transfer/download.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace saeta::conformance {
namespace {

using support::carried_types;
using support::nulls;
using support::random_array;
using support::same_rows;
using support::shared_array;

bool keeps_offset(const data_type& type) { return type.layout() == layout_kind::run_ends; }

/// Expects that the column and its children have no offset.
void expect_no_offset(const column& of) {
  EXPECT_TRUE(of.offset() == 0 || keeps_offset(of.type())) << of.type().name() << ": " << of.offset();
  for (const column& child : of.children()) {
    expect_no_offset(child);
  }
  if (of.dictionary() != nullptr) {
    expect_no_offset(*of.dictionary());
  }
}

void expect_no_offset(const host_array& of) {
  EXPECT_TRUE(of.offset == 0 || keeps_offset(of.type)) << of.type.name() << ": " << of.offset;
  for (const host_array& child : of.children) {
    expect_no_offset(child);
  }
  if (of.dictionary != nullptr) {
    expect_no_offset(*of.dictionary);
  }
}

bool shares_offset(const data_type& type) {
  const layout_kind layout = type.layout();
  return layout == layout_kind::structure || layout == layout_kind::sparse_union ||
         layout == layout_kind::fixed_list;
}

/// Expects that no inner array has an offset that also applies to its children.
void expect_no_offset_below(const ArrowArray& of, const data_type& type) {
  for (std::size_t i = 0; i < type.children().size(); ++i) {
    const data_type& inner = type.children()[i].type;
    EXPECT_TRUE(of.children[i]->offset == 0 || !shares_offset(inner)) << inner.name();
    EXPECT_TRUE(of.offset == 0 || !shares_offset(inner) || !shares_offset(type)) << inner.name();
    expect_no_offset_below(*of.children[i], inner);
  }
}

class windows : public arrow_test {
protected:
  [[nodiscard]] column imported(const shared_array& source, copy_policy copy) const {
    import_options options;
    options.copy = copy;
    return arrow_test::imported(source, options);
  }

  [[nodiscard]] static arrow_array on_host(const column& source) {
    arrow_array seen = export_column(source);
    return seen;
  }
};

TEST_P(windows, of_every_type_begin_at_row_0_after_an_upload_and_a_download) {
  for (const data_type& type : carried_types()) {
    for (const nulls pattern : {nulls::some, nulls::absent}) {
      for (std::int64_t offset = 0; offset < 10; ++offset) {
        SCOPED_TRACE(::testing::Message() << type.name() << ", offset " << offset);
        const shared_array source = random_array(type, {40, offset, pattern, false}, 7);
        const column there = imported(source, copy_policy::always);
        expect_no_offset(there);
        ASSERT_TRUE(same_rows(on_host(there).get(), *source));
        const column part = there.slice(offset, 40 - 2 * offset);
        const host_batch back = download(ctx(), {part.length(), {part}});
        if (!ctx()->on_host()) { // on the host the export is a view
          expect_no_offset(back.arrays.front());
        }
        ASSERT_TRUE(same_rows(on_host(part).get(), *source, offset, part.length()));
      }
    }
  }
}

TEST_P(windows, of_copies_on_the_device_begin_at_row_0) {
  for (const data_type& type : carried_types()) {
    const shared_array source = random_array(type, {40, 3, nulls::some, false}, 8);
    const column there = imported(source, copy_policy::when_needed);
    std::vector<column> parts;
    for (std::int64_t offset = 0; offset < 10; ++offset) {
      parts.push_back(there.slice(offset, 40 - 2 * offset));
    }
    const std::vector<column> copied = copy_columns(ctx(), parts, "copy");
    for (std::size_t i = 0; i < copied.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << type.name() << ", offset " << i);
      expect_no_offset(copied[i]);
      ASSERT_TRUE(
          same_rows(on_host(copied[i]).get(), *source, static_cast<std::int64_t>(i), parts[i].length()));
    }
  }
}

TEST_P(windows, clear_the_padding_bits_of_shifted_bitmaps) {
  const shared_array source = random_array(data_type(type_id::boolean), {13, 3, nulls::none, false}, 9);
  const column given = imported(source, copy_policy::always);
  const std::vector<column> copied = copy_columns(ctx(), std::array{given.slice(2, 9)}, "copy");
  for (const column& seen : {given, copied.front()}) {
    const std::vector<std::uint8_t> bits = read(seen.validity());
    ASSERT_EQ(bits.size(), 2U);
    EXPECT_EQ(bits[1], (1U << (seen.length() - 8)) - 1U);
  }
}

/// Makes a column of three lists with 2, 3 and 1 structs of int32 and string; the struct array has its own
/// offset.
column list_of_cut_structs(const std::shared_ptr<context>& ctx, std::int64_t offset, bool with_validity,
                           const std::function<buffer(std::span<const std::byte>)>& put) {
  const data_type number(type_id::int32);
  const data_type row = data_type::nested("+s", {{"n", number, true, {}}});
  std::array<std::int32_t, 40> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::int32_t>(i);
  }
  const std::array<std::int32_t, 4> offsets{0, 2, 5, 6};
  const std::array<std::uint8_t, 5> valid{0xff, 0xff, 0xff, 0xff, 0xff};
  column values = column::make(ctx, {number, 40, 0, 0, {{}, put(std::as_bytes(std::span(numbers)))}});
  column::parts rows{row, 6, offset, 0, {}};
  rows.buffers.push_back(with_validity ? put(std::as_bytes(std::span(valid))) : buffer());
  rows.children.push_back(std::move(values));
  column::parts lists{data_type::nested("+l", {{"item", row, true, {}}}), 3, 0, 0, {}};
  lists.buffers = {buffer(), put(std::as_bytes(std::span(offsets)))};
  lists.children.push_back(column::make(ctx, std::move(rows)));
  return column::make(ctx, std::move(lists));
}

TEST_P(windows, push_the_offset_of_nested_structs_to_their_children_in_exports) {
  const auto put = [&](std::span<const std::byte> bytes) {
    const buffer made = make(bytes.size());
    use_token token(ctx()->work_stream(), {writes(made)});
    const copy_kind kind = ctx()->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device;
    ctx()->copies().copy(token.span<std::byte>(made).data(), bytes.data(), bytes.size(), kind,
                         ctx()->work_stream());
    token.finish();
    ctx()->synchronize(ctx()->work_stream());
    return made;
  };
  for (const std::int64_t offset : {1, 3, 8, 13}) {
    for (const bool with_validity : {false, true}) {
      const column lists = list_of_cut_structs(ctx(), offset, with_validity, put);
      arrow_device_array there = export_device_column(lists);
      const ArrowArray& seen = there.get().array;
      expect_no_offset_below(seen, lists.type());
      EXPECT_EQ(seen.children[0]->length, 6);
      EXPECT_EQ(seen.children[0]->children[0]->offset, offset);
      EXPECT_EQ(seen.children[0]->children[0]->length, 6);
      const arrow_array here = on_host(lists);
      expect_no_offset_below(here.get(), lists.type());
      const ArrowArray& numbers = *here.get().children[0]->children[0];
      for (std::int64_t row = 0; row < 6; ++row) {
        EXPECT_EQ(static_cast<const std::int32_t*>(numbers.buffers[1])[numbers.offset + row], offset + row);
      }
    }
  }
}

TEST_P(windows, push_offsets_to_the_innermost_children_in_exports_of_host_views) {
  if (!ctx()->on_host()) {
    GTEST_SKIP() << "downloads have no offsets";
  }
  for (const data_type& type : carried_types()) {
    for (const nulls pattern : {nulls::some, nulls::none, nulls::absent}) {
      for (std::int64_t offset = 0; offset < 10; ++offset) {
        SCOPED_TRACE(::testing::Message() << type.name() << ", offset " << offset);
        const shared_array source = random_array(type, {40, offset, pattern, false}, 11);
        const column part = imported(source, copy_policy::never).slice(offset, 40 - 2 * offset);
        const arrow_array seen = on_host(part);
        expect_no_offset_below(seen.get(), type);
        ASSERT_TRUE(same_rows(seen.get(), *source, offset, part.length()));
      }
    }
  }
}

SAETA_CONFORMANCE_SUITE(windows);

} // namespace
} // namespace saeta::conformance
