// DLPack producer and consumer for tests. The producer counts the calls of its deleter.
#pragma once

#include "saeta/interop/dlpack/dlpack.hpp"

#include <dlpack/dlpack.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace saeta::support {

constexpr DLDataType dtype(std::uint8_t code, std::uint8_t bits, std::uint16_t lanes = 1) {
  return {code, bits, lanes};
}

/// A producer's valid 1-D tensor, of which tests break single fields. It must outlive every import of it.
template <class Managed>
class lent_tensor {
public:
  lent_tensor(void* data, std::int64_t length, DLDataType type, DLDevice device = {kDLCPU, 0})
      : shape_(length) {
    managed_.manager_ctx = this;
    managed_.deleter = [](Managed* self) {
      static_cast<lent_tensor*>(self->manager_ctx)->deleted_.fetch_add(1);
    };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
      managed_.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    }
    managed_.dl_tensor = {data, device, 1, type, &shape_, &stride_, 0};
  }
  lent_tensor(const lent_tensor&) = delete;
  lent_tensor& operator=(const lent_tensor&) = delete;

  ~lent_tensor() { static_cast<void>(handed_.release()); }

  /// For an import, which takes it on success.
  [[nodiscard]] std::unique_ptr<Managed, dlpack_deleter>&& get() noexcept {
    static_cast<void>(handed_.release());
    handed_.reset(&managed_);
    return std::move(handed_);
  }
  [[nodiscard]] DLTensor& tensor() noexcept { return managed_.dl_tensor; }
  /// Calls the deleter, as a consumer does whose import failed.
  void give_back() { managed_.deleter(&managed_); }
  [[nodiscard]] int deleted() const noexcept { return deleted_.load(); }

private:
  Managed managed_{};
  std::int64_t shape_;
  std::int64_t stride_ = 1;
  std::atomic<int> deleted_{0};
  std::unique_ptr<Managed, dlpack_deleter> handed_;
};

/// A tensor owned by its consumer; the destructor calls its deleter.
template <class Managed>
using held_tensor = std::unique_ptr<Managed, dlpack_deleter>;

inline dlpack_export export_on(std::int64_t stream) {
  return {stream, std::nullopt, copy_policy::when_needed};
}
inline dlpack_export export_to(tensor_device target) {
  return {std::nullopt, target, copy_policy::when_needed};
}
inline dlpack_export export_with(copy_policy copy) { return {std::nullopt, std::nullopt, copy}; }
inline dlpack_import import_after(std::int64_t ready) { return {ready, copy_policy::when_needed}; }
inline dlpack_import import_with(copy_policy copy) { return {std::nullopt, copy}; }

} // namespace saeta::support
