// What a layer above keeps with the contexts of a device, such as the staging ring of transfer/.
//
// Owner     The contexts of the device: made on first use (`context::service`), destroyed with them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saeta {

class context_service {
public:
  context_service() = default;
  context_service(const context_service&) = delete;
  context_service& operator=(const context_service&) = delete;
  virtual ~context_service() = default;

  /// Host memory that it has taken from the system, in use or kept for later; bytes.
  [[nodiscard]] virtual std::uint64_t host_bytes() const noexcept { return 0; }
  /// Gives host memory that it keeps for later back to the system; bytes.
  virtual std::size_t trim() noexcept { return 0; }
};

} // namespace saeta
