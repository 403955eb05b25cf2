// Numbers of rows in a pseudo-random order, for saeta/_loader.
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/compute/permute.hpp"

namespace saeta::py {

void bind_permutations(nb::module_& m) {
  m.def(
      "_permute_rows",
      [](const context_object& where, std::int64_t rows, std::uint64_t key) {
        column made = permute_rows(where.value, rows, key, {.group = 1, .stride = 1, .count = rows});
        field described{"rows", made.type(), false, {}};
        return column_object(std::move(described), where.value, {std::move(made)});
      },
      nb::arg("where"), nb::arg("rows"), nb::arg("key"), nb::call_guard<gil_release>(),
      "Numbers of rows in the order of a key, the same on every device, as a column of uint32, or of int64 "
      "for more than 2^32 rows.");
}

} // namespace saeta::py
