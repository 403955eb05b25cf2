#include "saeta/memory/storage.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/detail/context_core.hpp"

#include <utility>

namespace saeta {

storage::storage(std::shared_ptr<context> where, block bytes) : context_(std::move(where)), block_(bytes) {}

std::shared_ptr<storage> storage::allocate(const std::shared_ptr<context>& where, std::size_t bytes,
                                           stream_ref stream, saeta::tag label, std::size_t alignment) {
  context& home = *where;
  // The object comes first: once it owns the block, every later failure gives the block back through its destructor.
  std::shared_ptr<storage> made(new storage(home.keeper(), block{}), delete_in_own_process{});
  made->block_ = home.allocate(bytes, alignment, label, stream);
  try {
    made->ordering_.add_write(home.events().record(stream));
  } catch (...) {
    // Without a fence only the stream itself knows when the block has begun to live, so it goes back on it.
    home.core_->free_now(std::exchange(made->block_, block{}), stream);
    throw;
  }
  home.core_->holders.add(made.get(), owner_kind::own, label, bytes, home.budget_.get());
  return made;
}

std::shared_ptr<storage> storage::adopt(const std::shared_ptr<context>& where, external_memory memory) {
  context& home = *where;
  home.require_open();
  if (memory.pointer == nullptr && memory.bytes != 0) {
    throw error(errc::invalid_argument,
                concat("external memory '", memory.tag, "' of ", memory.bytes, " bytes is null"));
  }
  block foreign;
  foreign.pointer = memory.pointer;
  foreign.bytes = memory.bytes;
  foreign.device = memory.device;
  foreign.generation = next_generation();
  foreign.label = memory.tag;
  std::shared_ptr<storage> made(new storage(home.keeper(), foreign), delete_in_own_process{});
  made->external_ = true;
  made->access_ = memory.access;
  made->ordering_.add_write(memory.ready);
  home.core_->holders.add(made.get(), owner_kind::external, foreign.label, memory.bytes, nullptr);
  home.count().imports.fetch_add(1);
  made->keepalive_ = std::move(memory.keepalive);
  return made;
}

storage::~storage() {
  context& home = *context_;
  home.core_->holders.remove(this);
  if (external_ ? keepalive_ == nullptr : block_.generation == 0) {
    return;
  }
  try {
    pending_release how;
    how.after = ordering_.pending(access::write);
    how.needs_context_fence = unfenced_export_.load();
    if (external_) {
      // The context must outlive the release: the fences are its events.
      how.action = [kept = std::move(keepalive_), self = context_]() mutable { kept.reset(); };
      home.core_->releases->submit(std::move(how));
    } else {
      home.release(block_, std::move(how), context_);
    }
  } catch (...) {
    report_current_exception("storage '" + tag() + "' could not be released");
  }
}

void storage::begin_export(access mode) noexcept {
  (mode == access::read ? reading_exports_ : writing_exports_).fetch_add(1);
}

void storage::end_export(access mode, const std::optional<fence>& done) noexcept {
  if (context_->inherited()) {
    return; // nothing in this process waits for the parent's buffers
  }
  try {
    if (done) {
      mode == access::read ? ordering_.add_read(*done) : ordering_.add_write(*done);
    } else {
      unfenced_export_ = true;
    }
  } catch (...) {
    report_current_exception("storage::end_export");
    unfenced_export_ = true;
  }
  (mode == access::read ? reading_exports_ : writing_exports_).fetch_sub(1);
}

void storage::wait_for_consumers(access mode, stream_ref stream) {
  const bool conflict = writing_exports_.load() > 0 || (mode != access::read && reading_exports_.load() > 0);
  if (!conflict && !unfenced_export_.load()) {
    return;
  }
  const std::optional<fence> all = context_->events().record_context();
  if (!all) {
    throw error(errc::busy,
                concat("buffer '", tag(), "' has foreign users that can't be fenced while a stream of ",
                       to_string(context_->device()), " captures a graph"));
  }
  all->wait(stream);
}

} // namespace saeta
