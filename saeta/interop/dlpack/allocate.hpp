// Allocates memory of a context as a new tensor, for consumers that ask a producer's library for one.
//
// Owner     The tensor belongs to the caller, who calls its deleter once, on any thread. Until then its
//           memory is charged to the budget. The memory is released after all device work that was queued by
//           then.
// Order     The memory is ready on the context's work stream.
// Standard  DLPackManagedTensorAllocator of DLPack 1.3.
#pragma once

#include "saeta/interop/dlpack/types.hpp"
#include "saeta/memory/context.hpp"

#include <cstdint>
#include <memory>
#include <span>

extern "C" {
struct DLManagedTensorVersioned;
}

namespace saeta {

/// Allocates a contiguous row-major tensor of any type. Its values are undefined.
/// @throws error format (a negative extent), overflow, budget_exceeded, out_of_memory, closed.
DLManagedTensorVersioned* allocate_dlpack(const std::shared_ptr<context>& ctx, tensor_type type,
                                          std::span<const std::int64_t> shape);

} // namespace saeta
