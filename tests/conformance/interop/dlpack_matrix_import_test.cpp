// Imports of multi-dimensional tensors as columns of lists and as tables, on every backend.
#include "conformance/harness/tensor_test.hpp"
#include "saeta/base/error.hpp"

#include <gtest/gtest.h>

#include <deque>

namespace saeta::conformance {
namespace {

using extents = std::vector<std::int64_t>;

/// A producer's tensor of any shape over memory of the test. It must outlive every import of it.
class lent_matrix {
public:
  lent_matrix(const void* data, DLDataType type, DLDevice device, extents shape, extents strides)
      : shape_(std::move(shape)), strides_(std::move(strides)) {
    managed_.manager_ctx = this;
    managed_.deleter = [](DLManagedTensorVersioned* self) {
      static_cast<lent_matrix*>(self->manager_ctx)->deleted_.fetch_add(1);
    };
    managed_.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed_.dl_tensor = {const_cast<void*>(data),
                          device,
                          static_cast<std::int32_t>(shape_.size()),
                          type,
                          shape_.data(),
                          strides_.empty() ? nullptr : strides_.data(),
                          0};
  }
  lent_matrix(const lent_matrix&) = delete;
  lent_matrix& operator=(const lent_matrix&) = delete;
  ~lent_matrix() { static_cast<void>(handed_.release()); }
  /// For an import, which takes it on success.
  [[nodiscard]] dlpack_tensor&& get() noexcept {
    static_cast<void>(handed_.release());
    handed_.reset(&managed_);
    return std::move(handed_);
  }
  [[nodiscard]] int deleted() const noexcept { return deleted_.load(); }

private:
  DLManagedTensorVersioned managed_{};
  dlpack_tensor handed_;
  extents shape_;
  extents strides_;
  std::atomic<int> deleted_{0};
};

class dlpack_matrix_import : public tensor_test {
protected:
  /// Writes the int32 numbers 0, 1, 2, ... to memory of the context's device, and makes a tensor over them
  /// that begins at number `first`.
  lent_matrix& lend(std::int64_t first, extents shape, extents strides = {}) {
    values_ = filled(counting<std::int32_t>(count));
    const tensor_device here = to_tensor_device(ctx()->device(), own_kind(ctx()->device()));
    return matrices_.emplace_back(
        reinterpret_cast<const void*>(values_.address() + static_cast<std::uintptr_t>(first) * 4),
        support::dtype(kDLInt, 32), DLDevice{static_cast<DLDeviceType>(here.type), here.ordinal},
        std::move(shape), std::move(strides));
  }
  [[nodiscard]] dlpack_table_import ordered(copy_policy copy = copy_policy::when_needed) const {
    dlpack_table_import how;
    how.ready = dlpack_import_stream(*ctx());
    how.copy = copy;
    return how;
  }
  [[nodiscard]] std::vector<std::int32_t> shown(const column& source) const {
    const versioned_tensor tensor(export_dlpack(source, here()));
    return seen<std::int32_t>(tensor->dl_tensor);
  }
  [[nodiscard]] std::vector<std::int32_t> shown(const table& source) const {
    const versioned_tensor tensor(export_dlpack(source, here()));
    EXPECT_EQ(shape_of(tensor->dl_tensor),
              (extents{source.rows(), static_cast<std::int64_t>(source.column_count())}));
    return seen<std::int32_t>(tensor->dl_tensor);
  }
  void expect_refused(lent_matrix& lent, const dlpack_table_import& how, errc code, const std::string& text) {
    try {
      static_cast<void>(import_dlpack_columns(ctx(), lent.get(), how));
      ADD_FAILURE() << "accepted; expected: " << text;
    } catch (const error& e) {
      EXPECT_EQ(name_of(e.code()), name_of(code)) << e.message();
      EXPECT_NE(e.message().find(text), std::string::npos) << e.message();
    }
    EXPECT_EQ(lent.deleted(), 0);
  }

  static constexpr std::size_t count = 200;
  buffer values_;
  std::deque<lent_matrix> matrices_;
};

TEST_P(dlpack_matrix_import, a_tensor_of_contiguous_rows_is_a_column_of_lists_without_a_copy) {
  for (const extents& strides : {extents{}, extents{12, 4, 1}}) {
    lent_matrix& lent = lend(5, {2, 3, 4}, strides);
    const column taken = import_dlpack(ctx(), lent.get(), ordered(copy_policy::never));
    EXPECT_EQ(taken.type().name(), "fixed_size_list<item: fixed_size_list<item: int32>[4]>[3]");
    EXPECT_EQ(taken.length(), 2);
    EXPECT_EQ(taken.child(0).child(0).values().address(), values_.address() + 20);
    EXPECT_EQ(shown(taken), counting<std::int32_t>(24, 5));
    EXPECT_EQ(lent.deleted(), 0);
  }
  EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
  for (const lent_matrix& each : matrices_) {
    EXPECT_EQ(each.deleted(), 1);
  }
}

TEST_P(dlpack_matrix_import, a_round_trip_keeps_shape_and_pointer) {
  const column source = lists(3, numbers(type_id::int32, counting<std::int32_t>(30)));
  const column back = import_dlpack(ctx(), export_dlpack(source.slice(1, 5), here()), ordered());
  EXPECT_EQ(back.type(), source.type());
  EXPECT_EQ(back.child(0).values().address(), source.children().front().values().address() + 12);
}

TEST_P(dlpack_matrix_import, a_tensor_of_any_strides_is_copied_to_contiguous_rows) {
  struct strided {
    std::int64_t first;
    extents shape;
    extents strides;
    std::vector<std::int32_t> expected;
  };
  const std::vector<strided> all{{0, {3, 2}, {1, 10}, {0, 10, 1, 11, 2, 12}},
                                 {0, {2, 3}, {10, 1}, {0, 1, 2, 10, 11, 12}},
                                 {50, {2, 2}, {-20, -3}, {50, 47, 30, 27}},
                                 {4, {2, 2, 2}, {0, 8, 1}, {4, 5, 12, 13, 4, 5, 12, 13}}};
  for (const strided& each : all) {
    lent_matrix& lent = lend(each.first, each.shape, each.strides);
    EXPECT_THROW(static_cast<void>(import_dlpack(ctx(), lent.get(), ordered(copy_policy::never))), error);
    EXPECT_EQ(lent.deleted(), 0);
    const column taken = import_dlpack(ctx(), lent.get(), ordered());
    EXPECT_EQ(shown(taken), each.expected);
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(lent.deleted(), 1);
  }
}

TEST_P(dlpack_matrix_import, an_empty_tensor_keeps_its_shape) {
  for (const extents& shape : {extents{0, 3}, extents{2, 0}, extents{0, 0, 4}}) {
    const column taken = import_dlpack(ctx(), lend(0, shape).get(), ordered());
    EXPECT_EQ(taken.length(), shape.front());
    const versioned_tensor tensor(export_dlpack(taken, here()));
    EXPECT_EQ(shape_of(tensor->dl_tensor), shape);
  }
}

TEST_P(dlpack_matrix_import, contiguous_columns_become_a_table_without_a_copy) {
  for (const std::int64_t spacing : {4, 9, -5, 0}) {
    const std::int64_t first = spacing < 0 ? 60 : 3;
    lent_matrix& lent = lend(first, {4, 3}, {1, spacing});
    const table taken = import_dlpack_columns(ctx(), lent.get(), ordered(copy_policy::never));
    EXPECT_EQ(taken.rows(), 4);
    ASSERT_EQ(taken.column_count(), 3U);
    EXPECT_EQ(taken.fields().fields[2].name, "col_2");
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t start = first + static_cast<std::int64_t>(i) * spacing;
      const column piece = taken.pieces(i).front();
      EXPECT_EQ(piece.values().address(), values_.address() + static_cast<std::uintptr_t>(start) * 4);
      EXPECT_EQ(shown(piece), counting<std::int32_t>(4, static_cast<int>(start)));
    }
  }
  EXPECT_EQ(ctx()->copies().read_counters().imports, 4U);
}

TEST_P(dlpack_matrix_import, a_row_major_tensor_is_transposed_by_one_kernel) {
  for (const extents& strides : {extents{}, extents{3, 1}}) {
    lent_matrix& lent = lend(0, {4, 3}, strides);
    expect_refused(lent, ordered(copy_policy::never), errc::exchange, "a copy was forbidden");
    const table taken = import_dlpack_columns(ctx(), lent.get(), ordered());
    EXPECT_EQ(shown(taken), counting<std::int32_t>(12));
    const versioned_tensor matrix(export_dlpack(taken, here(copy_policy::never)));
    EXPECT_EQ(strides_of(matrix->dl_tensor), (extents{1, 4})) << "back without a copy";
  }
}

TEST_P(dlpack_matrix_import, tensors_with_one_or_no_row_or_column_are_tables) {
  EXPECT_EQ(shown(import_dlpack_columns(ctx(), lend(7, {1, 3}, {99, 2}).get(), ordered(copy_policy::never))),
            (std::vector<std::int32_t>{7, 9, 11}));
  EXPECT_EQ(shown(import_dlpack_columns(ctx(), lend(7, {3, 1}, {1, 99}).get(), ordered(copy_policy::never))),
            (std::vector<std::int32_t>{7, 8, 9}));
  EXPECT_EQ(shown(import_dlpack_columns(ctx(), lend(7, {3, 1}).get(), ordered(copy_policy::never))),
            (std::vector<std::int32_t>{7, 8, 9}));
  EXPECT_EQ(shown(import_dlpack_columns(ctx(), lend(7, {1, 3}).get(), ordered(copy_policy::never))),
            (std::vector<std::int32_t>{7, 8, 9}));
  EXPECT_EQ(import_dlpack_columns(ctx(), lend(0, {0, 3}).get(), ordered()).column_count(), 3U);
  const table none = import_dlpack_columns(ctx(), lend(0, {5, 0}).get(), ordered());
  EXPECT_EQ(none.column_count(), 0U);
  EXPECT_EQ(none.rows(), 5);
}

TEST_P(dlpack_matrix_import, a_copy_is_memory_of_the_context) {
  lent_matrix& lent = lend(0, {4, 3}, {1, 9});
  const table taken = import_dlpack_columns(ctx(), lent.get(), ordered(copy_policy::always));
  EXPECT_FALSE(taken.pieces(0).front().values().owner()->external());
  EXPECT_EQ(shown(taken), (std::vector<std::int32_t>{0, 9, 18, 1, 10, 19, 2, 11, 20, 3, 12, 21}));
}

TEST_P(dlpack_matrix_import, a_host_tensor_is_one_upload_or_a_view) {
  const auto content = counting<std::int32_t>(60);
  for (const extents& strides : {extents{1, 12}, extents{12, 1}, extents{0, 1}}) {
    lent_matrix lent(content.data(), support::dtype(kDLInt, 32), {kDLCPU, 0}, {5, 4}, strides);
    ctx()->copies().reset_counters();
    const table taken = import_dlpack_columns(ctx(), lent.get());
    std::vector<std::int32_t> expected;
    for (std::int64_t i = 0; i < 20; ++i) {
      expected.push_back(static_cast<std::int32_t>(i / 4 * strides[0] + i % 4 * strides[1]));
    }
    EXPECT_EQ(shown(taken), expected);
    EXPECT_EQ(ctx()->copies().read_counters().host_to_device.transfers, ctx()->on_host() ? 0U : 1U);
    lent_matrix rows(content.data(), support::dtype(kDLInt, 32), {kDLCPU, 0}, {5, 4}, strides);
    EXPECT_EQ(shown(import_dlpack(ctx(), rows.get())), expected);
  }
}

TEST_P(dlpack_matrix_import, a_schema_names_the_columns_and_may_reinterpret_integers) {
  dlpack_table_import how = ordered();
  how.fields = schema{
      {field{"a", data_type(type_id::int32), true, {}}, field{"b", data_type(type_id::uint32), false, {}}},
      {}};
  lent_matrix& lent = lend(0, {3, 2}, {1, 3});
  expect_refused(lent, how, errc::type_mismatch, "column 'b' of uint32");
  how.reinterpret = true;
  const table taken = import_dlpack_columns(ctx(), lent.get(), how);
  EXPECT_EQ(taken.fields(), *how.fields);
  EXPECT_EQ(taken.pieces(1).front().type(), data_type(type_id::uint32));
  how.fields->fields[1].type = data_type(type_id::float32);
  expect_refused(lend(0, {3, 2}), how, errc::type_mismatch, "column 'b' of float");
  how.fields->fields[1].type = data_type(type_id::int64);
  expect_refused(lend(0, {3, 2}), how, errc::type_mismatch, "column 'b' of int64");
  expect_refused(lend(0, {3, 3}), how, errc::type_mismatch, "3 columns and the schema 2 fields");
}

TEST_P(dlpack_matrix_import, shapes_that_are_not_tables_or_overflow_are_refused) {
  expect_refused(lend(0, {3}), ordered(), errc::exchange, "ndim is 1 and a table of columns has two");
  expect_refused(lend(0, {3, 2, 1}), ordered(), errc::exchange, "ndim is 3");
  expect_refused(lend(0, {3, -2}), ordered(), errc::format, "shape[1] is -2");
  const std::int64_t large = std::int64_t{1} << 40;
  expect_refused(lend(0, {large, large}), ordered(), errc::format, "overflows");
  expect_refused(lend(0, {3, 3}, {1, std::int64_t{1} << 60}), ordered(), errc::format,
                 "leave the address space");
  expect_refused(lend(0, {2, 3}, {-(std::int64_t{1} << 58), -(std::int64_t{1} << 58)}), ordered(),
                 errc::format, "leave the address space");
  lent_matrix& wide = lend(0, {0, std::int64_t{1} << 31});
  EXPECT_THROW(static_cast<void>(import_dlpack(ctx(), wide.get(), ordered())), error);
  const extents many(9, 2);
  lent_matrix& deep = lend(0, many, {1, 3, 9, 2, 20, 4, 30, 5, 40});
  try {
    static_cast<void>(import_dlpack(ctx(), deep.get(), ordered()));
    ADD_FAILURE() << "accepted";
  } catch (const error& e) {
    EXPECT_NE(e.message().find("more than 8 dimensions"), std::string::npos) << e.message();
  }
}

SAETA_CONFORMANCE_SUITE(dlpack_matrix_import);

} // namespace
} // namespace saeta::conformance
