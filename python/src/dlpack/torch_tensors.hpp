// What an import of a tensor of torch has to heed beside DLPack.
#pragma once

#include "python/src/core/module.hpp"
#include "saeta/interop/dlpack/abi.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"

#include <functional>

namespace saeta::py {

bool is_torch_tensor(nb::handle source);
/// The same of an object whose type has these C functions, which all tensors of torch share.
bool is_torch_table(nb::handle source, const DLPackExchangeAPI& table);

/// Checks the properties of a tensor that no other library sees, which the C functions of torch don't: that it
/// requires no gradient and, with its DLPack form, that its values are not to be negated.
/// @throws error exchange.
void require_no_gradient(nb::handle source);
void require_values_as_they_are(nb::handle source, const DLTensor& exported);

/// Calls `ask` while the device is torch's current device. torch exports no other CUDA tensors by
/// `__dlpack__`.
nb::object on_torch_device(tensor_device device, const std::function<nb::object()>& ask);

} // namespace saeta::py
