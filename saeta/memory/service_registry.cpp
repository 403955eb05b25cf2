#include "saeta/memory/service_registry.hpp"

namespace saeta {

context_service&
service_registry::find_or_make(std::type_index kind,
                               const std::function<std::unique_ptr<context_service>()>& make) {
  const std::lock_guard lock(mutex_);
  auto& kept = services_[kind];
  if (!kept) {
    kept = make();
  }
  return *kept;
}

std::uint64_t service_registry::host_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [kind, each] : services_) {
    sum += each == nullptr ? 0 : each->host_bytes();
  }
  return sum;
}

std::uint64_t service_registry::trim() {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [kind, each] : services_) {
    sum += each == nullptr ? 0 : each->trim();
  }
  return sum;
}

} // namespace saeta
