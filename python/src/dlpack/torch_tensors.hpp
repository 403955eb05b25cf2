// What an import of a tensor of torch has to heed beside DLPack.
#pragma once

#include "python/src/core/module.hpp"
#include "python/src/dlpack/exchange_api.hpp"
#include "saeta/interop/dlpack/abi.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"

#include <functional>

namespace saeta::py {

bool is_torch_tensor(nb::handle source);

/// An object that was given, and what its type says of the tensors that it exports.
struct producer {
  explicit producer(nb::handle given);

  nb::handle object;
  const DLPackExchangeAPI* table; ///< its C functions; null if there are none
  bool is_ours;
  bool is_of_torch; ///< and has a table
};

/// Checks the properties of a tensor that no other library sees, which the C functions of torch don't: that it
/// requires no gradient and, with its DLPack form, that its values are not to be negated.
/// @throws error exchange.
void require_no_gradient(nb::handle source);
void require_values_as_they_are(nb::handle source, const DLTensor& exported);

/// Calls `ask` while the device is torch's current device. torch exports no other CUDA tensors by
/// `__dlpack__`.
nb::object on_torch_device(tensor_device device, const std::function<nb::object()>& ask);

} // namespace saeta::py
