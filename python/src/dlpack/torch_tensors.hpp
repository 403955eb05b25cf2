// What an import of a tensor of torch has to heed beside DLPack.
#pragma once

#include "python/src/core/module.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"

#include <functional>

namespace saeta::py {

bool is_torch_tensor(nb::handle source);

/// Refuses tensors with properties that no other library sees. The C functions of torch don't check them.
/// @throws error exchange.
void require_plain_values(nb::handle source);

/// Calls `ask` while the device is torch's current device. torch exports no other CUDA tensors by
/// `__dlpack__`.
nb::object on_torch_device(tensor_device device, const std::function<nb::object()>& ask);

} // namespace saeta::py
