// Declarations that the files of the module `_ipc` share.
#pragma once

#include "python/src/core/module.hpp"
#include "saeta/ipc/common.hpp"

#include <nanobind/nanobind.h>

#include <memory>

namespace saeta::py {

/// Runs pending signal handlers, so that Ctrl-C works, then calls a Python callable with the progress. The
/// callable must outlive the hook.
ipc::progress_hook hook_of(const nb::object& callable);

/// Keeps a callable and drops it with the GIL held, because the last owner may be dropped on any thread.
std::shared_ptr<nb::object> kept_callable(const nb::object& callable);

/// Adds the functions and the class that write.
void bind_writing(nb::module_& m);

/// Adds the class of files that Python writes.
void bind_atomic_file(nb::module_& m);

/// Adds the functions that pack.
void bind_packing(nb::module_& m);

/// Adds the functions and the classes that spill.
void bind_spilling(nb::module_& m);

} // namespace saeta::py
