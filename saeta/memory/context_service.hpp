// What a layer above keeps with the contexts of a device, such as the staging ring of transfer/.
//
// Owner     The contexts of the device: made on first use (`context::service`), destroyed with them.
#pragma once

namespace saeta {

class context_service {
public:
  context_service() = default;
  context_service(const context_service&) = delete;
  context_service& operator=(const context_service&) = delete;
  virtual ~context_service() = default;
};

} // namespace saeta
