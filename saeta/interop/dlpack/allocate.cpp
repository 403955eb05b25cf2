#include "saeta/interop/dlpack/allocate.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/interop/dlpack/managed_tensor.hpp"
#include "saeta/interop/dlpack/tensor_numbers.hpp"

namespace saeta {

DLManagedTensorVersioned* allocate_dlpack(const std::shared_ptr<context>& ctx, tensor_type type,
                                          std::span<const std::int64_t> shape) {
  require_argument(ctx, "ctx");
  std::uint64_t bytes = (std::uint64_t{type.bits} * type.lanes + 7) / 8;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw error(errc::format, concat("dlpack: shape of the prototype has a dimension of ", extent));
    }
    bytes = checked_mul(bytes, static_cast<std::uint64_t>(extent), "bytes of a tensor");
  }
  const buffer values = buffer::allocate(ctx, bytes, ctx->work_stream(), "dlpack allocation");
  tensor_owner owner(std::in_place_type<copy_hold>, values.owner());
  auto made = std::make_unique<exported_tensor<DLManagedTensorVersioned>>(
      shape, dense_strides({shape.begin(), shape.end()}, tensor_order::row), std::move(owner));
  made->describe(reinterpret_cast<void*>(bytes == 0 ? 0 : values.address()),
                 to_tensor_device(ctx->device(), values.kind()), type, 0);
  return made.release()->get();
}

} // namespace saeta
