#include "chunk_copies/sender.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/device/join.hpp"
#include "saeta/device/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <iterator>
#include <utility>

namespace saeta::bench {

std::string send_mode::name() const {
  static constexpr const char* notices[] = {"no notice", "a word a chunk", "a word for two chunks",
                                            "an event a chunk", "a word by the kernel"};
  static constexpr const char* kernels[] = {"no kernel", "kernel behind the copy", "kernel aside"};
  return concat(notices[static_cast<int>(learns)], ", ", kernels[static_cast<int>(scatters)], ", ", streams,
                streams == 1 ? " stream" : " streams");
}

chunk_memory::chunk_memory(std::shared_ptr<backend> device, const sizes& all)
    : device_(std::move(device)), all_(all),
      slots_(static_cast<std::byte*>(device_->allocate_pinned(all.slots * slot_bytes()))),
      landings_(static_cast<std::byte*>(device_->allocate(all.slots * slot_bytes(), 256))),
      slab_(static_cast<std::byte*>(device_->allocate(all.chunks * all.chunk_bytes, 256))),
      words_(
          static_cast<std::uint32_t*>(device_->allocate_pinned(all.slots * word_stride * sizeof *words_))) {
  std::memset(slots_, 1, all.slots * slot_bytes());
  const stream_handle stream = device_->create_stream();
  device_->fill(slab_, 0, all.chunks * all.chunk_bytes, stream);
  device_->fill(landings_, 0, all.slots * slot_bytes(), stream);
  device_->synchronize_stream(stream);
  device_->destroy_stream(stream);
}

chunk_memory::~chunk_memory() {
  const bool freed = device_->deallocate_pinned(slots_, all_.slots * slot_bytes()) &&
                     device_->deallocate(landings_, all_.slots * slot_bytes(), 256) &&
                     device_->deallocate(slab_, all_.chunks * all_.chunk_bytes, 256) &&
                     device_->deallocate_pinned(words_, all_.slots * word_stride * sizeof *words_);
  if (!freed) {
    std::cerr << "memory of the measurement could not be freed\n";
  }
}

std::size_t chunk_memory::slot_bytes() const noexcept {
  return (all_.chunk_bytes + most_steps() * sizeof(join_step) + 255) / 256 * 256;
}

sender::sender(chunk_memory& memory, const send_mode& chosen)
    : memory_(memory), device_(memory.device()), mode_(chosen), kernels_(device_.create_stream()),
      slots_(memory.all().slots), waiting_(chosen.streams, untold) {
  std::generate_n(std::back_inserter(copies_), chosen.streams, [this] { return device_.create_stream(); });
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot].copied = device_.create_event();
    slots_[slot].scattered = device_.create_event();
    std::atomic_ref(*memory_.word(slot)).store(0);
  }
  device_.fill(memory_.target(memory_.all().chunks - 1), 0, memory_.all().chunk_bytes, kernels_);
  device_.synchronize_stream(kernels_);
}

sender::~sender() {
  for (const slot_state& each : slots_) {
    device_.destroy_event(each.copied);
    device_.destroy_event(each.scattered);
  }
  for (const stream_handle each : copies_) {
    device_.destroy_stream(each);
  }
  device_.destroy_stream(kernels_);
}

void sender::send(std::size_t slot, std::size_t chunk) {
  const std::lock_guard lock(turn_);
  const std::size_t stream = sent_++ % copies_.size();
  const bool lands = mode_.scatters != scattering::none;
  const std::size_t chunk_bytes = memory_.all().chunk_bytes;
  const std::vector<join_step> steps = steps_of(slot, chunk);
  std::byte* const pinned = memory_.slot(slot);
  std::ranges::copy(steps, reinterpret_cast<join_step*>(pinned + chunk_bytes));
  std::atomic_ref(*memory_.word(slot)).store(1); // unused by the notices without words
  if (mode_.scatters == scattering::aside) {
    device_.wait_event(copies_[stream], slots_[slot].scattered);
  }
  device_.copy(lands ? memory_.landing(slot) : memory_.target(chunk), pinned,
               chunk_bytes + (lands ? steps.size() * sizeof(join_step) : 0), memory_.kind(), copies_[stream]);
  tell(slot, stream);
  if (!steps.empty()) {
    launch(slot, steps, (lands ? memory_.landing(slot) : pinned) + chunk_bytes, copies_[stream]);
  }
}

/// Queues the notification of the host after the copy.
void sender::tell(std::size_t slot, std::size_t stream) {
  switch (mode_.learns) {
  case notice::events:
    device_.record_event(slots_[slot].copied, copies_[stream]);
    break;
  case notice::words:
    device_.write_word(memory_.word(slot), 0, copies_[stream]);
    break;
  case notice::every_other:
    if (waiting_[stream] == untold) {
      slots_[slot].teller = untold;
      waiting_[stream] = slot;
      return;
    }
    device_.write_word(memory_.word(slot), 0, copies_[stream]);
    slots_[waiting_[stream]].teller = slot;
    waiting_[stream] = untold;
    break;
  case notice::none:
  case notice::kernels:
    break;
  }
  slots_[slot].teller = slot;
}

/// The steps write the pieces in reverse order, so that no two neighbouring pieces can be copied as one.
std::vector<join_step> sender::steps_of(std::size_t slot, std::size_t chunk) const {
  const sizes& all = memory_.all();
  const std::size_t pieces = mode_.scatters == scattering::none ? 0 : all.chunk_bytes / all.piece_bytes;
  std::vector<join_step> steps(pieces);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    steps[piece].source = memory_.landing(slot) + piece * all.piece_bytes;
    steps[piece].target = memory_.target(chunk) + (pieces - 1 - piece) * all.piece_bytes;
    steps[piece].count = static_cast<std::int64_t>(all.piece_bytes);
  }
  if (mode_.learns == notice::kernels) {
    join_step& step = steps.emplace_back();
    step.kind = join_kind::zero;
    step.target = memory_.word(slot);
    step.count = sizeof(std::uint32_t);
  }
  number_tiles(steps);
  return steps;
}

/// @param described  the copy of `steps` that the device reads
void sender::launch(std::size_t slot, std::span<const join_step> steps, const std::byte* described,
                    stream_handle copies) {
  const auto* const list = reinterpret_cast<const join_step*>(described);
  if (mode_.scatters == scattering::behind) {
    return device_.kernels().join(copies, steps, list);
  }
  if (mode_.learns != notice::events) {
    device_.record_event(slots_[slot].copied, copies);
  }
  device_.wait_event(kernels_, slots_[slot].copied);
  device_.kernels().join(kernels_, steps, list);
  device_.record_event(slots_[slot].scattered, kernels_);
}

bool sender::left(std::size_t slot) {
  if (mode_.learns == notice::none) {
    return true;
  }
  if (mode_.learns == notice::events) {
    return device_.event_complete(slots_[slot].copied);
  }
  const std::size_t teller = slots_[slot].teller.load(std::memory_order_acquire);
  return teller != untold && std::atomic_ref(*memory_.word(teller)).load(std::memory_order_acquire) == 0;
}

void sender::finish() {
  for (const stream_handle each : copies_) {
    device_.synchronize_stream(each);
  }
  device_.synchronize_stream(kernels_);
}

/// Compares the first piece of the last chunk, which is still in its slot, with its bytes on the device.
void sender::require_last() const {
  const sizes& all = memory_.all();
  const std::size_t last = all.chunks - 1;
  const bool moved = mode_.scatters != scattering::none;
  std::vector<std::byte> seen(all.piece_bytes);
  device_.copy(
      seen.data(), memory_.target(last) + (moved ? all.chunk_bytes - all.piece_bytes : 0), seen.size(),
      memory_.kind() == copy_kind::host_to_host ? copy_kind::host_to_host : copy_kind::device_to_host,
      kernels_);
  device_.synchronize_stream(kernels_);
  if (std::memcmp(seen.data(), memory_.slot(last % all.slots), seen.size()) != 0) {
    throw error(errc::format, concat(mode_.name(), ": the last chunk is not where it belongs"));
  }
}

} // namespace saeta::bench
