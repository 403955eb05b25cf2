// Services that upper layers keep with the contexts of a device, such as the staging ring.
//
// Owner     The contexts of the device share one registry (`context::services`). A service is made on first
//           use and destroyed with the contexts, so it must not own a context.
// Thread    Any. `make` is called under the registry's lock.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <typeindex>

namespace saeta {

class context_service {
public:
  context_service() = default;
  context_service(const context_service&) = delete;
  context_service& operator=(const context_service&) = delete;
  virtual ~context_service() = default;

  /// Bytes of host memory that it has taken from the system, in use or kept for later.
  [[nodiscard]] virtual std::uint64_t host_bytes() const noexcept { return 0; }
  /// Returns host memory that it keeps for later to the system; returns the number of bytes.
  virtual std::size_t trim() noexcept { return 0; }
};

class service_registry {
public:
  /// Returns the device's `Service`. @param make  returns a std::unique_ptr of it; called on first use.
  template <std::derived_from<context_service> Service, class Make>
  [[nodiscard]] Service& of(Make make) {
    return static_cast<Service&>(find_or_make(typeid(Service), make));
  }

  [[nodiscard]] std::uint64_t host_bytes() const;
  std::uint64_t trim();
  /// Destroys all services.
  void clear() { services_.clear(); }

private:
  context_service& find_or_make(std::type_index kind,
                                const std::function<std::unique_ptr<context_service>()>& make);

  mutable std::mutex mutex_;
  std::map<std::type_index, std::unique_ptr<context_service>> services_;
};

} // namespace saeta
