// Decorator: tells an event log of every allocation, free, refusal and failure that passes.
//
// Order     An allocation is recorded before its caller has the block, a free after the block has gone: another thread
//           may have its address again before that record, but never its generation.
// Cost      One load while nobody listens to the log.
// Failure   A record that can't be made fails nothing and counts as dropped.
#pragma once

#include "saeta/budget/budget.hpp"
#include "saeta/observe/event_log.hpp"
#include "saeta/resource/resource.hpp"

namespace saeta {

class logging_resource final : public decorator {
public:
  /// @param limit   budget whose limit records carry when they name no other; may be null.
  /// @param device  named by records of `trim`, which knows no stream.
  logging_resource(std::shared_ptr<resource> upstream, std::shared_ptr<event_log> log,
                   std::shared_ptr<budget> limit = {}, device_id device = {})
      : decorator(std::move(upstream)), log_(std::move(log)), limit_(std::move(limit)), device_(device) {}

  /// Records the bytes that went back, if any did.
  std::size_t trim() override;

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& returned, std::span<const point> after) noexcept override;
  block allocate_logged(const allocation_request& request, const stream_ref& stream);
  bool deallocate_logged(const block& returned, std::span<const point> after) noexcept;
  void record_failure(const allocation_request& request, const stream_ref& stream) noexcept;
  /// The levels of the whole device now.
  void note_levels(log_record& record) const;
  [[nodiscard]] std::uint64_t root_limit() const noexcept;

  std::shared_ptr<event_log> log_;
  std::shared_ptr<budget> limit_;
  device_id device_;
};

} // namespace saeta
