// DLPack's structs over our memory, in one allocation with the owner of the memory and a 1-D shape.
//
// Owner     The struct belongs to the consumer, whose call of the deleter ends the hold.
// Thread    The deleter may run on any thread.
#pragma once

#include "saeta/base/report.hpp"
#include "saeta/interop/dlpack/abi.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace saeta {

/// Keeps a copy that only the consumer has. It is not counted as an export. The consumer's work is unknown as
/// for an export, so the memory is released after all work of the device.
class copy_hold {
public:
  explicit copy_hold(std::shared_ptr<storage> bytes) : bytes_(std::move(bytes)) {
    if (bytes_) {
      bytes_->ordering().begin_export(access::write);
    }
  }
  copy_hold(copy_hold&& other) noexcept = default;
  copy_hold& operator=(copy_hold&&) = delete;
  [[nodiscard]] const std::shared_ptr<storage>& bytes() const noexcept { return bytes_; }
  ~copy_hold() {
    if (bytes_ && !bytes_->ctx()->inherited()) {
      bytes_->ordering().end_export(access::write);
    }
  }

private:
  std::shared_ptr<storage> bytes_;
};

/// The owner of a tensor's memory: none if there is no memory, an export, a copy, or plain host memory.
using tensor_owner = std::variant<std::monostate, export_hold, copy_hold, std::shared_ptr<void>>;

template <class Managed>
class exported_tensor {
public:
  /// @param shape, strides  of equal length; strides in values.
  exported_tensor(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                  tensor_owner owner)
      : owner_(std::move(owner)) {
    std::int64_t* places = one_.data();
    if (shape.size() > 1) {
      more_.resize(2 * shape.size());
      places = more_.data();
    }
    std::copy(shape.begin(), shape.end(), places);
    std::copy(strides.begin(), strides.end(), places + shape.size());
    tensor_.manager_ctx = this;
    tensor_.deleter = give_back;
    tensor_.dl_tensor.ndim = static_cast<std::int32_t>(shape.size());
    tensor_.dl_tensor.shape = places;
    tensor_.dl_tensor.strides = places + shape.size();
  }
  exported_tensor(const exported_tensor&) = delete;
  exported_tensor& operator=(const exported_tensor&) = delete;
  ~exported_tensor() = default;

  static void give_back(Managed* tensor) noexcept {
    delete static_cast<exported_tensor*>(tensor->manager_ctx);
  }

  void describe(void* data, tensor_device device, tensor_type type,
                [[maybe_unused]] std::uint64_t flags) noexcept {
    tensor_.dl_tensor.data = data;
    tensor_.dl_tensor.device = {static_cast<DLDeviceType>(device.type), device.ordinal};
    tensor_.dl_tensor.dtype = {type.code, type.bits, type.lanes};
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
      tensor_.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
      tensor_.flags = flags;
    }
  }
  [[nodiscard]] Managed* get() noexcept { return &tensor_; }
  /// The storage that the tensor shows, null if it is not ours; used by own_memory.hpp.
  [[nodiscard]] std::shared_ptr<storage> bytes() const {
    if (const auto* const view = std::get_if<export_hold>(&owner_)) {
      return view->first();
    }
    const auto* const copy = std::get_if<copy_hold>(&owner_);
    return copy != nullptr ? copy->bytes() : nullptr;
  }

private:
  Managed tensor_{};
  std::array<std::int64_t, 2> one_{}; ///< shape and stride of one dimension
  std::vector<std::int64_t> more_;    ///< shape, then strides, of two or more dimensions
  tensor_owner owner_;
};

} // namespace saeta
