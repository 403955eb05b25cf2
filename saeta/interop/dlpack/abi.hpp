// The structs of DLPack, in the header that the standard publishes.
//
// What      dlpack.h, which is installed with Saeta. Its include guard is the standard's own, so it can be
//           included together with the copy of another library, in any order: the first one is taken.
// Owner     Who holds a DLManagedTensor or a DLManagedTensorVersioned calls its deleter once.
// Standard  dmlc.github.io/dlpack
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/interop/dlpack/dlpack.h"

#include <cstddef>

#if DLPACK_MAJOR_VERSION < 1
#error "a dlpack.h older than 1.0 was included first: it lacks DLManagedTensorVersioned"
#endif

namespace SAETA_EXPORT saeta {

static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, deleter) == 56);
static_assert(sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

} // namespace saeta
