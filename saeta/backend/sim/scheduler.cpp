#include "saeta/backend/sim/scheduler.hpp"

#include "saeta/base/report.hpp"

namespace saeta::sim {

stream_state& scheduler::add_stream(gpu& home, stream_kind kind) {
  auto state = std::make_unique<stream_state>();
  state->slot = static_cast<std::uint32_t>(streams_.size());
  state->home = &home;
  state->kind = kind;
  return *streams_.emplace_back(std::move(state));
}

stream_state* scheduler::stream(std::uint64_t slot) const noexcept {
  return slot < streams_.size() ? streams_[slot].get() : nullptr;
}

operations scheduler::predecessors(stream_state& stream) {
  operations operations;
  const auto follow = [&](const stream_state& other) {
    if (other.last && !other.last->done) {
      operations.push_back(other.last);
    }
    stream.clock.join(other.clock);
  };
  if (stream.last && !stream.last->done) {
    operations.push_back(stream.last);
  }
  if (stream.kind == stream_kind::non_blocking) {
    return operations;
  }
  const stream_kind opposite =
      stream.kind == stream_kind::legacy ? stream_kind::blocking : stream_kind::legacy;
  for (const auto& other : streams_) {
    if (other->home == stream.home && other->kind == opposite) {
      follow(*other);
    }
  }
  return operations;
}

void scheduler::queue(stream_state& stream, std::shared_ptr<operation> work) {
  stream.last = work;
  stream.queue.push_back(std::move(work));
  if (sleeping_ != 0) {
    wake();
  }
}

std::shared_ptr<operation> scheduler::pick() {
  ready_.clear();
  for (const auto& stream : streams_) {
    if (!stream->queue.empty()) {
      const auto& head = stream->queue.front();
      if (!head->held && !head->running && all_done(head->after)) {
        ready_.push_back(head);
      }
    }
  }
  return ready_.empty() ? nullptr : ready_[random_.below(ready_.size())];
}

void scheduler::finish(const std::shared_ptr<operation>& work, journal& log) {
  work->done = true;
  work->body = nullptr;
  auto& queue = streams_[work->when.slot]->queue;
  if (!queue.empty()) { // the machine may have been stopped or the device lost meanwhile
    queue.pop_front();
  }
  log.add_run(*work);
  if (sleeping_ != 0) {
    wake();
  }
}

bool scheduler::advance(std::unique_lock<std::mutex>& lock, journal& log) {
  const std::shared_ptr<operation> work = pick();
  ready_.clear();
  if (!work) {
    return false;
  }
  if (work->body) {
    work->body(work->parts_done, work->parts);
  }
  if (++work->parts_done < work->parts) {
    return true;
  }
  if (work->callout) {
    work->running = true;
    auto callout = std::move(work->callout);
    lock.unlock();
    try {
      callout();
    } catch (...) {
      report_current_exception("sim: a function queued on a stream");
    }
    callout = nullptr; // destroyed without the lock: its captures may call the device
    lock.lock();
    work->running = false;
  }
  finish(work, log);
  return true;
}

void scheduler::wait(std::unique_lock<std::mutex>& lock, journal& log, operations awaited) {
  while (!all_done(awaited)) {
    if (!advance(lock, log)) {
      sleep(lock);
    }
  }
}

void scheduler::sleep(std::unique_lock<std::mutex>& lock) {
  ++sleeping_;
  changed_.wait(lock);
  --sleeping_;
}

bool scheduler::idle() const noexcept {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->queue.empty(); });
}

operations scheduler::abandon(const gpu* home) {
  operations dropped;
  for (const auto& stream : streams_) {
    if (home != nullptr && stream->home != home) {
      continue;
    }
    for (auto& work : stream->queue) {
      if (!work->running) {
        work->done = true;
        dropped.push_back(std::move(work));
      }
    }
    stream->queue.clear();
  }
  return dropped;
}

} // namespace saeta::sim
