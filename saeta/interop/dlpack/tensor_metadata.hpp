// The metadata of the canonical extension `arrow.fixed_shape_tensor`: JSON with the shape of each row's tensor.
//
// Failure   error format naming what is wrong; keys that are not known are skipped.
// Standard  arrow.apache.org/docs/format/CanonicalExtensions.html#fixed-shape-tensor
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saeta {

inline constexpr std::string_view fixed_shape_tensor = "arrow.fixed_shape_tensor";

struct tensor_metadata {
  std::vector<std::int64_t> shape; ///< as the values lie, the last dimension densest
  /// Dimension i of the tensor is dimension permutation[i] of `shape`; always as long as it.
  std::vector<std::int64_t> permutation;
};

/// @throws error format for text that is not such metadata, negative extents, and a permutation that is none.
tensor_metadata parse_tensor_metadata(std::string_view json);

/// Without a permutation.
std::string tensor_metadata_text(std::span<const std::int64_t> shape);

} // namespace saeta
