// Exports of one-byte booleans to Arrow: those from tensors become bits, those of type arrow.bool8 stay
// unchanged.
#include "conformance/harness/context_test.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace saeta::conformance {
namespace {

using support::cells;
using support::nulls;
using support::random_array;
using support::shared_array;

class arrow_bools : public context_test {
protected:
  /// Makes a column of one-byte booleans with nulls, in which any nonzero byte is true.
  [[nodiscard]] column bytes() const {
    const shared_array source = random_array(data_type::bool8(), {100, 9, nulls::some, false}, 3);
    arrow_array given = support::to_c(source);
    const column extension = import_column(ctx(), {"x", source->type, true, {}}, given.get());
    return relabel_bool8(extension, data_type::byte_bool()).slice(5, 77);
  }
  [[nodiscard]] column bits() const { return pack_bool(bytes()); }
  [[nodiscard]] column imported(arrow_array from) const {
    return import_column(ctx(), {"x", data_type(type_id::boolean), true, {}}, from.get());
  }
  [[nodiscard]] column imported(arrow_device_array from) const {
    return import_device_column(ctx(), {"x", data_type(type_id::boolean), true, {}}, from.get());
  }
  [[nodiscard]] table rows() const {
    return table::make(ctx(), {{{"x", data_type::byte_bool(), true, {}}}, {}}, {{77, {bytes()}}});
  }
};

TEST_P(arrow_bools, are_exported_as_bits_in_host_and_device_arrays) {
  arrow_array on_host = export_column(bytes());
  EXPECT_EQ(cells(imported(std::move(on_host))), cells(bits()));
  arrow_device_array on_device = export_device_column(bytes());
  EXPECT_EQ(cells(imported(std::move(on_device))), cells(bits()));
}

TEST_P(arrow_bools, are_exported_as_bits_in_batches_and_streams) {
  arrow_array one = export_batch(rows(), 0);
  EXPECT_EQ(one.get().children[0]->n_buffers, 2);
  dictionary_cache known;
  const batch again =
      import_batch(ctx(), {{{"x", data_type(type_id::boolean), true, {}}}, {}}, one.get(), known);
  EXPECT_EQ(cells(again.columns[0]), cells(bits()));

  arrow_owned<ArrowArrayStream> on_host = export_stream(rows());
  const table streamed = import_stream(ctx(), on_host.get());
  EXPECT_EQ(streamed.fields().fields[0].type, data_type(type_id::boolean));
  EXPECT_EQ(cells(streamed, 0), cells(bits()));

  arrow_owned<ArrowDeviceArrayStream> on_device = export_device_stream(rows());
  const imported_stream there = import_device_stream(ctx(), on_device.get());
  EXPECT_EQ(there.rows.fields().fields[0].type, data_type(type_id::boolean));
  EXPECT_EQ(cells(there.rows, 0), cells(bits()));
}

TEST_P(arrow_bools, have_the_type_bool_in_exported_schemas) {
  arrow_schema described = export_field({"x", data_type::byte_bool(), true, {}});
  EXPECT_EQ(std::string_view(described.get().format), "b");
  EXPECT_EQ(described.get().metadata, nullptr);
  arrow_schema whole = export_schema(rows().fields());
  EXPECT_EQ(std::string_view(whole.get().children[0]->format), "b");
}

TEST_P(arrow_bools, of_the_extension_type_are_exported_without_a_copy) {
  const column extension = relabel_bool8(bytes(), data_type::bool8());
  arrow_device_array on_device = export_device_column(extension);
  EXPECT_EQ(on_device.get().array.buffers[1], reinterpret_cast<const void*>(extension.values().address()));
  arrow_schema described = export_field({"x", extension.type(), true, {}});
  EXPECT_EQ(std::string_view(described.get().format), "c");
}

TEST_P(arrow_bools, are_packed_after_the_pending_writer) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << nothing_pends;
  }
  const buffer values = make(64);
  fill(values, 0, ctx()->work_stream());
  ctx()->synchronize(ctx()->work_stream());
  const stream side(shared_device());
  const auto held = close_gate(side.ref().native_handle());
  fill(values, 1, side.ref());
  const column flags = column::make(ctx(), {data_type::byte_bool(), 64, 0, 0, {{}, values}});
  arrow_device_array on_device = export_device_column(flags);
  EXPECT_NE(on_device.get().sync_event, nullptr);
  held->open();
  const auto seen = cells(imported(std::move(on_device)));
  EXPECT_EQ(seen, cells(pack_bool(flags)));
  EXPECT_EQ(seen[0], std::string(1, '\1'));
}

TEST_P(arrow_bools, without_rows_are_exported_too) {
  const column none = bytes().slice(3, 0);
  arrow_array on_host = export_column(none);
  EXPECT_EQ(imported(std::move(on_host)).length(), 0);
  arrow_device_array on_device = export_device_column(none);
  EXPECT_EQ(imported(std::move(on_device)).length(), 0);
}

SAETA_CONFORMANCE_SUITE(arrow_bools);

} // namespace
} // namespace saeta::conformance
