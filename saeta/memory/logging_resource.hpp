// Decorator: tells an event log of every allocation, free, refusal and failure that passes.
//
// Costs one load while nobody listens to the log. A record that can't be made fails nothing.
#pragma once

#include "saeta/memory/budget.hpp"
#include "saeta/memory/event_log.hpp"
#include "saeta/memory/resource.hpp"

namespace saeta {

class logging_resource final : public decorator {
public:
  /// @param limit  budget whose limit records carry when they name no other; may be null.
  logging_resource(std::shared_ptr<resource> upstream, std::shared_ptr<event_log> log,
                   std::shared_ptr<budget> limit = {})
      : decorator(std::move(upstream)), log_(std::move(log)), limit_(std::move(limit)) {}

  /// Records the bytes that went back.
  std::size_t trim() override;

private:
  block do_allocate(const allocation_request& what, stream_ref stream) override;
  bool do_deallocate(const block& what, stream_ref stream) noexcept override;

  std::shared_ptr<event_log> log_;
  std::shared_ptr<budget> limit_;
};

} // namespace saeta
