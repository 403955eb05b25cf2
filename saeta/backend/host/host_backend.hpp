// The host backend: ordinary memory behind the device contract (saeta/device/backend.hpp).
//
// Order     Everything runs inline on the calling thread, so streams are always idle and events always
//           complete. Any stream handle is accepted, even one that this backend did not create.
// Thread    Any. A call has done its work when it returns. The caller orders its own threads.
// Failure   error out_of_memory naming the bytes, unsupported for pools and for peer access to another kind
//           of device.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/backend.hpp"

#include <memory>

namespace SAETA_EXPORT saeta {

std::shared_ptr<backend> make_host_backend();

} // namespace saeta
