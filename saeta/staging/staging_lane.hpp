// A staging lane: pinned chunks and the stream that they travel on.
//
// Owner     The staging ring, which also owns the streams. The lanes of shared chunks share their streams.
//           Chunks are made on first use and kept, because page-locking costs milliseconds. They are charged
//           to the host's budget. If it has no room for another chunk, the lane continues with those it has.
// Order     A chunk is handed out again only after its last copy has finished, so at most all chunks are in
//           flight.
// Thread    One at a time. Any thread may ask whether chunks have arrived while no chunk is being made.
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/staging/lane_stream.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

class SAETA_LOCAL staging_lane {
public:
  /// @param words  word of the first chunk; each chunk has one (lane_words.hpp)
  /// @param by     must outlive the lane, and must have begun before the lane is used
  staging_lane(context& ctx, std::size_t chunk_bytes, std::size_t chunks, std::uint32_t* words,
               lane_stream& by);
  staging_lane(const staging_lane&) = delete;
  staging_lane& operator=(const staging_lane&) = delete;
  ~staging_lane();

  /// Moves the next chunks to another stream. If a chunk is in flight, that stream must have begun after it.
  void use_stream(lane_stream& by) noexcept { stream_ = &by; }
  [[nodiscard]] stream_ref stream() const { return stream_->ref(); }

  /// One pinned chunk whose earlier copies have finished.
  struct chunk {
    block memory;
    std::uint32_t* word = nullptr; ///< the number of `marks` that the device has reached
    std::atomic<std::uint32_t> marks{0};
    std::uint64_t taken = 0; ///< value of the lane's counter when the chunk was last handed out
    /// Target of a downloaded chunk, filled after its copy has finished.
    struct landing {
      std::byte* target = nullptr;
      std::size_t bytes = 0;
    } landing;
  };
  /// Returns a chunk to fill, after landing what it holds. Prefers the free chunk used last, which may still
  /// be in the processor's cache. If none is free it makes another chunk, or waits for the one in flight for
  /// the longest time. @throws error budget_exceeded, naming the host's budget, and out_of_memory if the
  /// first chunk cannot be made.
  chunk& next();
  /// Marks the chunk as in flight until the work queued on the lane's stream so far is done.
  void mark(chunk& which);
  /// Makes the first chunk if the lane has none. @returns false if there is no room for it (budget_exceeded,
  /// out_of_memory). @throws error for any other reason.
  bool prepare();
  /// Waits for downloaded chunks and copies their bytes to their targets.
  void land_all();
  [[nodiscard]] static bool arrived(const chunk& which) noexcept;
  [[nodiscard]] bool all_arrived() const noexcept;
  [[nodiscard]] bool has_chunks() const noexcept { return made_ != 0; }
  /// Waits until a chunk has arrived. Spins for about the time of one copy before it sleeps, because the
  /// interrupt that ends a sleep comes late.
  void await(const chunk& which);
  /// Forgets chunks that have not landed. After a failure their targets may be gone.
  void abandon() noexcept;

private:
  /// Null if all chunks are in flight.
  chunk* find_free();
  /// Null if the lane has its maximum number of chunks, or if the host's budget has no room and the lane has
  /// at least one chunk.
  chunk* make_chunk();
  chunk& oldest();
  void land(chunk& which);

  context& ctx_;
  std::size_t chunk_bytes_;
  std::size_t most_; ///< maximum number of chunks
  [[nodiscard]] std::span<chunk> made_chunks() noexcept { return {chunks_.data(), made_}; }
  [[nodiscard]] std::span<const chunk> made_chunks() const noexcept { return {chunks_.data(), made_}; }

  std::vector<chunk> chunks_; ///< allocated for the maximum from the start
  std::size_t made_ = 0;
  std::uint64_t taken_ = 0;
  std::uint32_t* words_;
  lane_stream* stream_;
};

} // namespace saeta
