// The staging ring: pinned chunks between pageable memory or files and the device.
//
// What      All workers fill one chunk after another together (shared_chunks.hpp), while the earlier ones are on their way.
//           Where a source has to be read in its order each worker fills a few chunks of its own.
//           One ring a context, made on first use. On a host context there is nothing to stage: workers copy.
// Order     `upload` returns when every byte has been read from its source; the slab is ordered by its buffer (its last
//           write is every worker's stream). `download` returns when the bytes are in host memory.
// Thread    Any; movements of one context take turns.
// Failure   A failed read (errc::io names the file offset) or device call: the movement ends, nothing is half
//           consumed, the slab goes back. The host waits then for the copies that are on their way.
#pragma once

#include "saeta/base/interruptible_lock.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/staging/scatter.hpp"
#include "saeta/staging/transfer_plan.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saeta {

/// One device range and where its bytes go on the host.
struct download_range {
  buffer source;
  std::byte* target = nullptr;
};

class lane_words;      // in which the device says how far it is
class lane_stream;     // by which chunks travel
class shared_movement; // what is done with the chunks that all workers share
class staging_lane;    // pinned chunks
class worker_team;     // threads, one a lane

class staging_ring final : public context_service {
public:
  /// The ring of a context, made as `context_options::staging` says; the pointer keeps the context alive.
  static std::shared_ptr<staging_ring> of(const std::shared_ptr<context>& ctx);
  staging_ring(const staging_ring&) = delete;
  staging_ring& operator=(const staging_ring&) = delete;
  ~staging_ring() override;

  /// One slab with the plan's segments in it: one allocation, one planned transfer. Gaps of the slab are undefined.
  /// @param into  a context of the ring's device, whose budget is charged.
  [[nodiscard]] buffer upload(const std::shared_ptr<context>& into, const transfer_plan& plan, tag label,
                              const file_region& file = {});
  /// One slab with the plan's pieces in their places: one planned transfer of many ranges of the source. On a device large
  /// copies go straight to their places, and the rest of a chunk lands in memory of the context (chunk_route.hpp); where its budget has
  /// no room for that, kernels read the pinned chunks. The host waits
  /// where the plan counts or checks.
  /// @param after_early  called when the early steps have been read; it may add to what the plan has besides them.
  [[nodiscard]] scattered scatter(const std::shared_ptr<context>& into, const scatter_plan& plan,
                                  const scatter_source& source, tag label,
                                  const scatter_progress& progress = {},
                                  const std::function<void()>& after_early = {});
  /// Calls `work` for each task in [0, tasks) by the ring's threads (worker_team.hpp), in its turn.
  void in_parallel(std::size_t tasks, const std::function<void(std::size_t task)>& work);
  /// One planned transfer for all ranges. @param fresh  nobody has touched the pages of the targets yet.
  void download(std::span<const download_range> ranges, bool fresh = false);
  /// Copies within the device: one planned transfer. Source and target don't overlap.
  void copy(const buffer& target, const buffer& source, stream_ref stream);

private:
  using lanes = std::vector<std::unique_ptr<staging_lane>>;
  using streams = std::vector<std::unique_ptr<lane_stream>>;
  using clock = std::chrono::steady_clock;
  class scattering;

  static constexpr std::size_t least_chunk_bytes = 1u << 20; ///< smaller copies can't fill the link

  staging_ring(context& ctx, const staging_options& options);
  /// A movement by some streams, in its turn: `work(stream_at)` gets at them by number, each for the first time by one thread.
  template <class Work>
  void in_turn(const streams& used, const Work& work);
  void run(std::size_t tasks,
           const std::function<void(staging_lane&, std::size_t lane, std::size_t task)>& work);
  /// The first chunk and those that are begun before `last`. Returns how many. @param chunks  at most
  std::size_t run_shared(std::size_t chunks, std::size_t slices, shared_movement& moved,
                         clock::time_point last = clock::time_point::max());
  [[nodiscard]] std::shared_ptr<const std::function<bool()>> until_arrived(std::size_t slots) const;
  void end(const lane_stream& used, std::exception_ptr& failure) noexcept;
  /// The bytes of an upload to a device.
  void stage(std::byte* target, std::size_t bytes, const transfer_plan& plan, const file_region& file);
  struct piece;
  class landed_download;
  void land_by_lanes(std::span<const piece> pieces);
  /// Downloads of pieces that are worth it by all workers at once.
  /// @param bytes  of all
  void land_together(std::span<const piece> pieces, std::size_t chunk_bytes, std::size_t bytes, bool fresh);
  /// Bytes of each shared chunk of a movement. Small movements have small ones, so that filling and sending overlap; large ones as large as
  /// may be: the link takes 4 us from one copy to the next. @param least  bytes
  [[nodiscard]] std::size_t chunk_for(std::size_t bytes, std::size_t least) const noexcept;
  /// Of each chunk that all workers share; the last one may have fewer bytes.
  struct slicing {
    std::size_t count;
    std::size_t bytes;
  };
  /// @param largest  bytes of a chunk, more than 0
  [[nodiscard]] slicing slices_of(std::size_t largest) const noexcept;
  /// Of at least a huge page each, where a chunk has one.
  [[nodiscard]] slicing slices_of_pages(std::size_t largest) const noexcept;

  context& ctx_;                          ///< owns this
  interruptible_mutex turn_;              ///< one movement at a time
  std::size_t chunk_bytes_;               ///< of those that all workers share
  std::size_t lane_bytes_;                ///< of those of a worker
  std::unique_ptr<lane_words> words_;     ///< of the chunks of all lanes, which end before
  streams streams_;                       ///< of each worker's lane
  streams shared_streams_;                ///< of the chunks that all workers share, and one for their kernels
  lanes lanes_;                           ///< of each worker
  lanes shared_;                          ///< of each chunk that all workers share, with that chunk
  std::vector<std::size_t> longest_sent_; ///< those of `shared_`, the one that was sent last at the end
  std::unique_ptr<worker_team> team_;     ///< ends before all that its threads look at
};

} // namespace saeta
