// A staging lane: pinned chunks, and the stream that they travel on.
//
// Owner     The staging ring, which also owns the streams: the lanes of shared chunks have theirs in common. Chunks are made on first
//           use and kept: page-locking costs milliseconds. They are charged to the host's budget; where it has no room for another one,
//           the lane goes on with those it has.
// Order     A chunk is handed out again only after its last copy has finished, so at most all chunks are on their way.
// Thread    One at a time, but any may ask whether chunks have arrived, as long as none is made.
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/staging/lane_stream.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

class staging_lane {
public:
  /// @param words  one for each chunk (lane_words.hpp); the first one's
  /// @param by     outlives the lane; begun before the lane is used
  staging_lane(context& ctx, std::size_t chunk_bytes, std::size_t chunks, std::uint32_t* words,
               lane_stream& by);
  staging_lane(const staging_lane&) = delete;
  staging_lane& operator=(const staging_lane&) = delete;
  ~staging_lane();

  /// The next chunks travel on another stream. Where one is on its way, the other stream has begun behind it.
  void travel_on(lane_stream& by) noexcept { stream_ = &by; }
  [[nodiscard]] stream_ref stream() const { return stream_->ref(); }

  /// One pinned chunk whose earlier copies have finished.
  struct chunk {
    block memory;
    std::uint32_t* word = nullptr; ///< what the device has done of `marks`
    std::atomic<std::uint32_t> marks{0};
    std::uint64_t taken = 0; ///< the how manieth of the lane it was when it was handed out last
    /// Where a downloaded chunk goes when its copy has finished.
    struct landing {
      std::byte* target = nullptr;
      std::size_t bytes = 0;
    } landing;
  };
  /// A chunk to fill, what it brought landed: of those that are free the one used last, which may still be in the processor's
  /// cache; where all are on their way another one, or the one that has been for the longest time. @throws error budget_exceeded,
  /// naming the host's budget, and out_of_memory for the first chunk.
  chunk& next();
  /// The chunk is on its way until what was queued on the lane's stream so far is done.
  void mark(chunk& which);
  /// Makes the first chunk where there is none. @returns false where the host's budget has no room for it. @throws error for any
  /// other reason.
  bool prepare();
  /// Waits for the chunks that bring something and lands it.
  void land_all();
  [[nodiscard]] static bool arrived(const chunk& which) noexcept;
  [[nodiscard]] bool all_arrived() const noexcept;
  [[nodiscard]] bool has_chunks() const noexcept { return made_ != 0; }
  /// Waits until a chunk has arrived. Looks for as long as one is on its way before it sleeps: the interrupt that ends a sleep comes
  /// late.
  void await(const chunk& which);
  /// Forgets what has not landed: after a failure its target may be gone.
  void abandon() noexcept;

private:
  /// Null where all are on their way.
  chunk* find_free();
  /// Null where the lane has as many as it may, or there is no room and it has others.
  chunk* make_chunk();
  chunk& oldest();
  void land(chunk& which);

  context& ctx_;
  std::size_t chunk_bytes_;
  std::size_t most_; ///< chunks
  [[nodiscard]] std::span<chunk> made() noexcept { return {chunks_.data(), made_}; }
  [[nodiscard]] std::span<const chunk> made() const noexcept { return {chunks_.data(), made_}; }

  std::vector<chunk> chunks_; ///< room for all
  std::size_t made_ = 0;
  std::uint64_t taken_ = 0;
  std::uint32_t* words_;
  lane_stream* stream_;
};

} // namespace saeta
