// Memory for allocations of CuPy and RMM while a graph is captured: the object that
// saeta.allocators.graph_pool returns.
//
// Thread    Every call enters the core without the GIL, as in lent_memory.cpp.
#include "saeta/memory/loans/graph_pool.hpp"

#include "python/src/core/objects.hpp"
#include "python/src/core/pickling.hpp"

#include <nanobind/stl/string.h>

#include <optional>

namespace saeta::py {
namespace {

class graph_pool_object {
public:
  graph_pool_object(const context_object& ctx, const std::string& label)
      : pool_(graph_pool::create(ctx.value, label)) {}
  graph_pool_object(const graph_pool_object&) = delete;
  graph_pool_object& operator=(const graph_pool_object&) = delete;
  ~graph_pool_object() {
    released_gil([this] { scope_.reset(); });
  }

  void enter() {
    if (scope_) {
      throw error(errc::busy, "this graph pool is already open");
    }
    without_gil([this] { scope_.emplace(*pool_); });
  }
  void leave() {
    without_gil([this] { scope_.reset(); });
  }
  void release() {
    if (scope_) {
      throw error(errc::busy, "this graph pool is open: release it after the capture, with its graphs");
    }
    without_gil([this] { (*pool_)->release(); });
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return without_gil([this] { return (*pool_)->bytes(); });
  }

private:
  unlocked<std::shared_ptr<graph_pool>> pool_;
  std::optional<graph_pool_scope> scope_;
};

} // namespace

void bind_graph_pool(nb::module_& m) {
  nb::class_<graph_pool_object>(
      m, "GraphPool",
      "Memory for what is allocated while a CUDA graph is captured, from `saeta.allocators.graph_pool`. "
      "Inside a `with` block around one capture, Saeta's allocators for CuPy and RMM take from it what this "
      "thread allocates on capturing streams. All of it stays charged to the context until `release` or "
      "until the pool is dropped: keep the pool as long as its graphs. The block announces the capture, as "
      "`Context.capturing` does."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> pool = sa.allocators.graph_pool(sa.context('host'))\n"
      "    >>> with pool:  # around the capture\n"
      "    ...     pass")
      .def(nb::init<const context_object&, const std::string&>(), nb::arg("where"), nb::arg("tag"),
           nb::sig("def __init__(self, where: Context, tag: str) -> None"))
      .def(not_pickled("make one where the work is"))
      .def(with_block<&graph_pool_object::leave, &graph_pool_object::enter>(
          "def __enter__(self) -> GraphPool"))
      .def("release", &graph_pool_object::release,
           "Returns the memory to the context, behind all work of the device; memory still in use returns "
           "when it is freed. The graphs that were captured with it must not be launched any more.")
      .def_prop_ro("nbytes", &graph_pool_object::bytes, "Bytes charged to the context.");
}

} // namespace saeta::py
