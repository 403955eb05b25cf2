// The CUDA backend: one NVIDIA GPU behind the device contract (saeta/device/backend.hpp), and the probe for
// CUDA.
//
// What      Works in the primary context of the device, which it shares with other libraries. Stream-ordered
//           memory comes from a pool of the backend's own. The CUDA runtime is linked statically and the
//           driver is looked up at run time, so a program that contains this backend starts on any machine.
// Owner     Held by shared_ptr. The primary context is kept until the process ends, as in the CUDA runtime.
// Thread    Any. Each call makes the context current for its own duration and restores the thread's previous
//           one. A graph that another thread captures meanwhile is not disturbed, except as `record_context`
//           says.
// Driver    For CUDA 12.5 or newer. Older drivers lack cuCtxRecordEvent, an event over all work of a context.
//           Exported memory is freed after such an event.
// Fork      CUDA does not work in a forked child whose parent has used it. Such a child gets an error without
//           a call to CUDA, because CUDA's locks may be held.
// Failure   error device with the name, number and text of CUDA's code, out_of_memory for allocations,
//           device_lost for the errors after which CUDA no longer works in this process.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/backend.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace SAETA_EXPORT saeta {

/// Whether this machine can run the CUDA backend and, if not, why. Versions are CUDA's numbers: 13000 is
/// 13.0, 0 is none.
struct cuda_status {
  bool usable = false;
  std::string reason; ///< empty when usable, otherwise a sentence for users that says what is missing
  std::int32_t driver_version = 0;
  std::int32_t runtime_version = 0;
  std::int32_t devices = 0; ///< devices that this process may use; 0 when CUDA is not usable
};

/// Creates no context and takes no memory of a device. Does not throw on a machine without a driver or a
/// device: the result says so.
cuda_status probe_cuda();

/// Devices that this process may use; 0 when `probe_cuda()` says that CUDA is not usable.
inline std::int32_t cuda_device_count() { return probe_cuda().devices; }

/// Properties of a device, found without using it: creates no context and takes no memory. `free_bytes` is
/// known only if a library of this process already uses the device.
/// @throws error device when CUDA is not usable or has no such ordinal.
device_properties describe_cuda_device(std::int32_t ordinal);

/// Creates the primary context of device `ordinal` if the process has none yet.
/// @throws error device when CUDA is not usable or has no such ordinal.
std::shared_ptr<backend> make_cuda_backend(std::int32_t ordinal);

/// The device's primary context (CUcontext), created if the process has none yet. @throws error device.
std::uintptr_t cuda_driver_context(std::int32_t ordinal);

} // namespace saeta
