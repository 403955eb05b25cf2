// A way to send page-locked chunks to the device, and what the host does about each.
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

/// How the host learns that a chunk has left its memory.
enum class notice {
  none,        ///< not at all: the limit of what a stream of chunks can reach
  words,       ///< the stream writes a word behind each copy
  every_other, ///< behind every second copy of a stream
  events,      ///< an event behind each copy, which one thread asks
  kernels      ///< the kernel behind the copy writes a word
};

/// Where the kernel runs that puts the pieces of a chunk in their places.
enum class scattering {
  none,   ///< there is none: the chunk goes where it belongs
  behind, ///< behind the copy, on its stream
  aside   ///< on a stream of its own
};

struct way {
  notice learns = notice::none;
  scattering scatters = scattering::none;
  std::size_t streams = 1; ///< of copies

  [[nodiscard]] std::string name() const;
};

struct sizes {
  std::size_t chunks = 64;
  std::size_t slots = 16;
  std::size_t chunk_bytes = std::size_t{4} << 20;
  std::size_t piece_bytes = std::size_t{64} << 10;
};

/// The memory that all ways share: the slots, and where their chunks go.
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
  /// A chunk with its steps behind it.
  [[nodiscard]] std::size_t slot_bytes() const noexcept;
  /// The most steps of a chunk: one for each of its pieces, and one for a word.
  [[nodiscard]] std::size_t most_steps() const noexcept { return all_.chunk_bytes / all_.piece_bytes + 1; }
  /// 0 where nothing is on its way, a cache line apart.
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

/// Sends chunks in one way. Threads take turns in `send`. For each slot, one thread at a time calls `left`.
class sender {
public:
  sender(chunk_memory& memory, const way& chosen);
  sender(const sender&) = delete;
  sender& operator=(const sender&) = delete;
  ~sender();

  void send(std::size_t slot, std::size_t chunk);
  [[nodiscard]] bool left(std::size_t slot);
  /// Waits until all has arrived.
  void finish();
  /// After `finish`. @throws error format where the last chunk is not where it belongs
  void require_last() const;

private:
  struct slot_state {
    event_handle copied{};                   ///< behind the slot's last copy
    event_handle scattered{};                ///< behind its last kernel
    std::atomic<std::size_t> teller{untold}; ///< the slot whose word tells that this one's chunk has left
  };
  static constexpr std::size_t untold = static_cast<std::size_t>(-1);

  [[nodiscard]] std::vector<join_step> steps_of(std::size_t slot, std::size_t chunk) const;
  void launch(std::size_t slot, std::span<const join_step> steps, const std::byte* described,
              stream_handle copies);
  void tell(std::size_t slot, std::size_t stream);

  chunk_memory& memory_;
  backend& device_;
  way way_;
  std::mutex turn_;
  std::vector<stream_handle> copies_;
  stream_handle kernels_;
  std::vector<slot_state> slots_;
  std::vector<std::size_t> waiting_; ///< by stream: the slot of whose chunk no word tells yet
  std::size_t sent_ = 0;
};

} // namespace saeta::bench
