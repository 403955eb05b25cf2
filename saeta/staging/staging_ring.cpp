#include "saeta/staging/staging_ring.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/base/pages.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/observe/read_clock.hpp"
#include "saeta/staging/chunk_cutter.hpp"
#include "saeta/staging/host_pool.hpp"
#include "saeta/staging/lane_stream.hpp"
#include "saeta/staging/lane_words.hpp"
#include "saeta/staging/shared_chunks.hpp"
#include "saeta/staging/shared_movement.hpp"
#include "saeta/staging/staging_lane.hpp"
#include "saeta/staging/streaming_copy.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <thread>

#include <unistd.h>

namespace saeta {
namespace {

/// Enough threads for sources that the system reads (pread). Memory alone is read as fast by eight.
constexpr std::size_t most_default_threads = 16;
// The chunks of a ring (options.hpp). While some are filled, others are in flight.
constexpr std::size_t shared_chunk_count = 12;
constexpr std::size_t lane_chunk_count = 3; ///< of each thread
/// Maximum bytes of a chunk that a thread fills alone. Larger ones would add up, because each thread has its
/// own. Large transfers use the shared chunks, which are twice as large.
constexpr std::size_t most_lane_bytes = 4u << 20;
/// Minimum bytes of a slice. A chunk has a slice for each thread, but the caller alone would finish smaller
/// slices before the other threads are awake.
constexpr std::size_t least_slice_bytes = 64u << 10;
/// One thread copies this much in about the time that others need to wake up.
constexpr std::size_t alone_bytes = 256u << 10;
/// Streams that take the shared chunks to the device in turn, so that a copy does not wait for the word
/// written after the previous copy. More streams were not faster.
constexpr std::size_t shared_streams = 2;

void plain_copy(std::byte* target, const std::byte* source, std::size_t bytes) noexcept {
  std::memcpy(target, source, bytes);
}

std::size_t thread_count(const staging_options& options) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return options.threads != 0 ? options.threads : std::min(cores, most_default_threads);
}

/// Bytes of a chunk that a thread fills alone: the largest power of two with which all chunks fit into the
/// pinned bytes. Page-locked blocks of other sizes would be rounded up.
std::size_t lane_bytes_for(const staging_options& options) {
  const std::size_t lane_sized = 2 * shared_chunk_count + lane_chunk_count * thread_count(options);
  return std::clamp(std::bit_floor(options.pinned_bytes / lane_sized), chunk_cutter::least, most_lane_bytes);
}

/// Fills `target` from a source that may lie in a mapped file. There pread is faster than faulting the pages
/// in.
void fetch(std::byte* target, const std::byte* source, std::size_t bytes, const file_region& file) {
  const bool mapped =
      file.descriptor >= 0 && source >= file.mapped && source + bytes <= file.mapped + file.bytes;
  if (!mapped) {
    std::memcpy(target, source, bytes);
    return;
  }
  const timed_part timed(read_part::file, bytes);
  std::size_t position = file.file_offset + static_cast<std::size_t>(source - file.mapped);
  while (bytes != 0) {
    const ssize_t got = ::pread(file.descriptor, target, bytes, static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      const int number = errno;
      const std::string what = concat("reading ", bytes, " bytes at file offset ", position);
      throw got < 0 ? os_error(what, number) : error(errc::io, concat(what, ": the file was truncated"));
    }
    target += got;
    position += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

/// Writes the part of a plan that falls into [begin, end) of the slab to `target`. Gaps become zeros.
void gather(std::byte* target, std::span<const segment> segments, std::size_t begin, std::size_t end,
            const file_region& file) {
  const auto first = std::partition_point(segments.begin(), segments.end(),
                                          [&](const segment& s) { return s.target + s.bytes <= begin; });
  std::size_t at = begin;
  for (auto s = first; s != segments.end() && s->target < end; ++s) {
    const std::size_t from = std::max(begin, s->target);
    const std::size_t to = std::min(end, s->target + s->bytes);
    std::memset(target + (at - begin), 0, from - at);
    fetch(target + (from - begin), s->source + (from - s->target), to - from, file);
    at = to;
  }
  std::memset(target + (at - begin), 0, end - at);
}

/// An upload: fills the chunks of a slab from the segments of its plan.
class gathered_upload final : public shared_movement {
public:
  /// @param slab  on the device
  gathered_upload(context& ctx, std::size_t slots, std::span<std::byte> slab, std::size_t chunk_bytes,
                  std::size_t slice_bytes, const transfer_plan& plan, const file_region& file)
      : shared_movement(slots), ctx_(ctx), slab_(slab), chunk_bytes_(chunk_bytes), slice_bytes_(slice_bytes),
        plan_(plan), file_(file) {}

  void fill(std::size_t slot, std::size_t chunk, std::size_t slice) override {
    const std::size_t begin = chunk * chunk_bytes_ + slice * slice_bytes_;
    const std::size_t end = std::min(end_of(chunk), begin + slice_bytes_);
    if (begin < end) {
      const timed_part timed(read_part::copy, end - begin);
      gather(pinned(slot) + slice * slice_bytes_, plan_.segments(), begin, end, file_);
    }
  }
  void end(staging_lane& lane, std::size_t slot, std::size_t chunk) override {
    const std::size_t first = chunk * chunk_bytes_;
    ctx_.copies().copy(slab_.data() + first, pinned(slot), end_of(chunk) - first, copy_kind::host_to_device,
                       lane.stream());
    lane.mark(staged(slot));
  }

private:
  [[nodiscard]] std::size_t end_of(std::size_t chunk) const {
    return std::min(slab_.size(), (chunk + 1) * chunk_bytes_);
  }

  context& ctx_;
  std::span<std::byte> slab_;
  std::size_t chunk_bytes_;
  std::size_t slice_bytes_;
  const transfer_plan& plan_;
  const file_region& file_;
};

} // namespace

/// One copy of at most a chunk.
struct SAETA_LOCAL staging_ring::piece {
  const std::byte* source;
  std::byte* target;
  std::size_t bytes;
  copy_kind kind;

  static std::vector<piece> of(const context& ctx, std::span<const download_range> ranges,
                               std::size_t chunk) {
    std::vector<piece> pieces;
    for (const download_range& r : ranges) {
      const copy_kind kind = ctx.copies().kind_between(r.source.kind(), memory_kind::host);
      for (std::size_t at = 0; at < r.source.size(); at += chunk) {
        pieces.push_back({reinterpret_cast<const std::byte*>(r.source.address()) + at, r.target + at,
                          std::min(chunk, r.source.size() - at), kind});
      }
    }
    return pieces;
  }
};

std::shared_ptr<staging_ring> staging_ring::of(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  auto& ring = ctx->services().of<staging_ring>(
      [&] { return std::unique_ptr<staging_ring>(new staging_ring(ctx->root(), ctx->options().staging)); });
  return {ctx, &ring};
}

staging_ring::staging_ring(context& ctx, const staging_options& options)
    : ctx_(ctx), lane_bytes_(lane_bytes_for(options)), chunk_bytes_(2 * lane_bytes_),
      pool_(std::make_unique<thread_pool>(thread_count(options))) {
  if (ctx_.on_host()) {
    return; // a host context stages nothing
  }
  words_ = std::make_unique<lane_words>(ctx_.clocks()->device().shared_from_this(),
                                        pool_->members() * lane_chunk_count + shared_chunk_count);
  std::size_t word = 0;
  const auto add = [&](lanes& to, std::size_t chunks, std::size_t bytes, lane_stream& by) {
    to.push_back(std::make_unique<staging_lane>(ctx_, bytes, chunks, words_->at(word), by));
    word += chunks;
  };
  const auto new_stream = [this] { return std::make_unique<lane_stream>(ctx_, lane_stream::kind::own); };
  std::generate_n(std::back_inserter(streams_), pool_->members(), new_stream);
  std::generate_n(std::back_inserter(shared_streams_), shared_streams + 1, new_stream);
  work_stream_.push_back(std::make_unique<lane_stream>(ctx_, lane_stream::kind::work));
  for (const auto& by : streams_) {
    add(lanes_, lane_chunk_count, lane_bytes_, *by);
  }
  for (std::size_t i = 0; i < shared_chunk_count; ++i) {
    add(shared_, 1, chunk_bytes_, *work_stream_.front());
    longest_sent_.push_back(i);
  }
}

staging_ring::~staging_ring() = default;

std::size_t staging_ring::threads() const noexcept { return pool_->members(); }

buffer staging_ring::upload(const std::shared_ptr<context>& into, const transfer_plan& plan, tag label,
                            const file_region& file) {
  require_argument(into, "into");
  const stream_ref work = ctx_.work_stream();
  buffer slab = buffer::allocate(into, plan.slab_bytes(), work, label);
  if (slab.size() == 0) {
    return slab;
  }
  use_token token(work, {writes(slab)});
  auto* const target = token.span<std::byte>(slab).data();
  ctx_.copies().count_transfer(ctx_.on_host() ? copy_kind::host_to_host : copy_kind::host_to_device);
  if (ctx_.on_host()) {
    const auto turn = turn_.lock("a transfer");
    const std::size_t tasks = (slab.size() + lane_bytes_ - 1) / lane_bytes_;
    pool_->run(tasks, [&](std::size_t, std::size_t task) {
      const std::size_t begin = task * lane_bytes_;
      const std::size_t end = std::min(slab.size(), begin + lane_bytes_);
      const timed_part timed_task(read_part::task);
      const timed_part timed(read_part::copy, end - begin);
      // Here the slab itself is the staging chunk.
      gather(target + begin, plan.segments(), begin, end, file);
      ctx_.copies().count().host_to_host.add_call(end - begin);
    });
    return slab;
  }
  stage(target, slab.size(), plan, file);
  token.finish();
  return slab;
}

void staging_ring::stage(std::byte* target, std::size_t bytes, const transfer_plan& plan,
                         const file_region& file) {
  const std::size_t chunk_bytes = chunk_for(bytes, least_chunk_bytes);
  const std::size_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  const slicing slices = slices_of(std::min(bytes, chunk_bytes));
  gathered_upload moved(ctx_, shared_.size(), {target, bytes}, chunk_bytes, slices.bytes, plan, file);
  run_shared(chunks, slices.count, moved);
}

void staging_ring::download(std::span<const download_range> ranges, bool fresh) {
  std::vector<use> uses;
  std::uint64_t from_device = 0;
  for (const download_range& r : ranges) {
    uses.push_back(reads(r.source));
    const copy_kind kind = ctx_.copies().kind_between(r.source.kind(), memory_kind::host);
    from_device += kind == copy_kind::device_to_host ? r.source.size() : 0;
  }
  ctx_.copies().require_downloads(from_device);
  use_token token(ctx_.work_stream(), uses);
  const std::vector<piece> pieces = piece::of(ctx_, ranges, lane_bytes_);
  if (pieces.empty()) {
    return;
  }
  ctx_.copies().count_transfer(from_device != 0 ? copy_kind::device_to_host : copy_kind::host_to_host);
  if (ctx_.on_host()) {
    const auto turn = turn_.lock("a transfer");
    pool_->run(pieces.size(), [&](std::size_t, std::size_t task) {
      const piece& p = pieces[task];
      ctx_.copies().copy(p.target, p.source, p.bytes, p.kind, token.stream());
    });
    return;
  }
  ctx_.copies().count().synchronizations.fetch_add(1); // the bytes are on the host when this returns
  std::size_t bytes = 0;
  for (const piece& piece : pieces) {
    bytes += piece.bytes;
  }
  if (bytes / pieces.size() >= lane_bytes_ / 2) { // small pieces are not worth a slice
    const std::size_t chunk_bytes = chunk_for(bytes, fresh ? huge_page_bytes : least_chunk_bytes);
    land_together(piece::of(ctx_, ranges, chunk_bytes), chunk_bytes, bytes, fresh);
  } else {
    land_by_lanes(pieces);
  }
  // The words have reported that all bytes are here. The device is still asked once, because others rely on
  // its answer: the owner of the memory and the simulated device.
  synchronize(record(ctx_.work_stream()));
}

void staging_ring::land_by_lanes(std::span<const piece> pieces) {
  const auto turn = turn_.lock("a transfer");
  run_on(streams_, [&](const auto& stream_at) {
    for (const auto& lane : lanes_) {
      lane->abandon(); // left over from a failed download
    }
    pool_->run(pieces.size(), [&](std::size_t member, std::size_t task) {
      stream_at(member);
      staging_lane& lane = *lanes_[member];
      const piece& p = pieces[task];
      auto& chunk = lane.next();
      ctx_.copies().copy(chunk.memory.pointer, p.source, p.bytes, p.kind, lane.stream());
      lane.mark(chunk);
      chunk.landing = {p.target, p.bytes};
    });
    pool_->run(lanes_.size(), [&](std::size_t, std::size_t lane) { lanes_[lane]->land_all(); });
  });
}

/// Lands one piece for each chunk. The copy from the device is queued as soon as the piece has a slot.
class SAETA_LOCAL staging_ring::landed_download final : public shared_movement {
public:
  using copy_function = void (*)(std::byte* target, const std::byte* source, std::size_t bytes) noexcept;

  landed_download(context& ctx, std::size_t slots, std::span<const piece> pieces, std::size_t slice_bytes,
                  copy_function land)
      : shared_movement(slots), ctx_(ctx), pieces_(pieces), slice_bytes_(slice_bytes), land_(land) {}

  [[nodiscard]] bool to_device() const noexcept override { return false; }
  bool prepare(staging_lane& lane, std::size_t slot, std::size_t number) override {
    const piece& p = pieces_[number];
    staging_lane::chunk& chunk = stage(lane, slot);
    ctx_.copies().copy(chunk.memory.pointer, p.source, p.bytes, p.kind, lane.stream());
    lane.mark(chunk);
    return true;
  }
  void begin(staging_lane& lane, std::size_t slot, std::size_t) override { lane.await(staged(slot)); }
  void fill(std::size_t slot, std::size_t number, std::size_t slice) override {
    const piece& p = pieces_[number];
    const std::size_t begin = slice * slice_bytes_;
    const std::size_t end = std::min(p.bytes, begin + slice_bytes_);
    if (begin < end) {
      land_(p.target + begin, pinned(slot) + begin, end - begin);
    }
  }

private:
  context& ctx_;
  std::span<const piece> pieces_;
  std::size_t slice_bytes_;
  copy_function land_;
};

void staging_ring::land_together(std::span<const piece> pieces, std::size_t chunk_bytes, std::size_t bytes,
                                 bool fresh) {
  // If chunks are reused, landed bytes must not evict them from the caches. Pages of fresh memory are in the
  // caches already: they were cleared when a thread first touched them.
  const auto land = fresh || bytes <= shared_.size() * chunk_bytes_ ? plain_copy : streaming_copy;
  const std::size_t largest = pieces.size() == 1 ? pieces.front().bytes : chunk_bytes;
  const slicing slices = fresh ? slices_of_pages(largest) : slices_of(largest);
  landed_download moved(ctx_, shared_.size(), pieces, slices.bytes, land);
  run_shared(pieces.size(), slices.count, moved);
}

void staging_ring::copy(const buffer& target, const buffer& source, stream_ref stream) {
  if (target.size() < source.size()) {
    throw error(errc::out_of_range,
                concat("can't copy ", source.size(), " bytes into a buffer of ", target.size(), " bytes"));
  }
  use_token token(stream, {writes(target), reads(source)});
  const copy_kind kind = ctx_.copies().kind_between(source.kind(), target.kind());
  ctx_.copies().count_transfer(kind);
  ctx_.copies().copy(token.span<std::byte>(target).data(), token.span<const std::byte>(source).data(),
                     source.size(), kind, stream);
  token.finish();
}

std::size_t staging_ring::chunk_for(std::size_t bytes, std::size_t least) const noexcept {
  constexpr std::size_t wanted = 16; // chunks: while one is filled, others are in flight
  return std::clamp(std::bit_ceil(bytes / wanted), std::min(least, chunk_bytes_), chunk_bytes_);
}

staging_ring::slicing staging_ring::slices_of(std::size_t largest) const noexcept {
  const std::size_t most =
      std::clamp<std::size_t>(largest / least_slice_bytes, 1, shared_chunks::most_slices);
  const std::size_t wanted = largest <= alone_bytes ? 1 : std::min(pool_->members_of_call(), most);
  const std::size_t bytes = round_up((largest + wanted - 1) / wanted, host_alignment);
  return {(largest + bytes - 1) / bytes, bytes};
}

/// If several threads touched a huge page for the first time together, each would clear all of it.
staging_ring::slicing staging_ring::slices_of_pages(std::size_t largest) const noexcept {
  const std::size_t count = std::clamp<std::size_t>(largest / huge_page_bytes, 1, shared_chunks::most_slices);
  return {count, round_up((largest + count - 1) / count, host_alignment)};
}

// The caller holds a token on the work stream. The other streams start after the work stream, and it then
// waits for them. One point of the work stream thus covers all, and perhaps copies of a scatter beside it.
template <class Work>
void staging_ring::run_on(const streams& used, const Work& work) {
  const stream_ref ctx = ctx_.work_stream();
  const point start = mark(ctx);
  std::vector<char> begun(used.size(), 0); // each is touched by one thread at a time
  std::exception_ptr failure;
  try {
    work([&](std::size_t number) -> lane_stream& {
      if (begun[number] == 0) {
        used[number]->begin(start);
        begun[number] = 1;
      }
      return *used[number];
    });
  } catch (...) {
    failure = std::current_exception();
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (begun[i] != 0) {
      end(*used[i], failure);
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void staging_ring::run_chains(std::size_t tasks, const lane_work& work) {
  const auto turn = turn_.lock_shared("a transfer");
  run_on(streams_, [&](const auto& stream_at) {
    pool_->run(tasks, [&](std::size_t member, std::size_t task) {
      const timed_part timed(read_part::task);
      stream_at(member);
      work(*lanes_[member], member, task);
    });
  });
}

std::size_t staging_ring::run_shared(std::size_t chunks, std::size_t slices, shared_movement& moved,
                                     clock::time_point last) {
  const auto turn = turn_.lock("a transfer");
  std::size_t begun = 0;
  // One chunk needs no streams beside the work stream, also for its kernels.
  const streams& used = chunks == 1 ? work_stream_ : shared_streams_;
  const std::size_t in_turn = chunks == 1 ? 1 : shared_streams;
  run_on(used, [&](const auto& stream_at) {
    const std::size_t needed = chunks != 1 && moved.uses_kernels() ? in_turn + 1 : in_turn;
    for (std::size_t i = 0; i < needed; ++i) {
      stream_at(i);
    }
    std::size_t slots = 0; // as many as the host's budget has room for; the first one is required
    const std::size_t most = std::min({chunks, shared_.size(), moved.slots()});
    while (slots < most && (shared_[slots]->prepare() || slots == 0)) {
      ++slots;
    }
    std::vector<std::size_t> order = longest_sent_;
    std::erase_if(order, [&](std::size_t slot) { return slot >= slots; });
    for (std::size_t i = 0; i < slots; ++i) {
      shared_[order[i]]->use_stream(*used[i % in_turn]);
    }
    shared_chunks turns(order, chunks, slices, last);
    std::atomic<std::size_t> sent{0};
    std::vector<std::size_t> sent_as(shared_.size(), 0); // each is touched by one thread at a time
    const auto prepare = [&](std::size_t slot, std::size_t chunk) {
      if (chunk < chunks && !moved.prepare(*shared_[slot], slot, chunk)) {
        turns.shorten(chunk);
      }
    };
    for (std::size_t i = 0; i < slots; ++i) {
      prepare(order[i], i);
    }
    const auto part = [&](std::size_t member, std::size_t task) {
      const timed_part timed(read_part::task);
      turns.take_part(
          member, task,
          [&](std::size_t slot, std::size_t chunk) { moved.begin(*shared_[slot], slot, chunk); },
          [&](std::size_t slot, std::size_t chunk, std::size_t slice) { moved.fill(slot, chunk, slice); },
          [&](std::size_t slot, std::size_t chunk, std::size_t next) {
            // Streams alternate in sending order. In slot order one slow thread gives two neighbours the same
            // stream.
            if (moved.to_device()) {
              const std::size_t number = sent++;
              shared_[slot]->use_stream(*used[number % in_turn]);
              moved.end(*shared_[slot], slot, chunk);
              sent_as[slot] = number + 1;
            }
            prepare(slot, next);
          });
    };
    pool_->run(chunks * slices, part, moved.to_device() ? arrival_condition(slots) : nullptr);
    std::ranges::stable_sort(longest_sent_, {}, [&](std::size_t slot) { return sent_as[slot]; });
    begun = turns.begun();
  });
  return begun;
}

/// Returns a condition that tells whether the shared chunks have arrived on the device. It may be called
/// while the ring does something else.
std::shared_ptr<const thread_pool::condition> staging_ring::arrival_condition(std::size_t slots) const {
  return std::make_shared<const thread_pool::condition>([this, slots] {
    return std::all_of(shared_.begin(), shared_.begin() + static_cast<std::ptrdiff_t>(slots),
                       [](const auto& lane) { return lane->all_arrived(); });
  });
}

/// After a failure a copy that no point covers may be in flight. The host waits for it before its chunk or
/// its target is used again.
void staging_ring::end(const lane_stream& used, std::exception_ptr& failure) noexcept {
  if (!failure) {
    try {
      return wait(ctx_.work_stream(), used.done());
    } catch (...) {
      failure = std::current_exception();
    }
  }
  try {
    ctx_.synchronize(used.ref());
  } catch (...) {
    report_current_exception("staging_ring: can't wait for a failed transfer");
  }
}

} // namespace saeta
