// The DLPack C exchange API (DLPack 1.3): a table of C functions on a Python type, in place of a call of `__dlpack__`.
//
// Order     Nothing is synchronised: a producer's pending work is on its current work stream, and the consumer works there, too,
//           or waits for it. Ours is the work stream of the tensor's context, which waits for the column's last writes.
// Thread    With the GIL held, but for the allocator and for deleters.
// Standard  DLPackExchangeAPI in dlpack.h.
#pragma once

#include "saeta/interop/dlpack_types.hpp"

#include <dlpack/dlpack.h>
#include <nanobind/nanobind.h>

#include <memory>

namespace saeta {
class context;
}

namespace saeta::py {

/// The table of a type that has one in the major version that we know, else null.
const DLPackExchangeAPI* exchange_api_of(PyTypeObject* type) noexcept;

/// The process's context of a tensor's device, opened where it is not yet. @throws error exchange for other devices.
std::shared_ptr<context> context_for(tensor_device device);

} // namespace saeta::py
