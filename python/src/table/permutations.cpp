// Numbers of rows in a pseudo-random order, for saeta/_loader.
#include "python/src/core/module.hpp"
#include "saeta/device/permutation.hpp"

#include <nanobind/stl/vector.h>

#include <cstdint>
#include <vector>

namespace saeta::py {

void bind_permutations(nb::module_& m) {
  m.def(
      "_permuted_numbers",
      [](std::uint32_t count, std::uint64_t key) {
        const permutation order = make_permutation(count, key);
        std::vector<std::uint64_t> numbers;
        for (std::uint64_t number = 0; number < count; ++number) {
          numbers.push_back(permute(order, number));
        }
        return numbers;
      },
      nb::arg("count"), nb::arg("key"), "The numbers below a count in the order of a key.");
}

} // namespace saeta::py
