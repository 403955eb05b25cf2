#include "saeta/memory/use_token.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"

#include <algorithm>

namespace saeta {

use_token::use_token(stream_ref stream, std::span<const use> uses)
    : stream_(stream), holder_(std::this_thread::get_id()) {
  for (const use& u : uses) {
    if (!u.what.present()) {
      continue;
    }
    const auto& bytes = u.what.owner();
    if (u.mode != access::read && !bytes->writable()) {
      throw error(errc::invalid_argument, concat("buffer '", bytes->tag(), "' is read-only"));
    }
    const bool inherited = bytes->where()->inherited();
    if (inherited) {
      bytes->where()->require_readable();
    }
    if (bytes->where()->device_backend().get() == &stream_.owner() || (inherited && !recorder_)) {
      recorder_ = bytes->where();
    }
    const auto twin =
        std::find_if(held_.begin(), held_.end(), [&](const held& h) { return h.bytes == bytes; });
    if (twin == held_.end()) {
      held_.push_back({bytes, u.mode});
    } else if (twin->mode != u.mode) {
      twin->mode = access::read_write;
    }
  }
  if (!held_.empty() && !recorder_) {
    throw error(errc::invalid_argument,
                concat("a stream of ", to_string(stream_.owner().device()), " can't order buffer '",
                       held_.front().bytes->tag(), "' in another device's context"));
  }
  std::sort(held_.begin(), held_.end(),
            [](const held& a, const held& b) { return a.bytes->generation() < b.bytes->generation(); });
  begin();
  open_ = true;
}

// Buffers of a parent process need no order: nothing in this process works on them but the caller, and what the parent did
// with them was done when it forked.
void use_token::begin() {
  captures_ = !held_.empty() && !recorder_->inherited() && recorder_->events().heed_capture(stream_);
  // A capture can't wait for what is outside of it: a stream of ours does, and the host waits for that one.
  const stream_ref waiting = captures_ ? recorder_->work_stream() : stream_;
  std::size_t begun = 0;
  try {
    for (const held& h : held_) {
      if (!h.bytes->where()->inherited()) {
        h.bytes->ordering().begin(h.mode, waiting, h.bytes->tag());
      }
      ++begun;
      if (!h.bytes->where()->inherited()) {
        h.bytes->wait_for_consumers(h.mode, waiting);
      }
    }
    if (captures_) {
      recorder_->synchronize(waiting);
    }
  } catch (...) {
    // The ordering states were told that this use covers what it waited for, so it must leave a fence behind.
    held_.resize(begun);
    open_ = true;
    try {
      if (captures_) {
        recorder_->synchronize(waiting);
      }
      finish();
    } catch (...) {
      report_current_exception("use_token: giving back after a failure");
    }
    throw;
  }
}

use_token::~use_token() {
  try {
    finish();
  } catch (...) {
    report_current_exception("use_token");
  }
}

void* use_token::pointer(const buffer& what, access mode, std::size_t alignment) const {
  if (!what.present()) {
    return nullptr;
  }
  const auto& tag = what.owner()->tag();
  if (!open_) {
    throw error(errc::closed, concat("the token over buffer '", tag, "' has ended"));
  }
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](const held& h) { return h.bytes == what.owner(); });
  if (found == held_.end() || (mode != access::read && found->mode == access::read)) {
    throw error(errc::invalid_argument, concat("buffer '", tag, "' was not named in this token for ",
                                               mode == access::read ? "reading" : "writing"));
  }
  if (what.address() % alignment != 0) {
    throw error(errc::invalid_argument, concat("buffer '", tag, "' at offset ", what.offset(),
                                               " is not aligned to ", alignment, " bytes"));
  }
  return reinterpret_cast<void*>(what.address());
}

void use_token::finish() {
  if (!open_) {
    return;
  }
  open_ = false;
  if (held_.empty() || recorder_->inherited()) {
    held_.clear();
    return;
  }
  fence done;
  try {
    if (!recorder_->events().heed_capture(stream_)) {
      done = recorder_->events().record(stream_);
    } else if (!captures_) {
      leave_unfenced();
    }
  } catch (...) {
    // Without an event the host has to wait; then nothing is pending and an empty fence is right.
    try {
      recorder_->synchronize(stream_);
    } catch (...) {
      report_current_exception("use_token: neither an event nor a synchronisation");
    }
    give_back(done);
    throw;
  }
  give_back(done);
}

/// Work that was queued before the capture began can't be fenced during it. As with that of a consumer whose fence was
/// refused, the next use and the release wait for all work of the context.
void use_token::leave_unfenced() noexcept {
  for (const held& h : held_) {
    h.bytes->begin_export(h.mode);
    h.bytes->end_export(h.mode, std::nullopt);
  }
}

void use_token::give_back(const fence& done) noexcept {
  for (const held& h : held_) {
    if (!h.bytes->where()->inherited()) {
      h.bytes->ordering().end(h.mode, holder_, done);
    }
  }
  held_.clear();
}

} // namespace saeta
