// Decorator: records every allocation, free, refusal and failure in an event log.
//
// @code
// const auto log = std::make_shared<event_log>();
// log->attach(make_csv_sink("memory.csv"));
// const auto logged = std::make_shared<logging_resource>(upstream, log);
// const block memory = logged->allocate(4096, 0, stream); // one line
// const bool freed = logged->deallocate(memory, stream);  // and another
// @endcode
//
// Order     An allocation is recorded before its caller gets the block, a free after the block was freed. So
//           another thread may get the same address before the free is recorded, but never the same
//           generation.
// Cost      One load while the log has no sink.
// Failure   If a record can't be made, the call still succeeds, and the record counts as dropped.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/budget/budget.hpp"
#include "saeta/observe/event_log.hpp"
#include "saeta/resource/resource.hpp"

namespace SAETA_EXPORT saeta {

class logging_resource final : public decorator {
public:
  /// @param limit   budget whose limit is recorded when the record names no other budget; may be null.
  /// @param device  device of `trim` records, which have no stream.
  logging_resource(std::shared_ptr<resource> upstream, std::shared_ptr<event_log> log,
                   std::shared_ptr<budget> limit = {}, device_id device = {})
      : decorator(std::move(upstream)), log_(std::move(log)), limit_(std::move(limit)), device_(device) {}

  /// Records the bytes returned to the device, if there are any.
  std::size_t trim() override;

private:
  block do_allocate(const allocation_request& request, const stream_ref& stream) override;
  bool do_deallocate(const block& returned, std::span<const point> after) noexcept override;
  block allocate_logged(const allocation_request& request, const stream_ref& stream);
  bool deallocate_logged(const block& returned, std::span<const point> after) noexcept;
  void record_failure(const allocation_request& request, const stream_ref& stream) noexcept;
  /// Sets the current levels of the whole device.
  void note_levels(log_record& record) const;
  [[nodiscard]] std::uint64_t root_limit() const noexcept;

  std::shared_ptr<event_log> log_;
  std::shared_ptr<budget> limit_;
  device_id device_;
};

} // namespace saeta
