#include "saeta/backend/sim/machine.hpp"

#include "saeta/base/text.hpp"
#include "saeta/base/thread_number.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>
#include <utility>

namespace saeta::sim {
namespace {

/// A handle combines the machine's number with the stream's slot or the event's number, so it is unique in
/// the process.
constexpr unsigned number_bits = 32;
constexpr std::uint64_t number_mask = (std::uint64_t{1} << number_bits) - 1;

std::uint64_t next_machine() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

std::uint64_t fault_seed(std::uint64_t seed, std::int32_t ordinal) {
  constexpr std::uint64_t apart = 0xfa17;
  return seed ^ ((apart + static_cast<std::uint64_t>(ordinal)) << number_bits);
}

/// The machines of the process, for functions that get a handle or an address but no device.
struct registry {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::weak_ptr<machine>> machines;

  static registry& instance() {
    static registry all;
    return all;
  }
};

} // namespace

void machine::free_pinned::operator()(void* pointer) const noexcept {
  ::operator delete(pointer, pinned_alignment);
}

machine::machine(const options& chosen) : chosen_(chosen), id_(next_machine()), schedule_(chosen.seed) {}

bool gpu::contains(const void* pointer) const noexcept {
  return memory.contains(pointer) || std::any_of(mapped.begin(), mapped.end(), [&](const auto& weak) {
           const auto pool = weak.lock();
           return pool && pool->contains(pointer);
         });
}

std::size_t gpu::offset(const void* pointer) const noexcept {
  for (const auto& weak : mapped) {
    if (const auto pool = weak.lock(); pool && pool->contains(pointer)) {
      return pool->offset(pointer);
    }
  }
  return memory.offset(pointer);
}

std::shared_ptr<machine> machine::of_stream(stream_handle stream) {
  return of_number(static_cast<std::uint64_t>(stream) >> number_bits);
}

std::shared_ptr<machine> machine::of_number(std::uint64_t number) {
  registry& all = registry::instance();
  const std::lock_guard held(all.mutex);
  const auto entry = all.machines.find(number);
  return entry == all.machines.end() ? nullptr : entry->second.lock();
}

std::shared_ptr<machine> machine::of_address(const void* pointer) {
  std::vector<std::shared_ptr<machine>> alive;
  {
    registry& all = registry::instance();
    const std::lock_guard held(all.mutex);
    for (const auto& [id, weak] : all.machines) {
      if (auto one = weak.lock()) {
        alive.push_back(std::move(one));
      }
    }
  }
  for (const auto& one : alive) {
    const guard held = one->lock();
    if (one->owner(pointer) != nullptr) {
      return one;
    }
  }
  return nullptr;
}

gpu& machine::join(const options& chosen) {
  {
    registry& all = registry::instance();
    const std::lock_guard held(all.mutex);
    all.machines.try_emplace(id_, weak_from_this());
  }
  const guard held = lock();
  if (++devices_ == 1 && chosen_.how == pace::automatic &&
      !background_.start([self = shared_from_this()] { self->run_in_background(); })) {
    throw error(errc::device, "sim: the system has no thread that runs what is queued");
  }
  for (const auto& known : gpus_) {
    if (known->ordinal == chosen.ordinal) {
      return *known;
    }
  }
  gpu& result = *gpus_.emplace_back(std::make_unique<gpu>(chosen, fault_seed(chosen_.seed, chosen.ordinal)));
  result.legacy = &add_stream(result, stream_kind::legacy);
  return result;
}

void machine::leave() noexcept {
  operations dropped;
  {
    const guard held = lock();
    if (--devices_ != 0) {
      return;
    }
    stopped_ = true;
    dropped = schedule_.abandon();
    schedule_.wake();
  }
  {
    registry& all = registry::instance();
    const std::lock_guard held(all.mutex);
    all.machines.erase(id_);
  }
  background_.join();
}

void machine::run_in_background() {
  guard held = lock();
  while (!stopped_) {
    if (!advance(held)) {
      schedule_.sleep(held);
      continue;
    }
    held.unlock();
    std::this_thread::yield(); // lets other threads queue and query in between
    held.lock();
  }
}

machine::guard machine::enter() {
  constexpr std::uint64_t most = 4;
  guard held = lock();
  if (chosen_.how == pace::manual && schedule_.random().chance(chosen_.run_percent)) {
    for (std::uint64_t left = 1 + schedule_.random().below(most); left != 0 && advance(held); --left) {
    }
  }
  return held;
}

machine::guard machine::enter_call(gpu& home, const char* name) {
  guard held = enter();
  call(home, name);
  return held;
}

void machine::call(gpu& home, const char* name) {
  require_device(home, name);
  if (home.captured_later != nullptr && home.calls_before_capture-- == 0) {
    begin_capture(*std::exchange(home.captured_later, nullptr));
  }
  if (home.fail_percent != 0 && home.faults.chance(home.fail_percent)) {
    throw error(errc::device, concat("sim:", home.ordinal, ": injected failure of ", name));
  }
}

void machine::require_device(const gpu& home, const char* name) const {
  if (home.lost) {
    throw error(errc::device_lost, concat("sim:", home.ordinal, ": ", name, ": the device was lost"));
  }
}

void machine::mark_lost(gpu& home) {
  operations dropped; // destroyed after the lock is released: their captures may call the device
  const guard held = lock();
  if (home.lost) {
    return;
  }
  home.lost = true;
  for (void* const pinned : memory_.pinned_of(home.ordinal)) {
    keep_until_end(pinned); // the allocation can no longer be freed
  }
  for (const auto& stream : schedule_.streams()) {
    if (stream->home == &home && stream->capture) {
      stream->capture->lost = true;
    }
  }
  dropped = schedule_.abandon(&home);
  schedule_.wake();
}

stream_state& machine::add_stream(gpu& home, stream_kind kind) {
  stream_state& state = schedule_.add_stream(home, kind);
  if (!chosen_.small_ids) {
    state.id = static_cast<std::uint64_t>(handle(state));
  } else {
    state.id =
        kind == stream_kind::legacy ? static_cast<std::uint64_t>(legacy_stream) : home.next_stream_id++;
  }
  return state;
}

stream_state& machine::create_stream(gpu& home, stream_kind kind) {
  stream_state& state = add_stream(home, kind);
  ++home.alive.streams;
  return state;
}

stream_handle machine::handle(const stream_state& stream) const noexcept {
  return stream_handle{id_ << number_bits | stream.slot};
}

stream_state& machine::stream(gpu& home, stream_handle handle) {
  if (handle == legacy_stream) {
    return *home.legacy;
  }
  if (handle == per_thread_stream) {
    stream_state*& mine = home.per_thread[thread_number()];
    if (mine == nullptr) {
      mine = &add_stream(home, stream_kind::blocking);
    }
    return *mine;
  }
  const auto value = static_cast<std::uint64_t>(handle);
  stream_state* const state = value >> number_bits == id_ ? schedule_.stream(value & number_mask) : nullptr;
  if (state == nullptr || !state->alive || state->home != &home) {
    throw error(errc::device, concat("sim:", home.ordinal, ": ", value,
                                     " is not a stream of this device, or it was destroyed"));
  }
  return *state;
}

gpu& machine::home(stream_handle handle, const void* touched) {
  const auto value = static_cast<std::uint64_t>(handle);
  if (value >> number_bits == id_) {
    if (const stream_state* const state = schedule_.stream(value & number_mask)) {
      return *state->home;
    }
  }
  gpu* const gpu = owner(touched);
  if (gpu == nullptr) {
    throw error(errc::device, concat("sim: ", value, " is not a stream of this machine"));
  }
  return *gpu;
}

event_handle machine::create_event(gpu& home) {
  const std::uintptr_t handle = id_ << number_bits | ++event_count_;
  events_.emplace(handle, event_state{&home, {}, {}, nullptr});
  ++home.alive.events;
  return event_handle{handle};
}

event_state& machine::event(event_handle handle, bool any) {
  const auto value = static_cast<std::uintptr_t>(handle);
  const auto entry = events_.find(value);
  if (entry == events_.end()) {
    throw error(errc::device,
                concat("sim: ", value, " is not an event of this machine, or it was destroyed"));
  }
  if (entry->second.captured && !any) {
    throw error(errc::device, concat("sim: event ", value, " was recorded inside a graph capture"));
  }
  return entry->second;
}

void machine::destroy_event(event_handle handle) {
  --event(handle, true).home->alive.events;
  events_.erase(static_cast<std::uintptr_t>(handle));
}

gpu* machine::owner(const void* pointer) const noexcept {
  for (const auto& one : gpus_) {
    if (one->contains(pointer)) {
      return one.get();
    }
  }
  return nullptr;
}

bool machine::capturing(const gpu& home) const noexcept {
  return std::any_of(schedule_.streams().begin(), schedule_.streams().end(),
                     [&](const auto& stream) { return stream->home == &home && stream->capture; });
}

void machine::begin_capture(stream_state& stream) const {
  if (stream.kind == stream_kind::legacy || stream.capture) {
    throw error(errc::device, concat("sim:", stream.home->ordinal, ": stream ", stream.slot,
                                     " is the legacy default stream, or already captures a graph"));
  }
  stream.capture = std::make_shared<capture_state>(capture_state{.origin = stream.slot});
}

void machine::end(capture_state& capture) noexcept {
  capture.open = false;
  for (const auto& stream : schedule_.streams()) {
    if (stream->capture.get() == &capture) {
      stream->capture.reset();
    }
  }
}

std::shared_ptr<operation> machine::submit(stream_state& stream, std::string_view name,
                                           std::span<const access> touched, operation work) {
  if (stream.capture) {
    return nullptr;
  }
  auto queued = std::make_shared<operation>(std::move(work));
  operations before = schedule_.predecessors(stream);
  queued->after.insert(queued->after.end(), before.begin(), before.end());
  stream.clock.join(host_);
  queued->when = stream.clock.tick(stream.slot);
  queued->name = journal_.name(name);
  for (const access& one : touched) {
    const gpu* const home = owner(one.pointer);
    if (home != nullptr && !queued->is_copy) {
      check_peer(*stream.home, *home, one, {queued->when, queued->name, one.reads});
    }
    memory_.check(one, {queued->when, queued->name}, stream.clock, home != nullptr, journal_);
    queued->bytes = one.bytes;
    queued->offset = home == nullptr ? 0 : home->offset(one.pointer);
  }
  schedule_.queue(stream, queued);
  return queued;
}

access_record machine::host_access(std::string_view name) { return {{host_slot, 1}, journal_.name(name)}; }

void machine::check_peer(const gpu& running, const gpu& touched, const access& touch,
                         const access_record& by) {
  const auto& peers = running.peers;
  if (&running == &touched || touch.bytes == 0 ||
      std::find(peers.begin(), peers.end(), &touched) != peers.end()) {
    return;
  }
  journal_.add_finding({concat("sim:", touched.ordinal), journal_.describe(by), touch.pointer, touch.bytes,
                        concat("peer access was not enabled: ", journal_.describe(by), " of sim:",
                               running.ordinal, " uses ", touch.bytes, " bytes of sim:", touched.ordinal)});
}

bool machine::check_host(const access& touched, std::string_view name) {
  return memory_.check(touched, host_access(name), host_, owner(touched.pointer) != nullptr, journal_);
}

void machine::wait(guard& held, operations awaited, const vector_clock& clock) {
  vector_clock known = host_;
  known.join(clock); // a copy, because the stream's clock may advance during the wait
  schedule_.wait(held, journal_, std::move(awaited));
  host_.join(known);
}

} // namespace saeta::sim
