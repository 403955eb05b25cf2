// The metadata of the canonical extension `arrow.fixed_shape_tensor`: JSON with the shape of a row's tensor.
//
// Failure   error format (names what is wrong). Unknown keys are skipped.
// Standard  arrow.apache.org/docs/format/CanonicalExtensions.html#fixed-shape-tensor
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace saeta {

inline constexpr std::string_view fixed_shape_tensor = "arrow.fixed_shape_tensor";

struct tensor_metadata {
  std::vector<std::int64_t> shape; ///< in memory order: the last dimension varies fastest
  /// Dimension i of the tensor is dimension permutation[i] of `shape`. Always as long as `shape`.
  std::vector<std::int64_t> permutation;
};

/// @throws error format for text that is not such metadata, negative extents, and an invalid permutation.
tensor_metadata parse_tensor_metadata(std::string_view json);

} // namespace saeta
