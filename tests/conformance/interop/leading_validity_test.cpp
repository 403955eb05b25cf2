// Arrays with a validity buffer although their type has none, as exported by polars (null columns) and by old
// producers (unions).
#include "conformance/harness/context_test.hpp"
#include "saeta/base/error.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "support/arrays.hpp"

#include <gtest/gtest.h>

#include <deque>

namespace saeta::conformance {
namespace {

using support::nulls;
using support::random_array;
using support::same_rows;
using support::shared_array;

std::vector<data_type> types_without_validity() {
  const std::vector<field> pair{{"a", data_type(type_id::int32), true, {}},
                                {"b", data_type(type_id::string), true, {}}};
  return {data_type::parse("n"), data_type::nested("+us:4,7", pair), data_type::nested("+ud:4,7", pair)};
}

class leading_validity : public context_test {
protected:
  /// Inserts a validity pointer before the buffers of every array whose type has no validity.
  void add_to(ArrowArray& to, const data_type& type, const void* validity) {
    const layout_kind layout = type.layout();
    if (layout == layout_kind::none || layout == layout_kind::sparse_union ||
        layout == layout_kind::dense_union) {
      std::vector<const void*>& buffers = kept_.emplace_back();
      buffers.push_back(validity);
      buffers.insert(buffers.end(), to.buffers, to.buffers + to.n_buffers);
      to.buffers = buffers.data();
      ++to.n_buffers;
    }
    for (std::size_t i = 0; i < type.children().size(); ++i) {
      add_to(*to.children[i], type.children()[i].type, validity);
    }
  }
  [[nodiscard]] column on_context(const shared_array& source) const {
    arrow_array given = support::to_c(source);
    import_options options;
    options.copy = copy_policy::always;
    return import_column(ctx(), {"x", source->type, true, {}}, given.get(), options);
  }
  [[nodiscard]] column taken(const data_type& type, ArrowArray& from) const {
    return import_column(ctx(), {"x", type, true, {}}, from);
  }
  static ::testing::AssertionResult same(const column& seen, const shared_array& source) {
    arrow_array there = export_column(seen);
    return same_rows(there.get(), *source);
  }
  [[nodiscard]] buffer bits(std::uint8_t value) const {
    const buffer made = make(64);
    fill(made, value, ctx()->work_stream());
    ctx()->synchronize(ctx()->work_stream());
    return made;
  }

private:
  std::deque<std::vector<const void*>> kept_;
};

TEST_P(leading_validity, is_accepted_if_it_is_null_or_all_valid) {
  const std::vector<std::uint8_t> valid(64, 0xff);
  for (const data_type& plain : types_without_validity()) {
    for (const data_type& type : {plain, data_type::nested("+l", {{"item", plain, true, {}}}),
                                  data_type::nested("+s", {{"c", plain, true, {}}}),
                                  data_type::nested("+w:2", {{"item", plain, true, {}}})}) {
      for (const std::int64_t offset : {0, 3}) {
        const shared_array source = random_array(type, {20, offset, nulls::some, true}, 4);
        SCOPED_TRACE(type.name());
        for (const void* const validity :
             {static_cast<const void*>(nullptr), static_cast<const void*>(valid.data())}) {
          arrow_array given = support::to_c(source);
          add_to(given.get(), type, validity);
          EXPECT_TRUE(same(taken(type, given.get()), source));
        }
        const buffer there = bits(0xff);
        arrow_device_array given = export_device_column(on_context(source));
        add_to(given.get().array, type, reinterpret_cast<const void*>(there.address()));
        EXPECT_TRUE(same(import_device_column(ctx(), {"x", type, true, {}}, given.get()), source));
      }
    }
  }
}

TEST_P(leading_validity, of_a_union_with_a_null_is_refused_with_its_number) {
  for (const data_type& type : types_without_validity()) {
    if (type.layout() == layout_kind::none) {
      continue;
    }
    const shared_array source = random_array(type, {20, 3, nulls::absent, true}, 4);
    const std::vector<std::uint8_t> host_bits(64, 0x7f); // rows 4 and 12 of the twenty are null
    const buffer there = bits(0x7f);
    const auto expect_refused = [&](const auto& import) {
      try {
        import();
        ADD_FAILURE() << "taken: " << type.name();
      } catch (const error& why) {
        EXPECT_EQ(why.code(), errc::unsupported);
        EXPECT_NE(why.message().find("column 'x': 2 of 20 rows are null by a validity buffer of the union"),
                  std::string::npos)
            << why.message();
      }
    };
    for (const std::int64_t said : {-1, 2}) {
      arrow_array here = support::to_c(source);
      here.get().null_count = said;
      add_to(here.get(), type, host_bits.data());
      expect_refused([&] { static_cast<void>(taken(type, here.get())); });
      arrow_device_array given = export_device_column(on_context(source).slice(0, 20));
      given.get().array.null_count = said;
      add_to(given.get().array, type, reinterpret_cast<const void*>(there.address()));
      expect_refused([&] {
        static_cast<void>(import_device_column(ctx(), {"x", type, true, {}}, given.get()));
      });
    }
    arrow_array counted = support::to_c(source);
    counted.get().null_count = 2;
    add_to(counted.get(), type, nullptr);
    expect_refused([&] { static_cast<void>(taken(type, counted.get())); });
    arrow_array unknown = support::to_c(source);
    unknown.get().null_count = -1;
    add_to(unknown.get(), type, nullptr);
    EXPECT_TRUE(same(taken(type, unknown.get()), source)) << "no validity, no nulls";
  }
}

TEST_P(leading_validity, is_refused_for_types_that_have_a_validity) {
  for (const char* const format : {"i", "u", "b"}) {
    const data_type type = data_type::parse(format);
    arrow_array given = support::to_c(random_array(type, {20, 3, nulls::some, true}, 4));
    std::vector<const void*> buffers{nullptr};
    buffers.insert(buffers.end(), given.get().buffers, given.get().buffers + given.get().n_buffers);
    given.get().buffers = buffers.data();
    ++given.get().n_buffers;
    EXPECT_THROW(static_cast<void>(taken(type, given.get())), error) << format;
  }
}

SAETA_CONFORMANCE_SUITE(leading_validity);

} // namespace
} // namespace saeta::conformance
