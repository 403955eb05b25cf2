// Modes of sending page-locked chunks to the device, and the class that sends them.
#pragma once

#include "saeta/device/backend.hpp"
#include "saeta/device/join.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace saeta::bench {

/// How the host learns that the copy of a chunk has finished, so that its slot can be filled again.
enum class notice {
  none,        ///< it does not: the upper limit of the rate
  words,       ///< after each copy the stream writes a word of host memory
  every_other, ///< after every second copy of a stream, the stream writes such a word for both
  events,      ///< an event is recorded after each copy, and the host queries it
  kernels      ///< the scattering kernel writes the word
};

/// Where the kernel runs that scatters the pieces of a chunk to their final addresses.
enum class scattering {
  none,   ///< no kernel: the chunk is copied to its final address
  behind, ///< after the copy, on the same stream
  aside   ///< on a stream of its own
};

/// How chunks are sent, in one variant of the measurement.
struct send_mode {
  notice learns = notice::none;
  scattering scatters = scattering::none;
  std::size_t streams = 1; ///< streams that copies are distributed over

  [[nodiscard]] std::string name() const;
};

struct sizes {
  std::size_t chunks = 64;
  std::size_t slots = 16;
  std::size_t chunk_bytes = std::size_t{4} << 20;
  std::size_t piece_bytes = std::size_t{64} << 10;
};

/// The memory of a measurement, used by all variants in turn: page-locked slots and their words on the host;
/// landing buffers, one for each slot, and the targets of all chunks on the device.
class chunk_memory {
public:
  chunk_memory(std::shared_ptr<backend> device, const sizes& all);
  chunk_memory(const chunk_memory&) = delete;
  chunk_memory& operator=(const chunk_memory&) = delete;
  ~chunk_memory();

  [[nodiscard]] backend& device() const noexcept { return *device_; }
  [[nodiscard]] const sizes& all() const noexcept { return all_; }
  /// The kind of the copies from a slot to the device.
  [[nodiscard]] copy_kind kind() const noexcept {
    return device_->device().kind == device_kind::cpu ? copy_kind::host_to_host : copy_kind::host_to_device;
  }
  [[nodiscard]] std::byte* slot(std::size_t number) const noexcept { return slots_ + number * slot_bytes(); }
  [[nodiscard]] std::byte* landing(std::size_t slot) const noexcept {
    return landings_ + slot * slot_bytes();
  }
  [[nodiscard]] std::byte* target(std::size_t chunk) const noexcept {
    return slab_ + chunk * all_.chunk_bytes;
  }
  /// Bytes of a chunk followed by the steps of its kernel.
  [[nodiscard]] std::size_t slot_bytes() const noexcept;
  /// The maximum number of steps for a chunk: one for each piece, and one that writes the word.
  [[nodiscard]] std::size_t most_steps() const noexcept { return all_.chunk_bytes / all_.piece_bytes + 1; }
  /// The word of a slot: 0 when no copy from it is in flight. Words are a cache line apart.
  [[nodiscard]] std::uint32_t* word(std::size_t slot) const noexcept { return words_ + slot * word_stride; }

private:
  static constexpr std::size_t word_stride = 64 / sizeof(std::uint32_t);

  std::shared_ptr<backend> device_;
  sizes all_;
  std::byte* slots_;
  std::byte* landings_;
  std::byte* slab_;
  std::uint32_t* words_;
};

/// Sends chunks in one variant. `send` may be called by several threads; `left` by one thread at a time for
/// each slot.
class sender {
public:
  sender(chunk_memory& memory, const send_mode& chosen);
  sender(const sender&) = delete;
  sender& operator=(const sender&) = delete;
  ~sender();

  void send(std::size_t slot, std::size_t chunk);
  /// Returns whether the copy from this slot has finished.
  [[nodiscard]] bool left(std::size_t slot);
  /// Waits for all queued copies and kernels.
  void finish();
  /// Checks the last chunk on the device. Call it after `finish`. @throws error format if the bytes differ
  void require_last() const;

private:
  struct slot_state {
    event_handle copied{};                   ///< recorded after the slot's last copy
    event_handle scattered{};                ///< recorded after its last kernel
    std::atomic<std::size_t> teller{untold}; ///< the slot whose word reports the end of this slot's copy
  };
  static constexpr std::size_t untold = static_cast<std::size_t>(-1);

  [[nodiscard]] std::vector<join_step> steps_of(std::size_t slot, std::size_t chunk) const;
  void launch(std::size_t slot, std::span<const join_step> steps, const std::byte* described,
              stream_handle copies);
  void tell(std::size_t slot, std::size_t stream);

  chunk_memory& memory_;
  backend& device_;
  send_mode mode_;
  std::mutex turn_;
  std::vector<stream_handle> copies_;
  stream_handle kernels_;
  std::vector<slot_state> slots_;
  std::vector<std::size_t> waiting_; ///< for each stream: the slot whose copy is not followed by a word yet
  std::size_t sent_ = 0;
};

} // namespace saeta::bench
