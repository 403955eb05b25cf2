#include "saeta/ipc/codec/packed_memory.hpp"

#include "saeta/base/text.hpp"

#include <cstdlib>
#include <utility>

namespace saeta::ipc::detail {

packed_memory::packed_memory(std::shared_ptr<budget> charged, std::size_t bytes)
    : charged_(std::move(charged)), bytes_(bytes) {
  if (auto refused = charged_->charge_or_refuse(bytes)) {
    throw error(*std::move(refused));
  }
  at_ = static_cast<std::byte*>(std::malloc(bytes));
  if (at_ == nullptr) {
    charged_->refund(bytes);
    throw error(errc::out_of_memory, concat("no host memory for ", bytes, " compressed bytes"));
  }
}

packed_memory::~packed_memory() {
  std::free(at_);
  charged_->refund(bytes_);
}

void packed_memory::shrink(std::size_t bytes) noexcept {
  if (void* const kept = std::realloc(at_, bytes)) { // else it stays as large as it is
    at_ = static_cast<std::byte*>(kept);
    charged_->refund(std::exchange(bytes_, bytes) - bytes);
  }
}

} // namespace saeta::ipc::detail
