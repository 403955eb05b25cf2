// Numbers of rows in a pseudo-random order, for saeta/_loader.
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/compute/permute.hpp"

#include <nanobind/stl/optional.h>

namespace saeta::py {

void bind_permutations(nb::module_& m) {
  m.def(
      "_permute_rows",
      [](const context_object& where, std::int64_t rows, std::uint64_t key, std::int64_t first,
         std::int64_t skipped, std::optional<std::int64_t> count, std::int64_t group, std::int64_t stride) {
        const number_groups numbers{first, skipped, group, stride, count.value_or(rows)};
        column made = permute_rows(where.value, rows, key, numbers);
        field described{"rows", made.type(), false, {}};
        return column_object(std::move(described), where.value, {std::move(made)});
      },
      nb::arg("where"), nb::arg("rows"), nb::arg("key"), nb::arg("first") = 0, nb::arg("skipped") = 0,
      nb::arg("count") = nb::none(), nb::arg("group") = 1, nb::arg("stride") = 1,
      nb::call_guard<gil_release>(),
      "Numbers of rows in the order of a key, the same on every device, as a column of uint32, or of int64 "
      "for more than 2^32 rows. Entry k is the place of the number first + (k + skipped) // group * stride + "
      "(k + skipped) % group in the permutation of all rows. Without a count there are as many as rows.");
}

} // namespace saeta::py
