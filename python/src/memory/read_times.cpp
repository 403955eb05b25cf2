// Times the parts of reads, for `saeta.profile_read`.
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/observe/read_clock.hpp"
#include "saeta/staging/staging_ring.hpp"

#include <nanobind/stl/string.h>

#include <array>

namespace saeta::py {
namespace {

constexpr std::array<const char*, read_parts> part_names{"file", "decode", "copy", "link", "kernels", "task"};

nb::dict stop() {
  const part_times times = read_clock::stop();
  nb::dict result;
  for (std::size_t i = 0; i < read_parts; ++i) {
    result[part_names.at(i)] = nb::make_tuple(times.parts.at(i).seconds, times.parts.at(i).bytes);
  }
  return result;
}

} // namespace

void bind_read_times(nb::module_& m) {
  m.def("_start_read_clock", &read_clock::start, nb::arg("threads"),
        "Begins to time the parts of all reads of the process, whose tasks so many threads share.");
  m.def("_stop_read_clock", &stop, nb::sig("def _stop_read_clock() -> dict[str, tuple[float, int]]"),
        "Returns (seconds of all threads, bytes) by part.");
  m.def(
      "_read_threads", [](const context_object& where) { return staging_ring::of(where.value)->threads(); },
      nb::arg("where"), "Number of threads that read into a context, callers among them.");
}

} // namespace saeta::py
