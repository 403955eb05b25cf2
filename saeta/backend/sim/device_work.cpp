// Copies, fills, and other libraries' kernels on the simulated device.

#include "saeta/backend/sim/machine.hpp"
#include "saeta/base/text.hpp"

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

namespace saeta::sim {
namespace {

/// Most operations run in one part. The seed makes some slow, so that others run between their parts.
unsigned draw_parts(machine& owner) {
  constexpr unsigned slow_percent = 25;
  constexpr std::uint64_t most = 4;
  random_source& random = owner.schedule().random();
  return random.chance(slow_percent) ? static_cast<unsigned>(2 + random.below(most - 1)) : 1;
}

struct span_of_part {
  std::size_t begin;
  std::size_t bytes;
};

span_of_part cut(std::size_t bytes, unsigned part, unsigned parts) {
  const std::size_t begin = bytes / parts * part;
  return {begin, part + 1 == parts ? bytes - begin : bytes / parts};
}

void require_side(const machine& owner, const void* pointer, bool on_device, const char* name) {
  if ((owner.owner(pointer) != nullptr) != on_device) {
    throw error(errc::device,
                concat("sim: the ", name, " of a copy at ", pointer, " is ",
                       on_device ? "not device memory" : "device memory, expected host memory"));
  }
}

} // namespace

void simulated_device::launch(stream_handle stream, const std::string& name,
                              const std::vector<byte_range>& reads, const std::vector<byte_range>& writes,
                              std::function<void()> body) {
  const machine::guard held = machine_->enter();
  machine_->require_device(*gpu_, "launch");
  std::vector<access> touched;
  touched.reserve(reads.size() + writes.size());
  for (const byte_range& range : reads) {
    touched.push_back({range.pointer, range.bytes, true});
  }
  for (const byte_range& range : writes) {
    touched.push_back({range.pointer, range.bytes, false});
  }
  operation work;
  work.callout = std::move(body);
  work.parts = draw_parts(*machine_);
  machine_->submit(machine_->stream(*gpu_, stream), name, touched, std::move(work));
}

void simulated_device::host_callback(stream_handle stream, std::function<void()> body) {
  const machine::guard held = machine_->enter();
  machine_->require_device(*gpu_, "host_callback");
  operation work;
  work.callout = std::move(body);
  machine_->submit(machine_->stream(*gpu_, stream), "host callback", {}, std::move(work));
}

void simulated_device::copy(void* target, const void* source, std::size_t bytes, copy_kind kind,
                            stream_handle stream) {
  if (bytes == 0) {
    return;
  }
  machine::guard held = machine_->enter_call(*gpu_, "copy");
  const bool from_device = kind == copy_kind::device_to_host || kind == copy_kind::device_to_device;
  const bool to_device = kind == copy_kind::host_to_device || kind == copy_kind::device_to_device;
  require_side(*machine_, source, from_device, "source");
  require_side(*machine_, target, to_device, "target");
  stream_state& ordering = machine_->stream(*gpu_, stream);
  operation work;
  work.parts = draw_parts(*machine_);
  work.is_copy = true;
  auto* const to = static_cast<std::uint8_t*>(target);
  const auto* const from = static_cast<const std::uint8_t*>(source);
  if (!from_device && machine_->memory().find_around(source) == nullptr) {
    if (!to_device && !ordering.capture) { // earlier work of the stream may still write the source
      machine_->wait(held, machine_->schedule().predecessors(ordering), ordering.clock);
      machine_->require_device(*gpu_, "copy");
    }
    work.body = [to, content = std::vector<std::uint8_t>(from, from + bytes)](unsigned part, unsigned parts) {
      const span_of_part now = cut(content.size(), part, parts);
      std::memcpy(to + now.begin, content.data() + now.begin, now.bytes);
    };
  } else {
    work.body = [to, from, bytes](unsigned part, unsigned parts) {
      const span_of_part now = cut(bytes, part, parts);
      std::memmove(to + now.begin, from + now.begin, now.bytes);
    };
  }
  if (to_device && !from_device && gpu_->time_per_mib.count() != 0) { // without the lock, which others need
    const auto time = gpu_->time_per_mib * static_cast<std::int64_t>(bytes) / (std::int64_t{1} << 20);
    work.parts = 1;
    work.callout = [time, link = &gpu_->link, body = std::exchange(work.body, {})] {
      const std::lock_guard one_at_a_time(*link);
      std::this_thread::sleep_for(time);
      body(0, 1);
    };
  }
  auto queued =
      machine_->submit(ordering, "copy", {{source, bytes, true}, {target, bytes, false}}, std::move(work));
  const bool to_pageable = from_device && !to_device && machine_->memory().find_around(target) == nullptr;
  if (queued && to_pageable) { // as CUDA's copy, which returns when the target has the bytes
    machine_->wait(held, {std::move(queued)}, ordering.clock);
    machine_->require_device(*gpu_, "copy");
  }
}

void simulated_device::fill(void* target, std::uint8_t value, std::size_t bytes, stream_handle stream) {
  if (bytes == 0) {
    return;
  }
  const machine::guard held = machine_->enter_call(*gpu_, "fill");
  if (machine_->owner(target) == nullptr && machine_->memory().find_around(target) == nullptr) {
    throw error(errc::device, concat("sim:", gpu_->ordinal, ": the target of a fill is not device memory"));
  }
  operation work;
  work.parts = draw_parts(*machine_);
  work.body = [target, value, bytes](unsigned part, unsigned parts) {
    const span_of_part now = cut(bytes, part, parts);
    std::memset(static_cast<std::uint8_t*>(target) + now.begin, value, now.bytes);
  };
  machine_->submit(machine_->stream(*gpu_, stream), "fill", {{target, bytes, false}}, std::move(work));
}

void simulated_device::write_word(std::uint32_t* target, std::uint32_t value, stream_handle stream) {
  const machine::guard held = machine_->enter_call(*gpu_, "write_word");
  if (machine_->memory().find_around(target) == nullptr) {
    throw error(errc::device, "sim: the target of write_word is not page-locked memory");
  }
  operation work;
  work.body = [target, value](unsigned, unsigned) {
    std::atomic_ref(*target).store(value, std::memory_order_release);
  };
  // No range is declared, because the host may read such words at any time.
  machine_->submit(machine_->stream(*gpu_, stream), "write_word", {}, std::move(work));
}

} // namespace saeta::sim
