// The staging ring: pinned chunks between pageable memory or files and the device.
//
// @code
// transfer_plan plan;
// const std::size_t number = plan.add(std::as_bytes(std::span(values)));
// plan.finish();
// const std::shared_ptr<staging_ring> ring = staging_ring::of(ctx);
// const buffer slab = ring->upload(ctx, plan, "values"); // `values` has been read when it returns
// const buffer uploaded = slab.slice(plan.target_of(number), plan.bytes_of(number)); // ordered by the slab
// @endcode
//
// What      All workers fill one chunk after another together (shared_chunks.hpp) while earlier chunks are in
//           flight. If a source has to be read in its order, each worker fills a few chunks of its own. Each
//           context has one ring, made on first use. A host context stages nothing: its workers copy.
// Order     `upload` returns when every byte has been read from its source. The slab is ordered by its
//           buffer: its last write covers the streams of all workers. `download` returns when the bytes are
//           in host memory.
// Thread    Any. Movements of one context take turns, except that scatters decode side by side: when one has
//           no more chains to begin, threads go on with those of another.
// Failure   A failed read (errc::io names the file offset) or device call ends the movement. Nothing is half
//           consumed and the slab is freed. The host first waits for the copies in flight.
#pragma once

#include "saeta/base/export.hpp"
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

namespace SAETA_EXPORT saeta {

/// One device range and where its bytes go on the host.
struct download_range {
  buffer source;
  std::byte* target = nullptr;
};

class lane_words;      // progress words that the device writes
class lane_stream;     // a stream that chunks travel on
class shared_movement; // a movement whose chunks all workers fill together
class staging_lane;    // pinned chunks
class thread_pool;     // threads, one for each lane

class staging_ring final : public context_service {
public:
  /// The ring of a context, configured by `context_options::staging`. The pointer keeps the context alive.
  [[nodiscard]] static std::shared_ptr<staging_ring> of(const std::shared_ptr<context>& ctx);
  staging_ring(const staging_ring&) = delete;
  staging_ring& operator=(const staging_ring&) = delete;
  ~staging_ring() override;

  /// Number of threads that fill chunks, callers among them.
  [[nodiscard]] std::size_t threads() const noexcept;
  /// Uploads the plan's segments into one slab: one allocation, one planned transfer. Gaps of the slab are
  /// undefined.
  /// @param into  a context of the ring's device; its budget is charged
  [[nodiscard]] buffer upload(const std::shared_ptr<context>& into, const transfer_plan& plan, tag label,
                              const file_region& file = {});
  /// Scatters the plan's pieces into one slab: one planned transfer of many ranges of the source. On a device
  /// large copies go straight to their places, and the rest of a chunk lands in memory of the context
  /// (chunk_route.hpp). If its budget has no room for that, kernels read the pinned chunks. The host waits if
  /// the plan counts or checks.
  /// @param after_early  called when the early steps have been read; it may add to the other parts of the
  ///                     plan
  /// @param movement_bytes  of the movement that this scatter is a part of, which chooses the size of chunks;
  ///                        0: it is all of it
  [[nodiscard]] scattered scatter(const std::shared_ptr<context>& into, const scatter_plan& plan,
                                  const scatter_source& source, tag label,
                                  const scatter_progress& progress = {},
                                  const std::function<void()>& after_early = {},
                                  std::uint64_t movement_bytes = 0);
  /// Returns the most bytes of device memory that a scatter takes besides its slab, for chunks that land.
  /// @param movement_bytes  as for `scatter`
  [[nodiscard]] std::size_t landing_bytes(std::size_t slab_bytes,
                                          std::uint64_t movement_bytes) const noexcept;
  /// Calls `work` for each task in [0, tasks) on the ring's threads (thread_pool.hpp). Takes a turn as
  /// movements do.
  void run_in_parallel(std::size_t tasks, const std::function<void(std::size_t task)>& work);
  /// Downloads all ranges in one planned transfer.
  /// @param fresh  the pages of the targets are untouched
  void download(std::span<const download_range> ranges, bool fresh = false);
  /// Copies within the device in one planned transfer. Source and target must not overlap.
  void copy(const buffer& target, const buffer& source, stream_ref stream);

private:
  using lanes = std::vector<std::unique_ptr<staging_lane>>;
  using streams = std::vector<std::unique_ptr<lane_stream>>;
  using clock = std::chrono::steady_clock;
  class scattering;

  static constexpr std::size_t least_chunk_bytes = 1u << 20; ///< smaller copies can't fill the link

  staging_ring(context& ctx, const staging_options& options);
  /// Runs a movement on some streams. The caller holds a turn. `work(stream_at)` gets the streams by number.
  /// Only one thread at a time may ask for the same number.
  template <class Work>
  void run_on(const streams& used, const Work& work);
  using lane_work = std::function<void(staging_lane&, std::size_t lane, std::size_t task)>;
  /// Runs chains of decoded chunks, beside those of other scatters. Each member of the pool has its lane.
  void run_chains(std::size_t tasks, const lane_work& work);
  /// Runs the first chunk and those that begin before `last`. Returns how many.
  /// @param chunks  maximum number of chunks
  std::size_t run_shared(std::size_t chunks, std::size_t slices, shared_movement& moved,
                         clock::time_point last = clock::time_point::max());
  [[nodiscard]] std::shared_ptr<const std::function<bool()>> arrival_condition(std::size_t slots) const;
  void end(const lane_stream& used, std::exception_ptr& failure) noexcept;
  /// Moves the bytes of an upload to a device.
  void stage(std::byte* target, std::size_t bytes, const transfer_plan& plan, const file_region& file);
  struct piece;
  class landed_download;
  void land_by_lanes(std::span<const piece> pieces);
  /// Downloads pieces that are large enough to be shared by all workers.
  /// @param bytes  of all pieces
  void land_together(std::span<const piece> pieces, std::size_t chunk_bytes, std::size_t bytes, bool fresh);
  /// Returns the bytes of each shared chunk of a movement. Small movements use small chunks, so that filling
  /// and sending overlap. Large movements use the largest chunks: the link takes 4 us from one copy to the
  /// next.
  /// @param least  minimum bytes of a chunk
  [[nodiscard]] std::size_t chunk_for(std::size_t bytes, std::size_t least) const noexcept;
  /// Slices of each shared chunk. The last one may have fewer bytes.
  struct slicing {
    std::size_t count;
    std::size_t bytes;
  };
  /// @param largest  bytes of the largest chunk, more than 0
  [[nodiscard]] slicing slices_of(std::size_t largest) const noexcept;
  /// Slices of at least a huge page each, if the chunk has one.
  [[nodiscard]] slicing slices_of_pages(std::size_t largest) const noexcept;

  context& ctx_;                          ///< owns this ring
  interruptible_mutex turn_;              ///< each movement holds it; movements that decode share it
  std::size_t lane_bytes_;                ///< bytes of a worker's own chunk
  std::size_t chunk_bytes_;               ///< bytes of a chunk that all workers share
  std::unique_ptr<lane_words> words_;     ///< words of the chunks of all lanes; outlives the lanes
  streams streams_;                       ///< one for each worker's lane
  streams shared_streams_;                ///< streams for shared chunks, and one for their kernels
  streams work_stream_;                   ///< one, for a movement of a single chunk
  lanes lanes_;                           ///< one for each worker
  lanes shared_;                          ///< one for each shared chunk
  std::vector<std::size_t> longest_sent_; ///< indices of `shared_`, the one sent last at the end
  std::unique_ptr<thread_pool>
      pool_; ///< last, so that it is destroyed before everything that its threads use
};

} // namespace saeta
