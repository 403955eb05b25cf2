// Streams, events and findings. Memory is in device_memory.cpp, copies and other libraries' kernels in
// device_work.cpp.

#include "saeta/backend/sim/machine.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <utility>

namespace saeta::sim {
namespace {

class stream_hold final : public hold {
public:
  stream_hold(std::weak_ptr<machine> owner, std::shared_ptr<operation> gate)
      : owner_(std::move(owner)), gate_(std::move(gate)) {}
  ~stream_hold() override { stream_hold::open(); }

  void open() override {
    const auto owner = owner_.lock();
    if (owner && gate_) {
      const machine::guard held = owner->lock();
      gate_->held = false;
      owner->schedule().wake();
    }
  }

private:
  std::weak_ptr<machine> owner_;
  std::shared_ptr<operation> gate_; ///< null in a capture
};

bool in_capture(const machine& owner, const stream_state& stream) {
  return stream.capture || (stream.kind == stream_kind::legacy && owner.capturing(*stream.home));
}

void require_no_capture(const machine& owner, const stream_state& stream) {
  if (in_capture(owner, stream)) {
    throw error(errc::device, concat("sim:", stream.home->ordinal, ": stream ", stream.slot,
                                     " can't be waited for while a graph is captured"));
  }
}

} // namespace

simulated_device::simulated_device(std::shared_ptr<machine> owner, gpu& which)
    : machine_(std::move(owner)), gpu_(&which) {}

simulated_device::~simulated_device() { machine_->leave(); }

std::shared_ptr<simulated_device> simulated_device::create(const options& chosen) {
  const std::shared_ptr<machine> owner =
      chosen.beside ? chosen.beside->machine_ : std::make_shared<machine>(chosen);
  return std::shared_ptr<simulated_device>(new simulated_device(owner, owner->join(chosen)));
}

stream_handle simulated_device::create_blocking_stream() {
  const machine::guard held = machine_->enter();
  machine_->require_device(*gpu_, "create_blocking_stream");
  return machine_->handle(machine_->create_stream(*gpu_, stream_kind::blocking));
}

void simulated_device::begin_capture(stream_handle stream) {
  const machine::guard held = machine_->enter();
  machine_->require_device(*gpu_, "begin_capture");
  machine_->begin_capture(machine_->stream(*gpu_, stream));
}

void simulated_device::begin_capture_after(stream_handle stream, unsigned calls) {
  const machine::guard held = machine_->lock();
  gpu_->captured_later = calls == 0 ? nullptr : &machine_->stream(*gpu_, stream);
  gpu_->calls_before_capture = calls;
}

capture_progress simulated_device::progress(stream_handle stream) const {
  const machine::guard held = machine_->lock();
  const auto& capture = machine_->stream(*gpu_, stream).capture;
  if (!capture) {
    return capture_progress::none;
  }
  return capture->lost ? capture_progress::ended : capture_progress::open;
}

bool simulated_device::end_capture(stream_handle stream) {
  const machine::guard held = machine_->enter();
  stream_state& captured = machine_->stream(*gpu_, stream);
  if (!captured.capture || captured.capture->origin != captured.slot) {
    throw error(errc::device, concat("sim:", gpu_->ordinal, ": no capture began on stream ", captured.slot));
  }
  const std::shared_ptr<capture_state> ended = captured.capture;
  machine_->end(*ended);
  return !ended->lost;
}

void simulated_device::host_access(byte_range where, bool write, const std::string& name) {
  const machine::guard held = machine_->enter();
  machine_->check_host({where.pointer, where.bytes, !write}, name);
}

std::unique_ptr<hold> simulated_device::close_gate(stream_handle stream) {
  const machine::guard held = machine_->enter();
  machine_->require_device(*gpu_, "close_gate");
  operation gate;
  gate.held = true;
  auto queued = machine_->submit(machine_->stream(*gpu_, stream), "gate", {}, std::move(gate));
  return std::make_unique<stream_hold>(machine_, std::move(queued));
}

void simulated_device::set_fail_percent(unsigned percent) {
  const machine::guard held = machine_->lock();
  gpu_->fail_percent = percent;
}

void simulated_device::mark_lost() { machine_->mark_lost(*gpu_); }

bool simulated_device::step() {
  machine::guard held = machine_->lock();
  return machine_->advance(held);
}

std::size_t simulated_device::run() {
  machine::guard held = machine_->lock();
  std::size_t steps = 0;
  while (machine_->advance(held)) {
    ++steps;
  }
  return steps;
}

bool simulated_device::idle() const {
  const machine::guard held = machine_->lock();
  return machine_->schedule().idle();
}

std::vector<race> simulated_device::races() const {
  const machine::guard held = machine_->lock();
  return machine_->log().races();
}

std::string simulated_device::report() const {
  const machine::guard held = machine_->lock();
  return machine_->log().report(machine_->seed());
}

usage simulated_device::live() const {
  const machine::guard held = machine_->lock();
  return gpu_->alive;
}

device_id simulated_device::device() const noexcept { return {device_kind::sim, gpu_->ordinal}; }

device_properties simulated_device::properties() const {
  const machine::guard held = machine_->enter_call(*gpu_, "properties");
  device_properties properties;
  properties.name = "simulated device";
  properties.architecture = "sim";
  properties.total_bytes = gpu_->total_bytes;
  const std::uint64_t taken = gpu_->used_bytes + gpu_->memory.pooled_bytes();
  properties.free_bytes = gpu_->total_bytes - std::min(taken, gpu_->total_bytes);
  properties.multiprocessors = 1;
  properties.largest_pool_export = largest_pool_export;
  properties.uuid = {'s', 'i', 'm', static_cast<std::uint8_t>(gpu_->ordinal)};
  return properties;
}

stream_handle simulated_device::create_stream() {
  const machine::guard held = machine_->enter_call(*gpu_, "create_stream");
  return machine_->handle(machine_->create_stream(*gpu_, stream_kind::non_blocking));
}

void simulated_device::destroy_stream(stream_handle stream) noexcept {
  try {
    const machine::guard held = machine_->enter();
    stream_state& gone = machine_->stream(*gpu_, stream);
    if (gpu_->captured_later == &gone) {
      gpu_->captured_later = nullptr;
    }
    if (stream == legacy_stream || stream == per_thread_stream) {
      throw error(errc::device, "sim: a default stream can't be destroyed");
    }
    gone.alive = false;
    if (const auto capture = std::exchange(gone.capture, nullptr); capture && capture->origin == gone.slot) {
      machine_->end(*capture);
    }
    --gpu_->alive.streams;
  } catch (...) {
    report_current_exception("sim: destroying a stream");
  }
}

std::uint64_t simulated_device::stream_id(stream_handle stream) {
  const machine::guard held = machine_->lock();
  machine_->call(*gpu_, "stream_id");
  const stream_state& queried = machine_->stream(*gpu_, stream);
  return in_capture(*machine_, queried) ? new_capture_id() : queried.id;
}

void simulated_device::synchronize_stream(stream_handle stream) {
  machine::guard held = machine_->enter_call(*gpu_, "synchronize_stream");
  stream_state& awaited = machine_->stream(*gpu_, stream);
  require_no_capture(*machine_, awaited);
  operations pending = machine_->schedule().predecessors(awaited);
  machine_->wait(held, std::move(pending), awaited.clock);
  machine_->require_device(*gpu_, "synchronize_stream");
  gpu_->memory.trim(gpu_->pool_threshold);
}

bool simulated_device::stream_idle(stream_handle stream) {
  const machine::guard held = machine_->enter_call(*gpu_, "stream_idle");
  stream_state& queried = machine_->stream(*gpu_, stream);
  require_no_capture(*machine_, queried);
  if (!machine_->schedule().predecessors(queried).empty()) {
    return false;
  }
  machine_->join_host_clock(queried.clock);
  return true;
}

bool simulated_device::capturing(stream_handle stream) {
  const machine::guard held = machine_->lock(); // a query that runs no operation
  machine_->call(*gpu_, "capturing");
  return in_capture(*machine_, machine_->stream(*gpu_, stream));
}

event_handle simulated_device::create_event() {
  const machine::guard held = machine_->enter_call(*gpu_, "create_event");
  return machine_->create_event(*gpu_);
}

void simulated_device::destroy_event(event_handle event) noexcept {
  try {
    const machine::guard held = machine_->enter();
    machine_->destroy_event(event);
  } catch (...) {
    report_current_exception("sim: destroying an event");
  }
}

void simulated_device::record_event(event_handle event, stream_handle stream) {
  const machine::guard held = machine_->enter_call(*gpu_, "record_event");
  event_state& recorded = machine_->event(event, true);
  stream_state& recording = machine_->stream(*gpu_, stream);
  recorded.captured = recording.capture;
  recorded.covered = recording.capture ? operations() : machine_->schedule().predecessors(recording);
  recorded.clock = recording.clock;
}

fence_outcome simulated_device::record_context(event_handle event) {
  const machine::guard held = machine_->enter_call(*gpu_, "record_context");
  event_state& recorded = machine_->event(event, true);
  if (machine_->capturing(*gpu_)) {
    for (const auto& stream : machine_->schedule().streams()) {
      if (stream->home == gpu_ && stream->capture && stream->capture->origin == stream->slot &&
          stream->kind == stream_kind::non_blocking) {
        stream->capture->lost = true;
      }
    }
    return fence_outcome::refused;
  }
  recorded.captured.reset();
  recorded.covered.clear();
  recorded.clock = {};
  for (const auto& stream : machine_->schedule().streams()) {
    if (stream->home == gpu_) {
      recorded.clock.join(stream->clock);
      if (stream->last && !stream->last->done) {
        recorded.covered.push_back(stream->last);
      }
    }
  }
  return fence_outcome::recorded;
}

void simulated_device::wait_event(stream_handle stream, event_handle event) {
  const machine::guard held = machine_->enter_call(*gpu_, "wait_event");
  stream_state& waiting = machine_->stream(*gpu_, stream);
  event_state& awaited = machine_->event(event, true);
  if (waiting.capture && awaited.captured != waiting.capture) {
    throw error(errc::device, concat("sim:", gpu_->ordinal, ": stream ", waiting.slot,
                                     " captures a graph and can't wait for an event from outside of it"));
  }
  if (awaited.captured) {
    if (!awaited.captured->open || waiting.kind == stream_kind::legacy) {
      throw error(errc::device, concat("sim:", gpu_->ordinal, ": stream ", waiting.slot,
                                       " can't wait for an event that was recorded inside a graph capture"));
    }
    waiting.capture = awaited.captured; // the stream joins the capture
    return;
  }
  if (!all_done(awaited.covered)) {
    operation wait;
    wait.after = awaited.covered;
    machine_->submit(waiting, "wait", {}, std::move(wait));
  }
  waiting.clock.join(awaited.clock);
}

bool simulated_device::event_complete(event_handle event) {
  const machine::guard held = machine_->enter_call(*gpu_, "event_complete");
  event_state& queried = machine_->event(event);
  if (!all_done(queried.covered)) {
    return false;
  }
  machine_->join_host_clock(queried.clock);
  return true;
}

void simulated_device::synchronize_event(event_handle event) {
  machine::guard held = machine_->enter_call(*gpu_, "synchronize_event");
  const event_state& awaited = machine_->event(event);
  machine_->wait(held, awaited.covered, awaited.clock);
  machine_->require_device(*gpu_, "synchronize_event");
  gpu_->memory.trim(gpu_->pool_threshold);
}

} // namespace saeta::sim
