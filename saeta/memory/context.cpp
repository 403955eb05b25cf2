#include "saeta/memory/context.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

namespace saeta {

stream_lease::~stream_lease() {
  if (stream_.empty()) {
    return;
  }
  const std::lock_guard lock(where_->streams_mutex_);
  --where_->lent_streams_;
  try {
    where_->idle_streams_.push_back(std::move(stream_));
  } catch (...) {
    report_current_exception("stream_lease"); // the stream is destroyed; its work still finishes
  }
}

std::shared_ptr<context> context::create(std::shared_ptr<backend> device, context_options options) {
  return std::shared_ptr<context>(new context(std::move(device), options));
}

context::context(std::shared_ptr<backend> device, context_options options)
    : options_(options), backend_(std::move(device)), events_(std::make_shared<event_pool>(backend_)),
      budget_(std::make_shared<budget>(to_string(backend_->device()), options.budget)),
      pinned_(std::make_shared<pinned_resource>(backend_)) {
  std::shared_ptr<resource> driver;
  if (options.resource == resource_kind::direct) {
    driver = std::make_shared<direct_resource>(backend_);
  } else {
    driver = std::make_shared<async_resource>(backend_);
  }
  memory_ = std::make_shared<budget_resource>(std::move(driver), budget_,
                                              [this](std::size_t attempt) { return relieve(attempt); });
  work_stream_.emplace(backend_);
  release_stream_.emplace(backend_);
  reaper_ = std::make_unique<reaper>(events_);
}

context::~context() = default;

memory_statistics context::statistics() const {
  memory_statistics now;
  now.budget = budget_->statistics();
  now.ledger = ledger_.totals();
  now.pinned = pinned_->held_bytes();
  now.pending_releases = reaper_->pending();
  return now;
}

stream_lease context::borrow_stream() {
  require_open();
  const std::lock_guard lock(streams_mutex_);
  if (lent_streams_ >= options_.max_streams) {
    throw error(errc::busy,
                concat("all ", options_.max_streams, " streams of ", to_string(device()), " are borrowed"));
  }
  stream lent = [&] {
    if (idle_streams_.empty()) {
      return stream(backend_);
    }
    stream reused = std::move(idle_streams_.back());
    idle_streams_.pop_back();
    return reused;
  }();
  ++lent_streams_;
  return {shared_from_this(), std::move(lent)};
}

void context::copy(void* target, const void* source, std::size_t bytes, copy_kind kind, stream_ref stream) {
  if (bytes == 0) {
    return;
  }
  backend_->copy(target, source, bytes, kind, stream.native_handle());
  counter_of(kind).add_call(bytes);
}

void context::count_transfer(copy_kind kind) noexcept { counter_of(kind).add_transfer(); }

void context::fill(void* target, std::uint8_t value, std::size_t bytes, stream_ref stream) {
  if (bytes != 0) {
    backend_->fill(target, value, bytes, stream.native_handle());
  }
}

void context::read_scalar(void* target, const void* source, std::size_t bytes, stream_ref stream) {
  constexpr std::size_t largest = 16;
  if (bytes > largest) {
    throw error(errc::invalid_argument, concat("a scalar read of ", bytes, " bytes; at most ", largest));
  }
  backend_->copy(target, source, bytes, on_host() ? copy_kind::host_to_host : copy_kind::device_to_host,
                 stream.native_handle());
  counters_.scalars.add_transfer();
  counters_.scalars.add_call(bytes);
  synchronize(stream);
}

void context::synchronize(const fence& done) {
  if (!done.empty()) {
    counters_.synchronizations.fetch_add(1);
    done.synchronize();
  }
}

void context::synchronize(stream_ref stream) {
  if (on_host()) {
    return; // everything ran inline
  }
  counters_.synchronizations.fetch_add(1);
  backend_->synchronize_stream(stream.native_handle());
}

void* context::attachment(const void* key, const std::function<std::shared_ptr<void>()>& make) {
  const std::lock_guard lock(attachments_mutex_);
  auto& kept = attachments_[key];
  if (!kept) {
    kept = make();
  }
  return kept.get();
}

std::size_t context::trim() {
  reaper_->drain();
  return memory_->trim() + pinned_->trim();
}

std::vector<std::pair<std::string, std::uint64_t>> context::close() {
  closed_ = true;
  reaper_->drain();
  return ledger_.by_tag();
}

block context::allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) {
  require_open();
  try {
    block made = [&] {
      try {
        return memory_->allocate(bytes, alignment, stream);
      } catch (const error& e) {
        if (e.code() != errc::out_of_memory) {
          throw;
        }
        reaper_->wait_idle(options_.release_wait); // the device may be full of what is about to be freed
        trim();
        return memory_->allocate(bytes, alignment, stream);
      }
    }();
    counters_.allocations.fetch_add(1);
    return made;
  } catch (const error& e) {
    if (e.refusal() == nullptr) {
      throw;
    }
    budget_refusal numbers = *e.refusal();
    numbers.owners = ledger_.by_tag();
    throw error(std::move(numbers), e.where());
  }
}

void context::release(block freed, pending_release how, std::shared_ptr<context> self) noexcept {
  try {
    if (memory_->stream_ordered() && !how.needs_context_fence) {
      for (const fence& f : how.after) {
        f.wait(release_stream_->ref());
      }
      free_now(freed);
      return;
    }
    how.action = [freed, self = std::move(self)] { self->free_now(freed); };
    reaper_->submit(std::move(how));
  } catch (...) {
    // Neither ordered nor queued: keeping the memory is the only safe end, and it stays charged.
    report_current_exception(concat("block of ", freed.bytes, " bytes stays allocated"));
  }
}

void context::free_now(const block& freed) noexcept {
  if (!memory_->deallocate(freed, release_stream_->ref())) {
    report("context", concat("the driver refused to free ", freed.bytes, " bytes; they stay charged"));
  }
}

void context::require_open() const {
  if (closed_) {
    throw error(errc::closed, concat("the context of ", to_string(device()), " is closed"));
  }
}

bool context::relieve(std::size_t attempt) {
  if (attempt == 0) {
    reaper_->drain();
    return true;
  }
  return attempt == 1 && reaper_->pending() != 0 && reaper_->wait_idle(options_.release_wait);
}

traffic_counter& context::counter_of(copy_kind kind) noexcept {
  switch (kind) {
  case copy_kind::host_to_device:
    return counters_.host_to_device;
  case copy_kind::device_to_host:
    return counters_.device_to_host;
  case copy_kind::device_to_device:
    return counters_.device_to_device;
  case copy_kind::host_to_host:
    break;
  }
  return counters_.host_to_host;
}

} // namespace saeta
