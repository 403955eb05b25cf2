// The composition root: finds devices and keeps one context per device. The only code that names the backends.
//
// Owner     The runtime keeps every context until the process ends, so that a device has one budget and one ledger.
// Thread    Any; racing first users of a device get one context, and a failed creation can be tried again.
// Fork      A child of fork starts with an empty registry: its contexts are its own, made as the environment and the child
//           say. CUDA can't be used in it when its parent has used CUDA.
// Failure   error device when the device does not exist here, with the reason.
#pragma once

#include "saeta/memory/context.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace saeta {

struct device_entry {
  device_id id;
  device_properties properties; ///< `free_bytes` of a CUDA device only where the process uses it already
};

/// What this build and this machine can do.
struct runtime_report {
  bool built_with_cuda = false;
  bool cuda_usable = false;
  std::string cuda_missing; ///< why CUDA can't be used, and what to do; empty when it can
  std::string cuda_runtime; ///< "13.0", empty without CUDA
  std::string cuda_driver;  ///< newest CUDA version the driver knows, empty without a driver
};

/// Devices that can be used now: CUDA devices first, then the host. Never throws for a missing driver, and uses no device:
/// asking takes no memory of it.
std::vector<device_entry> devices();

/// The driver's context that a device's contexts work in (CUcontext), for libraries that take one; 0 on the host.
/// @throws error device when it does not exist here.
std::uintptr_t driver_context(device_id device);

/// What `devices()` says of one of them. @throws error device when it does not exist here.
device_properties describe_device(device_id device);

runtime_report describe_runtime();

/// The device that work goes to when none is named: the first CUDA device, else the host.
device_id best_device();

/// What is said in code about a device's context; the environment (runtime/environment.hpp) answers for the rest.
struct open_options {
  std::optional<std::uint64_t> budget{}; ///< bytes
  std::optional<std::string> stack{};    ///< as parse_stack reads it
  std::optional<std::chrono::milliseconds>
      wait{}; ///< how long a request that does not fit waits for others to free
  /// Whether other processes can open memory of the device (stack_options::exportable_pool).
  std::optional<bool> exportable_pool{};
  resource_source slabs{}; ///< where the cache takes its memory from; null: the driver
};

/// The process's context of a device, created on first use.
/// @throws error invalid_argument when the context exists with another budget, stack, wait or pool, or exists at all and `slabs`
///         is given: what one library has chosen is not changed by another that opens the device.
std::shared_ptr<context> open_context(device_id device, const open_options& options);
std::shared_ptr<context> open_context(device_id device, std::optional<std::uint64_t> budget = std::nullopt);

/// The process's context if it was opened already, else null.
std::shared_ptr<context> find_context(device_id device);

/// The context to use for `of`: itself, but in a child of fork, for its parent's context of the host, the child's own.
std::shared_ptr<context> own_context(const std::shared_ptr<context>& of);

} // namespace saeta
