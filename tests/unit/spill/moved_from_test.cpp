// Objects that were moved from: every use is an error, not a crash.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/column/table.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/spill/spill.hpp"
#include "support/error_of.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

namespace saeta {
namespace {

template <class Call>
void expect_closed(std::string_view object, const Call& call) {
  const error thrown = support::error_of([&] { static_cast<void>(call()); });
  EXPECT_EQ(thrown.code(), errc::closed) << object << ": " << thrown.message();
  EXPECT_EQ(thrown.message(), concat("the ", object, " was moved from"));
}

// NOLINTBEGIN(bugprone-use-after-move)
class moved_from : public ::testing::Test {
protected:
  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
  table rows_ = support::random_table(ctx_, {data_type(type_id::int64), data_type(type_id::string)}, {});
};

TEST_F(moved_from, columns_are_refused) {
  column moved = rows_.batches()[0].columns[0];
  const column taken = std::move(moved);
  EXPECT_GT(taken.length(), 0);
  expect_closed("column", [&] { return moved.type(); });
  expect_closed("column", [&] { return moved.ctx(); });
  expect_closed("column", [&] { return moved.buffers().size(); });
  expect_closed("column", [&] { return moved.children().size(); });
  expect_closed("column", [&] { return moved.dictionary(); });
  expect_closed("column", [&] { return moved.validity(); });
  expect_closed("column", [&] { return moved.values(); });
  expect_closed("column", [&] { return moved.null_count(); });
  expect_closed("column", [&] { return moved.byte_size(); });
  expect_closed("column", [&] { return moved.slice(0, 1); });
  expect_closed("column", [&] { return moved.child(0); });
  expect_closed("column", [&] { return moved.share_of(1).count; });
  EXPECT_FALSE(moved.shared());
  expect_closed("column", [&] { return export_column(moved); });
  expect_closed("column", [&] { return export_device_column(moved); });
  expect_closed("column", [&] { return export_dlpack(moved); });
  expect_closed("column", [&] {
    return table::make(ctx_, {{rows_.fields().fields[0]}, {}}, {{taken.length(), {moved}}});
  });
}

TEST_F(moved_from, tables_are_refused) {
  table moved = rows_;
  const table taken = std::move(moved);
  EXPECT_GT(taken.rows(), 0);
  EXPECT_EQ(moved.rows(), 0);
  EXPECT_TRUE(moved.batches().empty());
  expect_closed("table", [&] { return moved.ctx(); });
  expect_closed("table", [&] { return moved.fields().fields.size(); });
  expect_closed("table", [&] { return moved.column_count(); });
  expect_closed("table", [&] { return moved.index_of("a"); });
  expect_closed("table", [&] { return moved.shared_fields(); });
  expect_closed("table", [&] { return moved.shared_field(0); });
  expect_closed("table", [&] { return moved.pieces(0); });
  expect_closed("table", [&] { return moved.slice(0, 0); });
  expect_closed("table", [&] { return moved.select({}); });
  expect_closed("table", [&] { return export_stream(moved); });
  expect_closed("table", [&] { return export_device_stream(moved); });
  expect_closed("table", [&] { return export_dlpack(moved); });
  expect_closed("table", [&] { return copy_to(moved, ctx_); });
  expect_closed("table", [&] { return ipc::pack(moved).body; });
  expect_closed("table", [&] { return ipc::write_bytes(moved); });
  expect_closed("table", [&] { return spillable(ctx_, moved).bytes(); });
  moved = taken;
  EXPECT_EQ(moved.rows(), taken.rows());
}

TEST_F(moved_from, counted_tables_are_refused) {
  const table one = rows_.slice(0, 1);
  const std::size_t first = 0;
  const column count = one.select(std::span(&first, 1)).batches()[0].columns[0];
  counted_table moved = counted_table::make(rows_, count, 1);
  const counted_table taken = std::move(moved);
  EXPECT_EQ(taken.rows(), 1);
  expect_closed("counted table", [&] { return moved.rows(); });
  expect_closed("counted table", [&] { return moved.known_rows(); });
  expect_closed("counted table", [&] { return moved.rows_of_table(); });
}

TEST_F(moved_from, leases_of_streams_are_refused) {
  stream_lease moved = ctx_->borrow_stream();
  const stream_lease taken = std::move(moved);
  EXPECT_TRUE(taken.ref().idle());
  expect_closed("stream lease", [&] { return moved.ref(); });
}

TEST_F(moved_from, handles_of_spilled_tables_are_refused) {
  spill_handle moved = spillable(ctx_, rows_, 3);
  const spill_handle taken = std::move(moved);
  EXPECT_EQ(taken.priority(), 3);
  expect_closed("spill handle", [&] { return moved.use(ctx_).value(); });
  expect_closed("spill handle", [&] { return moved.spill(); });
  expect_closed("spill handle", [&] { return moved.tier(); });
  expect_closed("spill handle", [&] { return moved.closed(); });
  expect_closed("spill handle", [&] { return moved.bytes(); });
  expect_closed("spill handle", [&] { return moved.priority(); });
  expect_closed("spill handle", [&] { return moved.ctx(); });
  EXPECT_NO_THROW(moved.close());
  spill_use used = taken.use(ctx_);
  const spill_use kept = std::move(used);
  EXPECT_EQ(kept.value().rows(), rows_.rows());
  expect_closed("table", [&] { return used.value().ctx(); });
}
// NOLINTEND(bugprone-use-after-move)

} // namespace
} // namespace saeta
