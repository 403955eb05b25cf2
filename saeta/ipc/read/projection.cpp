#include "saeta/ipc/read/projection.hpp"

#include "saeta/base/text.hpp"

#include <arrow/type.h>

#include <algorithm>
#include <numeric>

namespace saeta::ipc::detail {
namespace {

std::string names_of(const arrow::Schema& source) {
  std::string names;
  for (const auto& name : source.field_names()) {
    names += concat(names.empty() ? "'" : ", '", name, "'");
  }
  return names.empty() ? "none" : names;
}

int number_of(const arrow::Schema& source, const std::string& name, std::string_view where) {
  const auto found = source.GetAllFieldIndices(name);
  if (found.size() != 1) {
    throw error(errc::column_name, concat(where, ": ", found.empty() ? "no column" : "more than one column",
                                          " is named '", name, "'; the columns are: ", names_of(source)));
  }
  return found.front();
}

} // namespace

projection project(const arrow::Schema& source, const std::optional<std::vector<std::string>>& columns,
                   std::string_view where) {
  projection chosen;
  std::vector<int> numbers(static_cast<std::size_t>(source.num_fields()));
  std::iota(numbers.begin(), numbers.end(), 0);
  if (columns) {
    numbers.clear();
    for (const auto& name : *columns) {
      numbers.push_back(number_of(source, name, where));
    }
    chosen.decoded = numbers;
    std::sort(chosen.decoded.begin(), chosen.decoded.end());
    chosen.decoded.erase(std::unique(chosen.decoded.begin(), chosen.decoded.end()), chosen.decoded.end());
    if (chosen.decoded.empty() && source.num_fields() > 0) {
      chosen.decoded = {0}; // libarrow takes an empty list for all columns
    }
  }

  arrow::FieldVector fields;
  for (const int number : numbers) {
    fields.push_back(source.field(number));
    const auto place = std::lower_bound(chosen.decoded.begin(), chosen.decoded.end(), number);
    chosen.order.push_back(columns ? static_cast<int>(place - chosen.decoded.begin()) : number);
  }
  chosen.described = arrow::schema(std::move(fields), source.metadata());
  return chosen;
}

} // namespace saeta::ipc::detail
