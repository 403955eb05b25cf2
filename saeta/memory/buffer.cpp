#include "saeta/memory/buffer.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/context_core.hpp"

namespace saeta {

namespace {

/// The kind that the lender names, or else the driver. Memory of 0 bytes has the device's own kind.
memory_kind kind_of(const external_memory& memory, const context& ctx) {
  if (memory.kind) {
    return *memory.kind;
  }
  return memory.pointer == nullptr ? own_kind(ctx.device()) : ctx.device_backend()->kind_of(memory.pointer);
}

/// Logs the beginning or end of a view of external memory, which no resource logs.
void log_view(event_log& log, memory_event kind, const block& of) noexcept {
  log.write_if_active([&] {
    log_record record;
    record.event = kind;
    record.device = of.device;
    record.bytes = of.bytes;
    record.address = reinterpret_cast<std::uintptr_t>(of.pointer);
    record.generation = of.generation;
    record.label = of.label;
    record.outcome = "ok";
    return record;
  });
}

} // namespace

template <class Make>
storage::storage(const std::shared_ptr<context>& ctx, Make make)
    : context_(context::kept_by_storage(ctx)), block_(make()) {}

// Both constructors delegate to another one: once the object owns the block, a later failure frees it through
// the destructor.
storage::storage(key /*own*/, const std::shared_ptr<context>& ctx, std::size_t bytes,
                 const stream_ref& stream, saeta::tag label, std::size_t alignment, memory_kind kind)
    : storage(ctx, [&] {
        return ctx->allocate_block(ctx->source_of(kind, label.name()), bytes, alignment, label, stream);
      }) {
  const context::memory_source source = ctx->source_of(kind, label.name());
  from_ = source.from;
  ordering_.start_after(block_.ready);
  entry_ = ctx->core_->holders->add(owner_kind::own, label, bytes, source.charged);
}

storage::storage(key /*own*/, const std::shared_ptr<context>& ctx, std::size_t bytes,
                 const stream_ref& stream, saeta::tag label)
    : storage(ctx, [&] { return ctx->allocate_block(ctx->shareable_source(), bytes, 0, label, stream); }) {
  const context::memory_source source = ctx->shareable_source();
  from_ = source.from;
  ordering_.start_after(block_.ready);
  entry_ = ctx->core_->holders->add(owner_kind::own, label, bytes, source.charged);
}

storage::storage(key /*own*/, const std::shared_ptr<context>& ctx, external_memory& memory)
    : storage(ctx, [&] {
        block foreign;
        foreign.pointer = memory.pointer;
        foreign.bytes = memory.bytes;
        foreign.device = memory.device;
        foreign.kind = kind_of(memory, *ctx);
        // The end of the view does not wait for this point. A point of an open epoch is left out: our work
        // may still join that epoch.
        foreign.ready =
            memory.owner_orders_own_work && has_epoch_ended(memory.ready) ? memory.ready : point();
        foreign.generation = next_generation();
        foreign.label = memory.tag;
        return foreign;
      }) {
  external_ = true;
  access_ = memory.access;
  ordering_.start_after(memory.ready);
  immutable_ = !writable() && memory.ready.empty() && ctx->on_host() && kind() == memory_kind::host;
  entry_ = ctx->core_->holders->add(owner_kind::external, block_.label, memory.bytes, nullptr);
  keepalive_ = std::move(memory.keepalive);
  log_view(*ctx->core_->log, memory_event::adopt, block_);
}

std::shared_ptr<storage> storage::allocate(const std::shared_ptr<context>& ctx, std::size_t bytes,
                                           const stream_ref& stream, saeta::tag label, std::size_t alignment,
                                           memory_kind kind) {
  require_argument(ctx, "ctx");
  return make_in_own_process<storage>(key{}, ctx, bytes, stream, label, alignment, kind);
}

std::shared_ptr<storage> storage::allocate_shareable(const std::shared_ptr<context>& ctx, std::size_t bytes,
                                                     const stream_ref& stream, saeta::tag label) {
  require_argument(ctx, "ctx");
  return make_in_own_process<storage>(key{}, ctx, bytes, stream, label);
}

std::shared_ptr<storage> storage::adopt(const std::shared_ptr<context>& ctx, external_memory memory) {
  require_argument(ctx, "ctx");
  ctx->require_open();
  if (memory.pointer == nullptr && memory.bytes != 0) {
    throw error(errc::invalid_argument,
                concat("external memory '", memory.tag, "' of ", memory.bytes, " bytes is null"));
  }
  return make_in_own_process<storage>(key{}, ctx, memory);
}

storage::~storage() {
  requirement& after = ordering_.take_all();
  const bool nothing = !external_ && block_.generation == 0;
  const bool freed = !nothing && !external_ && context_->core_->free_in_order(*from_, block_, after);
  ledger::remove(entry_);
  if (nothing || freed) {
    return;
  }
  if (external_ && !context_->inherited()) {
    log_view(*context_->core_->log, memory_event::release, block_);
  }
  try {
    if (!external_) {
      context_->release_later(*from_, block_, std::move(after));
    } else if (keepalive_.use_count() != 0) { // the keepalive may be a deleter without a pointer
      after.points.remove_if([&](const point& point) { return point == block_.ready; });
      context_->core_->releases->submit({.after = std::move(after),
                                         .action =
                                             [kept = std::move(keepalive_), self = context_]() mutable {
                                               kept.reset();
                                               return true;
                                             },
                                         .label = "external:" + tag(),
                                         .bytes = block_.bytes});
    }
  } catch (...) {
    with_report_text(report_current_exception, "a storage could not be released", "storage '", tag(),
                     "' could not be released");
  }
}

backend& storage::home() const { return context_->core_->device_of(from_); }

extent storage::full_extent() const noexcept {
  return from_ == nullptr ? extent{block_.pointer, block_.bytes, 0} : from_->extent_of(block_);
}

std::shared_ptr<storage> allocate_ready(const std::shared_ptr<context>& ctx, std::size_t bytes, tag label,
                                        std::size_t alignment) {
  std::shared_ptr<storage> result = storage::allocate(ctx, bytes, ctx->work_stream(), label, alignment);
  ctx->synchronize(result->ordering().find_dependencies(access::write, label.name()).points);
  return result;
}

buffer buffer::slice(std::size_t offset, std::size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    throw error(errc::out_of_range,
                concat("slice of ", bytes, " bytes at ", offset, " exceeds a buffer of ", size_, " bytes"));
  }
  buffer part = *this;
  part.offset_ += offset;
  part.size_ = bytes;
  return part;
}

} // namespace saeta
