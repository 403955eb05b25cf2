// Joins arrays in host memory: the parts of a dictionary that comes in parts.
//
// What      The rows of all parts as one array in new memory. Bytes of views are shared, not copied.
// Failure   overflow: 32-bit offsets or run ends can't count the rows; unsupported: lists that don't begin
//           with their first value; budget_exceeded, out_of_memory.
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <memory>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

/// @param parts   at least one, of one type, checked with all of their values, each with offset 0. The own
///                dictionary of a part begins with those of the parts before it.
/// @param owners  keep the memory of the parts; those of new memory are added.
host_array join_arrays(const std::shared_ptr<context>& ctx, std::span<const host_array* const> parts,
                       std::vector<std::shared_ptr<void>>& owners);

} // namespace saeta::ipc::detail
