#include "saeta/resource/decorators/logging_resource.hpp"

namespace saeta {
namespace {

log_record describe(memory_event kind, const block& of, std::uint64_t stream_id, std::uint64_t root_limit) {
  log_record record;
  record.event = kind;
  record.device = of.device;
  record.stream = stream_id;
  record.bytes = of.bytes;
  record.address = reinterpret_cast<std::uintptr_t>(of.pointer);
  record.generation = of.generation;
  record.label = of.label;
  record.account = of.charged != nullptr ? tag(of.charged->name()) : tag();
  record.limit = of.charged != nullptr ? of.charged->limit() : root_limit;
  record.outcome = "ok";
  return record;
}

/// Sets the outcome from the exception that is being handled.
void set_failure(log_record& record) {
  try {
    throw;
  } catch (const error& failure) {
    record.outcome = failure.message();
    if (const budget_refusal* const refusal = failure.refusal()) {
      record.event = memory_event::refuse;
      record.account = refusal->layer;
      record.limit = refusal->limit;
    }
  } catch (const std::exception& failure) {
    record.outcome = failure.what();
  } catch (...) {
    record.outcome = "unknown exception";
  }
}

} // namespace

void logging_resource::note_levels(log_record& record) const {
  record.reserved = limit_ ? limit_->statistics().reserved : 0;
  record.held = upstream().held_bytes();
}

std::uint64_t logging_resource::root_limit() const noexcept { return limit_ ? limit_->limit() : 0; }

block logging_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  return log_->active() ? allocate_logged(request, stream) : upstream().allocate(request, stream);
}

block logging_resource::allocate_logged(const allocation_request& request, const stream_ref& stream) {
  block block;
  try {
    block = upstream().allocate(request, stream);
  } catch (...) {
    record_failure(request, stream);
    throw;
  }
  log_->write_if_active([&] {
    log_record record = describe(memory_event::allocate, block, stream.id(), root_limit());
    note_levels(record);
    return record;
  });
  return block;
}

void logging_resource::record_failure(const allocation_request& request, const stream_ref& stream) noexcept {
  log_->write_if_active([&] {
    log_record record;
    record.event = memory_event::fail;
    record.device = stream.owner().device();
    record.stream = stream.id();
    record.bytes = request.bytes;
    record.label = request.label;
    record.limit = root_limit();
    set_failure(record);
    note_levels(record);
    return record;
  });
}

bool logging_resource::do_deallocate(const block& returned, std::span<const point> after) noexcept {
  return log_->active() ? deallocate_logged(returned, after) : upstream().deallocate(returned, after);
}

bool logging_resource::deallocate_logged(const block& returned, std::span<const point> after) noexcept {
  log_record record;
  bool described = false;
  try { // before the free: the charged budget may be destroyed with its last charge
    const std::uint64_t last = after.empty() ? 0 : stream_id_of(after.front().timeline);
    record = describe(memory_event::free, returned, last != 0 ? last : returned.stream_id, root_limit());
    described = true;
  } catch (...) {
    log_->drop();
  }
  const bool freed = upstream().deallocate(returned, after);
  if (!described) {
    return freed;
  }
  log_->write_if_active([&] {
    if (!freed) {
      record.event = memory_event::free_failed;
      record.outcome = "the block could not be freed";
    }
    note_levels(record);
    return std::move(record);
  });
  return freed;
}

std::size_t logging_resource::trim() {
  const std::size_t trimmed = upstream().trim();
  if (trimmed != 0) {
    log_->write_if_active([&] {
      log_record record;
      record.event = memory_event::trim;
      record.device = device_;
      record.bytes = trimmed;
      record.limit = root_limit();
      record.outcome = "ok";
      note_levels(record);
      return record;
    });
  }
  return trimmed;
}

} // namespace saeta
