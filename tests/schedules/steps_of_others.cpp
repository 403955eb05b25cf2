// Steps that simulate other libraries: consumers and producers of memory, and graph captures.
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "schedules/random_program.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace saeta::schedules {

void random_program::lend() {
  if (buffers_.empty() || lent_.size() >= 4 || capture_) {
    return;
  }
  known& source = any_buffer();
  if (!source.memory.owner()->writable()) {
    return;
  }
  const site& consumer = draw_.chance(70) ? *source.place : any_site();
  sim::device& device = *consumer.device;
  const stream_handle user = consumer.foreign[draw_.below(consumer.foreign.size())];
  const std::array views{source.memory};
  const bool changes = draw_.chance(40);
  const bool contested = std::any_of(lent_.begin(), lent_.end(), [&](const lent& other) {
    return other.of == source.memory.owner().get() && (changes || other.writes);
  });
  if (contested) {
    return; // consumers of the same buffer have to order their accesses themselves
  }
  source.place->ctx->make_visible_to(device);
  order_handover(views, device, user); // as in a protocol whose consumer names its stream
  if (changes) {
    // A consumer that writes must also wait for earlier readers, which a DLPack producer guarantees.
    const handover needed = source.memory.owner()->ordering().find_dependencies(access::write, "lent");
    wait(stream_ref(device, user), needed.points);
    if (needed.unknown) {
      wait(stream_ref(device, user), source.place->ctx->mark_unknown_work("lent"));
    }
  }
  lent next{std::make_unique<export_hold>(views, changes ? access::write : access::read),
            source.memory.owner().get(), changes};
  auto* const at = reinterpret_cast<std::uint8_t*>(source.memory.address());
  const std::size_t size = source.expected.size();
  if (changes) {
    const auto value = static_cast<std::uint8_t>(draw_.next());
    device.launch(user, "consumer writes", {}, {{at, size}}, [=] { std::memset(at, value, size); });
    std::fill(source.expected.begin(), source.expected.end(), value);
    source.certain = true;
  } else {
    const std::shared_ptr<std::uint8_t> arrived = landing_of(consumer, size);
    device.launch(user, "consumer reads", {{at, size}}, {}, [=] { std::memcpy(arrived.get(), at, size); });
    if (source.certain) {
      landings_.push_back({arrived, source.expected});
    }
  }
  lent_.push_back(std::move(next));
}

void random_program::take_back() {
  if (lent_.empty()) {
    return;
  }
  const auto gone = lent_.begin() + static_cast<std::ptrdiff_t>(draw_.below(lent_.size()));
  excused_ = true;
  // If a capture is active or the backend fails, the event for this release is recorded later.
  unfenced_.insert(gone->of);
  unfenced_pending_ = true;
  lent_.erase(gone);
}

void random_program::import() {
  if (buffers_.size() >= most_buffers || capture_) {
    return drop();
  }
  site& place = any_site();
  const failure_rate working = others();
  const std::size_t size = 4096;
  const stream_handle producer = place.foreign[draw_.below(place.foreign.size())];
  void* const memory = place.device->allocate(size, 0);
  const auto value = static_cast<std::uint8_t>(draw_.next());
  place.device->fill(memory, value, size, producer);
  external_memory taken;
  taken.pointer = memory;
  taken.bytes = size;
  taken.device = place.device->device();
  taken.access = mutability::writable;
  taken.tag = "imported";
  taken.ready = mark(stream_ref(*place.device, producer));
  // A null keepalive with a deleter is valid, too.
  taken.keepalive = std::shared_ptr<void>(nullptr, [device = place.device, memory, size](void*) {
    static_cast<void>(device->deallocate(memory, size, 0));
  });
  buffers_.push_back({buffer::adopt(place.ctx, std::move(taken)), bytes(size, value), &place});
}

void random_program::capture() {
  if (capture_) {
    const bool ended = !capture_->end();
    if (ended && chosen_.captures && !excused_) {
      found_.emplace_back("the capture of another library was ended");
    }
    capture_.reset();
  } else if (draw_.chance(30)) {
    const failure_rate working = others();
    constexpr std::size_t most_calls = 24; // the backend calls of two or three steps
    const unsigned calls = chosen_.captures ? static_cast<unsigned>(draw_.below(most_calls)) : 0;
    capture_ = std::make_unique<testing::foreign_capture>(any_site().device, calls);
  }
}

} // namespace saeta::schedules
