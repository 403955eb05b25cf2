// The CUDA backend: one NVIDIA GPU behind the device contract (saeta/device/backend.hpp), and whether there is one.
//
// What      Works in the primary context of the device, which other libraries share; stream-ordered memory comes from a
//           pool of its own. The CUDA runtime is linked statically and the driver is looked up at run time: a program
//           that contains this backend starts on any machine.
// Owner     Whoever holds the pointer. The primary context is kept until the process ends, as the CUDA runtime does.
// Thread    Any. Each call makes the context current for its own duration and leaves the thread as it was; a graph
//           that another thread captures meanwhile is not disturbed, but for what `record_context` says.
// Driver    For CUDA 12.5 or newer: before it there is no event over all work of a context (cuCtxRecordEvent), behind which
//           exported memory is freed.
// Fork      CUDA does not work in a child of fork whose parent has used it. Such a child is refused without a call of CUDA,
//           whose locks may be held.
// Failure   error device with the name, number and text of CUDA's code, out_of_memory for allocations, device_lost for
//           the errors after which CUDA works no more in this process.
#pragma once

#include "saeta/device/backend.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace saeta {

/// What this machine offers to the CUDA backend. Versions as CUDA numbers them: 13000 is 13.0, 0 is none.
struct cuda_status {
  bool usable = false;
  std::string reason; ///< empty when usable, otherwise what is missing, for people
  std::int32_t driver_version = 0;
  std::int32_t runtime_version = 0;
  std::int32_t devices = 0; ///< that this process may use; 0 when it is not usable
};

/// Makes no context and takes no memory of a device. Never throws for a machine without a driver or a device: that is an answer.
cuda_status probe_cuda();

/// Devices that this process may use; 0 wherever `probe_cuda()` says that CUDA is not usable.
inline std::int32_t cuda_device_count() { return probe_cuda().devices; }

/// Properties of a device, found without using it: no context is made and no memory of it is taken. `free_bytes` is known
/// only where a library of this process uses the device already.
/// @throws error device when CUDA is not usable or has no such ordinal.
device_properties describe_cuda_device(std::int32_t ordinal);

/// Creates the primary context of device `ordinal` if the process has none yet.
/// @throws error device when CUDA is not usable or has no such ordinal.
std::shared_ptr<backend> make_cuda_backend(std::int32_t ordinal);

/// The device's primary context (CUcontext), made if the process has none yet. @throws error device.
std::uintptr_t cuda_driver_context(std::int32_t ordinal);

} // namespace saeta
