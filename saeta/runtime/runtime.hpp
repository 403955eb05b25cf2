// The composition root: finds devices and keeps one context per device. No other code names the backends.
//
// Owner     The runtime keeps every context until the process ends, so that a device has one budget and one
//           ledger.
// Thread    Any. Threads that open a device at the same time get one context. A failed creation can be
//           retried.
// Fork      A child of fork starts with an empty registry. Its contexts are its own, configured by the
//           environment and by the child. The child can't use CUDA if its parent has used CUDA.
// Failure   error device if the device does not exist here, with the reason.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/memory/context.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

struct device_entry {
  device_id id;
  device_properties properties; ///< `free_bytes` of a CUDA device only if the process already uses it
};

/// The capabilities of this build and this machine.
struct runtime_report {
  bool built_with_cuda = false;
  bool cuda_usable = false;
  std::string cuda_missing; ///< why CUDA can't be used, and what to do; empty when it can
  std::string cuda_runtime; ///< "13.0", empty without CUDA
  std::string cuda_driver;  ///< newest CUDA version the driver knows, empty without a driver
};

/// Devices that can be used now: CUDA devices first, then the host. Never throws for a missing driver. The
/// call uses no device, so it takes no device memory.
[[nodiscard]] std::vector<device_entry> devices();

/// A backend of the host's memory, for `context::create`: a context of one's own, beside the process's.
[[nodiscard]] std::shared_ptr<backend> host_backend();
/// The same for a GPU. Creates the primary context of the device if the process has none yet.
/// @throws error device if CUDA can't be used, or has no such device.
[[nodiscard]] std::shared_ptr<backend> cuda_backend(std::int32_t ordinal);

/// The driver's context (CUcontext) that a device's contexts work in, for libraries that take one; 0 on the
/// host.
/// @throws error device if the device does not exist here.
[[nodiscard]] std::uintptr_t driver_context(device_id device);

/// The properties that `devices()` has for one device. @throws error device if the device does not exist
/// here.
[[nodiscard]] device_properties describe_device(device_id device);

[[nodiscard]] runtime_report describe_runtime();

/// The device to use if none is named: the first CUDA device, else the host.
[[nodiscard]] device_id best_device();

/// Explicit options of a device's context. The environment (runtime/environment.hpp) gives the other values.
struct open_options {
  std::optional<std::uint64_t> budget{}; ///< bytes; of a context that exists, the new limit
  std::optional<std::string> stack{};    ///< in the syntax of parse_stack
  /// How long a request that does not fit waits for others to free memory.
  std::optional<std::chrono::milliseconds> wait{};
  /// Whether other processes can open memory of the device (stack_options::exportable_pool).
  std::optional<bool> exportable_pool{};
  resource_source slabs{}; ///< where the cache takes its memory from; null: the driver
};

/// The process's context of a device, created on first use.
/// @throws error invalid_argument if the context exists with another stack, wait or pool, if it exists and
///         `slabs` is given, or if more bytes than the budget are in use. Nothing has changed then.
[[nodiscard]] std::shared_ptr<context> open_context(device_id device, const open_options& options);
[[nodiscard]] std::shared_ptr<context> open_context(device_id device,
                                                    std::optional<std::uint64_t> budget = std::nullopt);

/// The process's context if it is open, else null.
[[nodiscard]] std::shared_ptr<context> find_context(device_id device);

/// The context to use in place of `of`. In a child of fork, the parent's host context is replaced by the
/// child's own. All other contexts are returned unchanged.
[[nodiscard]] std::shared_ptr<context> own_context(const std::shared_ptr<context>& of);

} // namespace saeta
