// Every public function of the layers below ipc/ refuses null contexts, backends, budgets and resources.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/budget/reservation.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/compute/pack_columns.hpp"
#include "saeta/compute/selected_rows.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/device/stream.hpp"
#include "saeta/interop/arrow/abi.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/rows.hpp"
#include "saeta/interop/cuda_array/cuda_array_interface.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/graph_pool.hpp"
#include "saeta/memory/loans/imported_pool.hpp"
#include "saeta/memory/loans/lent_memory.hpp"
#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/decorators/budget_resource.hpp"
#include "saeta/resource/decorators/fault_resource.hpp"
#include "saeta/resource/decorators/guard_resource.hpp"
#include "saeta/resource/decorators/logging_resource.hpp"
#include "saeta/resource/decorators/statistics_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"
#include "saeta/runtime/runtime.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/symbols/symbol_arrays.hpp"
#include "saeta/symbols/symbols.hpp"
#include "saeta/transfer/column_stream.hpp"
#include "saeta/transfer/download.hpp"
#include "saeta/transfer/peer_copy.hpp"
#include "saeta/transfer/upload.hpp"
#include "support/refused_arguments.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace saeta {
namespace {

using support::expect_null_refused;

class null_arguments : public ::testing::Test {
protected:
  std::shared_ptr<backend> device_ = make_host_backend();
  std::shared_ptr<context> ctx_ = context::create(device_);
  stream_ref stream_ = ctx_->work_stream();
  table numbers_ = support::random_table(ctx_, {data_type(type_id::int64)}, {});
  column one_ = numbers_.batches()[0].columns[0];
  const std::shared_ptr<context> none_{};
};

TEST_F(null_arguments, are_refused_by_streams_and_events) {
  const std::shared_ptr<backend> no_device;
  expect_null_refused("owner", [&] { return stream(no_device); });
  expect_null_refused("owner", [&] { return event(no_device); });
  expect_null_refused("owner", [&] { return stream::from_native_handle(no_device, {}).ref(); });
  expect_null_refused("owner", [&] { return event::from_native_handle(no_device, {}).ref(); });
  stream moved(device_);
  const stream taken = std::move(moved);
  expect_null_refused("owner", [&] { return moved.ref(); }); // NOLINT(bugprone-use-after-move)
}

TEST_F(null_arguments, are_refused_by_resources_and_budgets) {
  const std::shared_ptr<backend> no_device;
  const std::shared_ptr<resource> nothing;
  const auto below = std::make_shared<direct_resource>(device_);
  expect_null_refused("device", [&] { return context::create(nullptr) != nullptr; });
  expect_null_refused("device", [&] { return direct_resource(no_device).held_bytes(); });
  expect_null_refused("device", [&] { return async_resource(no_device).held_bytes(); });
  expect_null_refused("device", [&] { return pinned_resource(no_device).held_bytes(); });
  expect_null_refused("device", [&] { return caching_resource(below, no_device, {}).held_bytes(); });
  expect_null_refused("upstream", [&] { return caching_resource(nothing, device_, {}).held_bytes(); });
  expect_null_refused("upstream", [&] { return fault_resource(nothing).held_bytes(); });
  expect_null_refused("upstream", [&] { return statistics_resource(nothing).held_bytes(); });
  expect_null_refused("upstream", [&] { return guard_resource(nothing, device_, {}).held_bytes(); });
  expect_null_refused("device", [&] { return guard_resource(below, no_device, {}).held_bytes(); });
  expect_null_refused("limit", [&] { return budget_resource(below, nullptr).held_bytes(); });
  expect_null_refused("from", [&] { return reservation::make(nullptr, 1); });
  expect_null_refused("limit", [&] { return host_pool(nullptr, 1).trim(); });
  expect_null_refused("sink", [&] {
    ctx_->reports().log()->attach(nullptr);
    return 0;
  });
}

TEST_F(null_arguments, are_refused_by_memory) {
  expect_null_refused("ctx", [&] { return buffer::allocate(none_, 1, stream_); });
  expect_null_refused("ctx", [&] { return buffer::adopt(none_, {}); });
  expect_null_refused("ctx", [&] { return lend_memory(none_, 1, stream_, {}); });
  expect_null_refused("from", [&] { return lend_memory(std::shared_ptr<graph_pool>(), 1, stream_); });
  expect_null_refused("ctx", [&] { return lend_ready_memory(none_, 1, {}); });
  expect_null_refused("ctx", [&] { return graph_pool::create(none_); });
  expect_null_refused("pool", [&] {
    const graph_pool_scope open(nullptr);
    return 0;
  });
  expect_null_refused("ctx", [&] { return handover_event(none_, {}).has_value(); });
  expect_null_refused("ctx", [&] { return device_copy<int>(none_, {}).memory(); });
  expect_null_refused("ctx", [&] { return kernel_results(none_, 1, {}, [](const auto&, std::int64_t*) {}); });
  expect_null_refused("ctx", [&] { return read_values(none_, {}); });
  expect_null_refused("of", [&] { return own_context(none_); });
  expect_null_refused("ctx", [&] { return host_pool_of(none_); });
  expect_null_refused("ctx", [&] { return landing_memory(none_, 1).memory; });
  expect_null_refused("ctx", [&] { return staging_ring::of(none_); });
  expect_null_refused("into", [&] {
    return staging_ring::of(ctx_)->upload(none_, transfer_plan(std::span<const std::byte>()), {});
  });
  expect_null_refused("into", [&] { return staging_ring::of(ctx_)->scatter(none_, {}, {}, {}).slab; });
}

TEST_F(null_arguments, are_refused_by_columns_and_transfers) {
  const host_batch rows = view_in_place(numbers_.batches()[0]);
  dictionary_cache cache;
  expect_null_refused("ctx", [&] { return column::empty(none_, one_.type()); });
  EXPECT_EQ(support::error_of([&] { static_cast<void>(column::make(none_, {})); }).code(),
            errc::invalid_argument);
  EXPECT_EQ(support::error_of([&] { static_cast<void>(table::make(none_, {}, {})); }).code(),
            errc::invalid_argument);
  expect_null_refused("ctx", [&] { return upload(none_, rows, cache, {}); });
  expect_null_refused("ctx", [&] { return adopt(none_, rows, cache, {}); });
  expect_null_refused("ctx", [&] { return download(none_, numbers_.batches()); });
  expect_null_refused("ctx", [&] { return download(none_, numbers_.batches()[0]); });
  expect_null_refused("ctx", [&] { return column_stream(none_, {}, 1).windows(); });
  expect_null_refused("ctx", [&] { return table_of_values(none_, {}); });
  expect_null_refused("target", [&] { return copy_to(numbers_, none_); });
  expect_null_refused("target", [&] { return copy_through_host(numbers_, none_); });
  expect_null_refused("target", [&] { return copy_from_peer(numbers_, none_, {}); });
  expect_null_refused("ctx", [&] { return copy_columns(none_, std::span(&one_, 1), {}); });
  expect_null_refused("ctx", [&] { return pack_columns(none_, numbers_.batches(), {}).body; });
  expect_null_refused("ctx", [&] { return permute_rows(none_, 1, 0, {}); });
  expect_null_refused("ctx", [&] { return allocate_rows(none_, 1); });
  expect_null_refused("ctx", [&] { return all_rows(none_, 1); });
  expect_null_refused("ctx", [&] { return rows_of_indices(none_, {}, {}); });
  expect_null_refused("ctx", [&] { return queue_rows(none_, {}, {}).limit; });
  expect_null_refused("ctx", [&] { return rows_of_mask(none_, {}, {}); });
  expect_null_refused("ctx", [&] { return rows_with_fill(none_, {}, {}); });
}

TEST_F(null_arguments, are_refused_by_imports_without_consuming_their_input) {
  dictionary_cache cache;
  const field described{"n", one_.type(), true, {}};
  ArrowArray array{};
  ArrowDeviceArray there{};
  ArrowArrayStream arrays{};
  ArrowDeviceArrayStream device_arrays{};
  array.release = there.array.release = [](ArrowArray*) { FAIL() << "released"; };
  expect_null_refused("ctx", [&] { return import_batch(none_, {}, array, cache); });
  expect_null_refused("ctx", [&] { return import_column(none_, described, array); });
  expect_null_refused("ctx", [&] { return import_stream(none_, arrays); });
  expect_null_refused("ctx", [&] {
    static_cast<void>(import_any_stream(none_, arrays));
    return 0;
  });
  expect_null_refused("ctx", [&] { return import_device_batch(none_, {}, there, cache); });
  expect_null_refused("ctx", [&] { return import_device_column(none_, described, there); });
  expect_null_refused("ctx", [&] {
    static_cast<void>(import_device_stream(none_, device_arrays));
    return 0;
  });
  EXPECT_NE(array.release, nullptr);
  EXPECT_NE(there.array.release, nullptr);
  expect_null_refused("ctx", [&] { return stream_rows(none_, numbers_.batches()[0], 64).bytes; });
  expect_null_refused("ctx", [&] { return arrow_rows(none_, {}, {}).finish(); });
  expect_null_refused("ctx", [&] {
    const column_checker made(none_);
    return 0;
  });
  expect_null_refused("values", [&] {
    column_checker(ctx_).check_dictionary(nullptr, described);
    return 0;
  });
  expect_null_refused("ctx", [&] { return import_cuda_array(none_, {}); });
  expect_null_refused("ctx", [&] { return allocate_dlpack(none_, {}, {}); });
  expect_null_refused("ctx", [&] { return import_dlpack(none_, dlpack_legacy_tensor()); });
  expect_null_refused("ctx", [&] { return import_dlpack_columns(none_, dlpack_tensor()); });
  expect_null_refused("source", [&] { return import_dlpack(ctx_, dlpack_legacy_tensor()); });
  expect_null_refused("source", [&] { return import_dlpack(ctx_, dlpack_tensor()); });
  expect_null_refused("source", [&] { return import_dlpack_columns(ctx_, dlpack_legacy_tensor()); });
  expect_null_refused("source", [&] { return import_dlpack_columns(ctx_, dlpack_tensor()); });
}

TEST_F(null_arguments, are_refused_by_symbols) {
  const std::shared_ptr<symbol_table> no_table;
  host_batch rows = view_in_place(numbers_.batches()[0]);
  expect_null_refused("table", [&] { return data_type::of_symbols(no_table, "symbol"); });
  expect_null_refused("table", [&] { return as_symbols(std::span(&one_, 1), no_table); });
  expect_null_refused("table", [&] { return symbol_dictionary(no_table).keepalive(); });
  expect_null_refused("ctx", [&] {
    symbol_names(numbers_.fields()).replace(none_, rows);
    return 0;
  });
  EXPECT_TRUE(symbol_type(no_table).is_symbol()) << "the default: the table of the process";
}

} // namespace
} // namespace saeta
