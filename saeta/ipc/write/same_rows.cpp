#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace saeta::ipc::detail {
namespace {

/// The rows of an array, numbered from 0 whatever the array's offset is.
class rows_of {
public:
  explicit rows_of(const host_array& of) : of_(of) {}

  [[nodiscard]] bool is_valid(std::int64_t row) const {
    return of_.type.id() != type_id::null && (!of_.type.has_validity() || of_.buffers[0].data() == nullptr ||
                                              bit_at(of_.buffers[0], of_.offset + row));
  }
  [[nodiscard]] bool is_true(std::int64_t row) const { return bit_at(of_.buffers[1], of_.offset + row); }
  [[nodiscard]] std::int64_t number(std::size_t buffer, std::int64_t row) const {
    return read_offset(of_.buffers[buffer].data(), static_cast<std::size_t>(of_.type.buffer(buffer).width),
                       of_.offset + row);
  }
  [[nodiscard]] std::span<const std::byte> value(std::int64_t row) const {
    return bytes_of_value(of_, of_.offset + row);
  }
  /// The rows of the children that belong to a row.
  [[nodiscard]] child_rows children(std::int64_t row) const {
    if (const auto known = rows_of_children(of_.type, of_.offset + row, 1)) {
      return *known;
    }
    return of_.type.mapping() == row_mapping::scattered
               ? child_rows{number(1, row), number(2, row)}
               : rows_pointed_to(of_, window_of(of_.type, of_.offset + row, 1));
  }
  [[nodiscard]] const host_array& array() const noexcept { return of_; }

private:
  const host_array& of_;
};

bool same_range(const host_array& a, std::int64_t first_a, const host_array& b, std::int64_t first_b,
                std::int64_t count);

bool same_child(const rows_of& a, const rows_of& b, std::size_t child, const child_rows& of_a,
                const child_rows& of_b) {
  return same_range(a.array().children[child], of_a.first, b.array().children[child], of_b.first, of_a.count);
}

bool same_union(const rows_of& a, std::int64_t row_a, const rows_of& b, std::int64_t row_b) {
  const data_type& type = a.array().type;
  const std::int64_t code = a.number(0, row_a);
  if (code != b.number(0, row_b)) {
    return false;
  }
  const auto codes = type.type_codes();
  const auto child = static_cast<std::size_t>(std::ranges::find(codes, code) - codes.begin());
  const bool dense = type.id() == type_id::dense_union;
  const auto row_of_child = [&](const rows_of& of, std::int64_t row) {
    return child_rows{dense ? of.number(1, row) : of.array().offset + row, 1};
  };
  return child < codes.size() && same_child(a, b, child, row_of_child(a, row_a), row_of_child(b, row_b));
}

bool same_row(const rows_of& a, std::int64_t row_a, const rows_of& b, std::int64_t row_b) {
  const data_type& type = a.array().type;
  const bool valid = a.is_valid(row_a);
  if (valid != b.is_valid(row_b)) {
    return false;
  }
  if (!valid) {
    return true;
  }
  if (type.check() == check_kind::unions) {
    return same_union(a, row_a, b, row_b);
  }
  if (type.id() == type_id::dictionary) {
    return same_range(*a.array().dictionary, a.number(1, row_a), *b.array().dictionary, b.number(1, row_b),
                      1);
  }
  if (!type.children().empty()) {
    const child_rows of_a = a.children(row_a);
    const child_rows of_b = b.children(row_b);
    const std::size_t first = type.mapping() == row_mapping::run_ends ? 1 : 0; // the values of a run
    bool same = of_a.count == of_b.count;
    for (std::size_t i = first; same && i < type.children().size(); ++i) {
      same = same_child(a, b, i, of_a, of_b);
    }
    return same;
  }
  return type.id() == type_id::boolean ? a.is_true(row_a) == b.is_true(row_b)
                                       : std::ranges::equal(a.value(row_a), b.value(row_b));
}

bool same_range(const host_array& a, std::int64_t first_a, const host_array& b, std::int64_t first_b,
                std::int64_t count) {
  const rows_of in_a(a);
  const rows_of in_b(b);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!same_row(in_a, first_a + i, in_b, first_b + i)) {
      return false;
    }
  }
  return true;
}

} // namespace

bool same_rows(const host_array& a, const host_array& b, std::int64_t rows) {
  return a.length >= rows && b.length >= rows && same_range(a, 0, b, 0, rows);
}

bool same_rows(const host_array& a, const host_array& b) {
  return a.length == b.length && same_rows(a, b, a.length);
}

} // namespace saeta::ipc::detail
