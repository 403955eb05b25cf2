// Scatters of the staging ring.
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/pressure.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/observe/read_clock.hpp"
#include "saeta/staging/chain_windows.hpp"
#include "saeta/staging/chunk_route.hpp"
#include "saeta/staging/chunk_sequence.hpp"
#include "saeta/staging/kernel_step.hpp"
#include "saeta/staging/shared_movement.hpp"
#include "saeta/staging/staging_lane.hpp"
#include "saeta/staging/staging_ring.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>

namespace saeta {
namespace {

/// Bytes that a worker of a host context reads before it puts the pieces in their places. They stay in its
/// cache.
constexpr std::size_t host_chunk_bytes = 256u << 10;
/// Bytes of a chunk that one thread decodes. It alternates between two chunks, which stay in the cache of its
/// core. Larger ones went through memory.
constexpr std::size_t decoded_chunk_bytes = 512u << 10;

constexpr std::size_t most_read_by_kernel = 256u << 10;
/// A slab of a device of at most this size is set to 0 as a whole, by one call that costs less than the
/// kernel that would clear its gaps.
constexpr std::size_t most_cleared_bytes = 4u << 20;

/// Runs steps that need no source but the slab, on the work stream. Their descriptions take device memory, so
/// they run in batches.
void join_in_slab(const std::shared_ptr<context>& into, std::vector<join_step> steps) {
  constexpr std::size_t at_once = 1024;
  const stream_ref work = into->work_stream();
  for (std::size_t first = 0; first < steps.size(); first += at_once) {
    const std::span<join_step> some =
        std::span(steps).subspan(first, std::min(at_once, steps.size() - first));
    number_tiles(some);
    const device_copy<join_step> uploaded(into, some);
    use_token token(work, {reads(uploaded.memory())});
    into->kernels().join(work.native_handle(), some, uploaded.data(token));
    token.finish();
  }
}

/// @param cleared  whether all bytes of the slab were 0 before the first step
std::vector<join_step> fills_of(const scatter_plan& plan, std::byte* slab, bool cleared) {
  std::vector<join_step> fills;
  for (const scatter_step& fill : plan.fills) {
    if (!cleared || fill.kind != join_kind::zero) {
      fills.push_back(kernel_step(fill, nullptr, slab, nullptr));
    }
  }
  return fills;
}

std::vector<std::int64_t> check(const std::shared_ptr<context>& into, const scatter_plan& plan,
                                const std::byte* slab, const std::int64_t* tables) {
  std::vector<value_check> checks;
  checks.reserve(plan.checks.size());
  for (const scatter_check& planned : plan.checks) {
    value_check& check = checks.emplace_back();
    check.kind = planned.kind;
    check.width = planned.width;
    check.values = slab + planned.values;
    check.second = planned.second == scatter_check::absent ? nullptr : slab + planned.second;
    check.validity = planned.validity == scatter_check::absent
                         ? nullptr
                         : reinterpret_cast<const std::uint8_t*>(slab + planned.validity);
    check.bit_offset = planned.bit_offset;
    check.count = planned.count;
    check.limit = planned.limit;
    check.table = planned.table == scatter_check::absent ? nullptr : tables + planned.table;
  }
  number_tiles(checks);
  const device_copy<value_check> uploaded(into, checks);
  return kernel_results(
      into, checks.size(), uploaded.memory(), [&](const use_token& token, std::int64_t* bad_rows) {
        into->kernels().check_values(token.stream().native_handle(), checks, uploaded.data(token), bad_rows);
      });
}

std::vector<join_step> changes_of(std::span<const scatter_fix> changes, std::byte* slab,
                                  const std::int64_t* tables) {
  std::vector<join_step> steps;
  steps.reserve(changes.size());
  for (const scatter_fix& fix : changes) {
    steps.push_back(kernel_step(fix, slab, tables));
  }
  return steps;
}

void fetch(const cut_chunk& chunk, const scatter_source& source, chunk_chain& chain, std::byte* target) {
  for (const chunk_part& part : chunk.parts) {
    const std::span<std::byte> to(target + part.at, part.bytes);
    if (part.source < source.ordered_from) {
      source.read(part.source, to);
      continue;
    }
    if (chain.decoding == nullptr) {
      chain.decoding = source.in_order();
    }
    chain.decoding->read(part.source, to);
  }
}

/// Maximum number of chunks in flight together. With fewer slots the threads fill what their caches still
/// hold. If kernels follow, a chunk occupies its landing memory for longer. With 8 MiB each, six and eight of
/// them moved 95.0 and 93.9% of a pinned copy for copies alone, and 89.7 and 90.4% for strings and nulls
/// (H100).
std::size_t most_slots_for(std::span<const scatter_step> steps) {
  constexpr std::size_t of_copies = 6;
  const bool copies =
      std::ranges::all_of(steps, [](const scatter_step& step) { return step.kind == join_kind::copy; });
  return copies ? of_copies : std::numeric_limits<std::size_t>::max();
}

} // namespace

void staging_ring::run_in_parallel(std::size_t tasks, const std::function<void(std::size_t task)>& work) {
  const auto turn = turn_.lock("a transfer");
  pool_->run(tasks, [&](std::size_t, std::size_t task) {
    const timed_part timed(read_part::task);
    work(task);
  });
}

std::size_t staging_ring::landing_bytes(std::size_t slab_bytes, std::uint64_t movement_bytes) const noexcept {
  if (ctx_.on_host() || slab_bytes <= most_read_by_kernel) {
    return 0;
  }
  const std::size_t chunk = chunk_for(std::max<std::size_t>(movement_bytes, slab_bytes), least_chunk_bytes);
  return std::min(slab_bytes / chunk + 1, shared_.size()) * chunk;
}

/// The parts of a scatter that read the source.
class SAETA_LOCAL staging_ring::scattering {
public:
  scattering(staging_ring& ring, const std::shared_ptr<context>& into, const scatter_source& source,
             const scatter_progress& progress, std::span<std::byte> slab, std::int64_t* counters,
             std::uint64_t movement_bytes)
      : ring_(ring), ctx_(ring.ctx_), into_(into), source_(source), progress_(progress), slab_(slab.data()),
        slab_bytes_(slab.size()), movement_bytes_(std::max<std::uint64_t>(movement_bytes, slab.size())),
        counters_(counters), steps_(std::max(ring.pool_->members(), ring.shared_.size())),
        cut_(steps_.size()), routes_(steps_.size()), landing_(steps_.size()), refused_(steps_.size(), 0) {}

  void bring(std::span<const scatter_step> all) {
    chunk_bytes_ = ctx_.on_host() ? host_chunk_bytes : ring_.chunk_for(movement_bytes_, least_chunk_bytes);
    const std::size_t rest_bytes = std::min({chunk_bytes_, ring_.lane_bytes_, decoded_chunk_bytes});
    const chunk_cutter cutter(all, chunk_bytes_, source_.ordered_from, ctx_.on_host());
    const chunk_cutter rest(all, rest_bytes, source_.ordered_from, ctx_.on_host());
    chain_windows windows(rest, ring_.pool_->members_of_call(),
                          ctx_.on_host() ? chunk_cursor() : bring_shared(cutter, all));
    if (windows.chains() == 0) {
      return;
    }
    if (ctx_.on_host()) {
      bring_on_host(rest, windows);
    } else {
      chunk_bytes_ = rest_bytes;
      bring_by_lanes(rest, windows);
    }
  }

private:
  /// Chunks of the source that can be read in any order. A slot is the place of its chunk and its steps.
  class placed_chunks final : public shared_movement {
  public:
    placed_chunks(scattering& all, std::size_t slots, chunk_sequence& chunks, std::size_t slice_bytes)
        : shared_movement(slots), all_(all), chunks_(chunks), slice_bytes_(slice_bytes) {}

    /// @param first  number, in the sequence, of the chunk that the ring calls 0
    /// @param most   chunks that the ring may move together
    void begin_at(std::size_t first, std::size_t most) noexcept {
      first_ = first;
      single_ = most == 1;
    }
    [[nodiscard]] bool uses_kernels() const noexcept override { return true; }
    bool prepare(staging_lane&, std::size_t slot, std::size_t chunk) override {
      return chunks_.cut(first_ + chunk, all_.cut_[slot]);
    }
    void fill(std::size_t slot, std::size_t, std::size_t slice) override {
      const timed_part timed(read_part::copy);
      all_.fetch_slice(all_.cut_[slot], slice * slice_bytes_, (slice + 1) * slice_bytes_, pinned(slot));
    }
    void end(staging_lane& lane, std::size_t slot, std::size_t) override {
      // Kernels run on their own stream, beside the copies of other chunks. On the stream of their chunk they
      // delayed the next copy.
      all_.send(lane, staged(slot), slot, single_ ? nullptr : all_.ring_.shared_streams_.back().get(),
                single_);
    }

  private:
    scattering& all_;
    chunk_sequence& chunks_;
    std::size_t slice_bytes_;
    std::size_t first_ = 0;
    bool single_ = false;
  };

  void finish_steps(std::size_t place, std::span<const scatter_step> steps, const std::byte* base) {
    std::vector<join_step>& join_steps = steps_[place];
    join_steps.clear();
    for (const scatter_step& step : steps) {
      join_steps.push_back(kernel_step(step, base + step.source, slab_, counters_));
    }
    number_tiles(join_steps);
  }

  void bring_on_host(const chunk_cutter& cutter, chain_windows& windows) {
    std::vector<std::vector<std::byte>> scratch(steps_.size());
    const auto bring = [&](std::size_t member, chunk_chain& chain) {
      const timed_part timed(read_part::copy);
      cut_chunk& chunk = cut_[member];
      const chunk_cursor next = cutter.cut(chain.at, chunk);
      if (chunk.direct) {
        fetch(chunk, source_, chain, slab_ + chunk.steps.front().target);
      } else {
        scratch[member].resize(std::max(scratch[member].size(), chunk.bytes));
        fetch(chunk, source_, chain, scratch[member].data());
        finish_steps(member, chunk.steps, scratch[member].data());
        join_now(steps_[member]);
      }
      ctx_.copies().count().host_to_host.add_call(chunk.read);
      fetched_ += chunk.read;
      return next;
    };
    by_windows(windows, [&](std::size_t chains) {
      const auto turn = ring_.turn_.lock_shared("a transfer");
      ring_.pool_->run(chains, [&](std::size_t member, std::size_t task) {
        const timed_part timed(read_part::task);
        windows.process_chain(task, [&](chunk_chain& chain) { return bring(member, chain); });
      });
    });
  }

  void bring_by_lanes(const chunk_cutter& cutter, chain_windows& windows) {
    const auto bring = [&](staging_lane& lane, std::size_t member, chunk_chain& chain) {
      const timed_part timed(read_part::copy);
      cut_chunk& chunk = cut_[member];
      const chunk_cursor next = cutter.cut(chain.at, chunk);
      auto& staged = lane.next();
      fetch(chunk, source_, chain, static_cast<std::byte*>(staged.memory.pointer));
      send(lane, staged, member);
      return next;
    };
    by_windows(windows, [&](std::size_t chains) {
      ring_.run_chains(chains, [&](staging_lane& lane, std::size_t member, std::size_t task) {
        windows.process_chain(task, [&](chunk_chain& chain) { return bring(lane, member, chain); });
      });
    });
  }

  /// Transfers the first chunks, which can be read in any order. Returns where they end.
  chunk_cursor bring_shared(const chunk_cutter& cutter, std::span<const scatter_step> all) {
    const std::size_t slots = std::min(ring_.shared_.size(), most_slots_for(all));
    chunk_sequence chunks(cutter);
    // All chunks are looked for if there may be few. A search of many would only delay the first one.
    const std::size_t wanted = slab_bytes_ / chunk_bytes_ > slots ? 2 : slots + 1;
    const std::size_t known = chunks.find(wanted);
    if (known == 0) {
      return chunks.end();
    }
    chunks.cut(0, cut_.front());
    const slicing slices = ring_.slices_of(known == 1 ? cut_.front().bytes : chunk_bytes_);
    placed_chunks moved(*this, slots, chunks, slices.bytes);
    for (std::size_t first = 0; chunks.find(first + 1) > first;) {
      const std::size_t most = known < wanted ? known - first : expected_chunks(first);
      moved.begin_at(first, most);
      first += ring_.run_shared(most, slices.count, moved,
                                chain_windows::clock::now() + chain_windows::window_time);
      tell();
    }
    return chunks.end();
  }

  /// Estimates the number of chunks left, at least as many as can be in flight at once. The estimate comes
  /// from the bytes of the slab, plus some room for steps and gaps between pieces. A low one costs another
  /// round of the threads, a high one an empty turn for each chunk.
  [[nodiscard]] std::size_t expected_chunks(std::size_t brought) const noexcept {
    constexpr std::size_t most = 1024; ///< the link brings fewer within a window
    const std::size_t all = slab_bytes_ / chunk_bytes_;
    return std::max(std::min(all + all / 64 + 1 - std::min(all, brought), most), ring_.shared_.size());
  }

  /// Reads the parts of a chunk that lie in [begin, end) of it.
  void fetch_slice(const cut_chunk& chunk, std::size_t begin, std::size_t end, std::byte* pinned) const {
    auto part = std::ranges::partition_point(
        chunk.parts, [&](const chunk_part& part) { return part.at + part.bytes <= begin; });
    for (; part != chunk.parts.end() && part->at < end; ++part) {
      const std::size_t from = std::max(begin, part->at);
      const std::size_t to = std::min(end, part->at + part->bytes);
      source_.read(part->source + (from - part->at), {pinned + from, to - from});
    }
  }

  static constexpr copy_kind to_device = copy_kind::host_to_device;

  /// Sends what was fetched into a pinned chunk to its places.
  /// @param place    of the chunk and its steps
  /// @param kernels  stream of the kernel if the chunk lands; null: the lane's stream, after the copy
  /// @param is_only  the ring moves no other chunk meanwhile
  void send(staging_lane& lane, staging_lane::chunk& staged, std::size_t place,
            const lane_stream* kernels = nullptr, bool is_only = false) {
    const cut_chunk& chunk = cut_[place];
    fetched_ += chunk.read;
    chunk_route& route = routes_[place];
    route.find(chunk);
    if (route.joined.empty()) {
      ctx_.copies().copy_all(placed_copies(staged, place), to_device, lane.stream());
      return lane.mark(staged);
    }
    const bool tiny = is_only && chunk.bytes <= most_read_by_kernel;
    if (tiny || !landing_at(place).present()) {
      send_by_kernel(lane, staged, place);
    } else {
      send_by_landing(lane, staged, place, landing_[place], kernels);
    }
  }

  /// Bytes that a kernel changes or moves land in device memory first, by the copy that places the rest.
  void send_by_landing(staging_lane& lane, staging_lane::chunk& staged, std::size_t place,
                       const buffer& lands, const lane_stream* kernels) {
    use_token token(lane.stream(), {writes(lands)});
    auto* const base = token.span<std::byte>(lands).data();
    const join_step* const steps = describe_steps(staged, place, base);
    const std::byte* const pinned = pinned_of(staged);
    std::vector<copy_range> copies = placed_copies(staged, place);
    for (const chunk_range& range : routes_[place].landed) {
      copies.push_back({base + range.begin, pinned + range.begin, range.end - range.begin});
    }
    ctx_.copies().copy_all(copies, to_device, lane.stream());
    lane.mark(staged);
    if (kernels == nullptr) {
      ctx_.kernels().join(lane.stream().native_handle(), steps_[place], steps);
      return token.finish();
    }
    token.finish(); // the landing memory orders the two streams in both directions
    use_token placing(kernels->ref(), {reads(lands)});
    ctx_.kernels().join(kernels->ref().native_handle(), steps_[place], steps);
    placing.finish();
  }

  /// The kernel reads the pinned chunk over the link. For a few bytes that takes less time than a copy and
  /// memory to land in. For more of them it is used if the budget has no room for that memory.
  void send_by_kernel(staging_lane& lane, staging_lane::chunk& staged, std::size_t place) {
    const join_step* const steps = describe_steps(staged, place, pinned_of(staged));
    if (const std::vector<copy_range> copies = placed_copies(staged, place); !copies.empty()) {
      ctx_.copies().copy_all(copies, to_device, lane.stream());
    }
    ctx_.kernels().join(lane.stream().native_handle(), steps_[place], steps);
    lane.mark(staged);
    for (const chunk_range& range : routes_[place].landed) { // the kernel has moved these bytes
      ctx_.copies().count().host_to_device.add_call(range.end - range.begin);
    }
  }

  [[nodiscard]] static std::byte* pinned_of(const staging_lane::chunk& staged) {
    return static_cast<std::byte*>(staged.memory.pointer);
  }

  [[nodiscard]] std::vector<copy_range> placed_copies(const staging_lane::chunk& staged, std::size_t place) {
    std::vector<copy_range> copies;
    for (const scatter_step& step : routes_[place].placed) {
      copies.push_back(
          {slab_ + step.target, pinned_of(staged) + step.source, static_cast<std::size_t>(step.count)});
    }
    return copies;
  }

  /// Writes the kernel's steps behind the bytes of the chunk, with which they land. Returns where the kernel
  /// finds them.
  /// @param base  start of the memory that the kernel reads
  const join_step* describe_steps(const staging_lane::chunk& staged, std::size_t place, std::byte* base) {
    chunk_route& route = routes_[place];
    finish_steps(place, route.joined, base);
    const std::size_t at = chunk_cutter::steps_at(cut_[place]);
    const std::size_t bytes = steps_[place].size() * sizeof(join_step);
    std::memcpy(pinned_of(staged) + at, steps_[place].data(), bytes);
    route.land(at, at + bytes);
    return reinterpret_cast<const join_step*>(base + at);
  }

  /// Memory in which the chunks of a place land, made for the first one. A stream is done with a chunk before
  /// the next one lands. Absent if the budget had no room. The budget is not asked to make room.
  const buffer& landing_at(std::size_t place) {
    buffer& landing = landing_[place];
    if (landing.size() >= chunk_bytes_ || refused_[place] != 0) {
      return landing;
    }
    const std::lock_guard lock(landing_mutex_); // one thread at a time looks whether there is room
    const hooks_suspended no_hooks;             // a hook that moves bytes would wait for this movement
    landing = {};
    try {
      if (into_->memory_budget()->statistics().remaining >= chunk_bytes_) {
        landing = buffer::allocate(into_, chunk_bytes_, into_->work_stream(), "landing");
      }
    } catch (const error& refused) {
      if (!is_lack_of_room(refused.code())) {
        throw;
      }
    }
    refused_[place] = landing.present() ? 0 : 1;
    return landing;
  }

  /// Calls `run(chains)` for each window, and reports progress after it.
  template <class Run>
  void by_windows(chain_windows& windows, const Run& run) const {
    while (const std::size_t chains = windows.open()) {
      run(chains);
      windows.close();
      tell();
    }
  }
  void tell() const {
    check_interrupt();
    if (progress_) {
      progress_(fetched_.load(std::memory_order_relaxed));
    }
  }

  staging_ring& ring_;
  context& ctx_;
  const std::shared_ptr<context>& into_;
  const scatter_source& source_;
  const scatter_progress& progress_;
  std::byte* slab_;
  std::size_t slab_bytes_;
  std::size_t movement_bytes_;
  std::size_t chunk_bytes_ = 0;               ///< of the chunks that are cut now
  std::int64_t* counters_;                    ///< in the slab
  std::vector<std::vector<join_step>> steps_; ///< by member or slot: steps of its chunk
  std::vector<cut_chunk> cut_;
  std::vector<chunk_route> routes_;
  std::mutex landing_mutex_;
  std::vector<buffer> landing_; ///< by member or slot
  std::vector<char> refused_;
  std::atomic<std::uint64_t> fetched_{0};
};

scattered staging_ring::scatter(const std::shared_ptr<context>& into, const scatter_plan& plan,
                                const scatter_source& source, tag label, const scatter_progress& progress,
                                const std::function<void()>& after_early, std::uint64_t movement_bytes) {
  require_argument(into, "into");
  scattered result;
  const stream_ref work = ctx_.work_stream();
  result.slab = buffer::allocate(into, plan.slab_bytes, work, label);
  if (result.slab.size() == 0) {
    return result;
  }
  use_token token(work, {writes(result.slab)});
  auto* const slab = token.span<std::byte>(result.slab).data();
  auto* const counters = reinterpret_cast<std::int64_t*>(slab + plan.counters_at);
  if (!plan.early.empty() || !plan.steps.empty()) {
    ctx_.copies().count_transfer(ctx_.on_host() ? copy_kind::host_to_host : copy_kind::host_to_device);
  }
  const bool cleared = !ctx_.on_host() && plan.slab_bytes <= most_cleared_bytes;
  into->copies().fill(slab, 0, cleared ? plan.slab_bytes : plan.zeroed_bytes, work);
  {
    scattering chunks(*this, into, source, progress, {slab, plan.slab_bytes}, counters, movement_bytes);
    chunks.bring(plan.early);
    if (after_early) {
      after_early();
    }
    join_in_slab(into, fills_of(plan, slab, cleared));
    chunks.bring(plan.steps);
  }
  if (read_clock::running() && !ctx_.on_host()) { // so that what follows is not counted with the copies
    const timed_part timed(read_part::link);
    ctx_.synchronize(work);
  }
  const timed_part timed(read_part::kernels);
  join_in_slab(into, changes_of(plan.moves, slab, nullptr));

  std::vector<std::int64_t> tables = plan.tables;
  for (const std::size_t at : plan.addresses) {
    tables[at] += static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(slab));
  }
  const device_copy<std::int64_t> sent(into, tables);
  use_token named(work, {reads(sent.memory())});
  const std::int64_t* const known = tables.empty() ? nullptr : sent.data(named);
  result.bad_rows = check(into, plan, slab, known);
  join_in_slab(into, changes_of(plan.fixes, slab, known));
  result.counted.resize(plan.counters);
  if (plan.counters != 0) {
    into->copies().read_scalars(result.counted, counters, work);
  }
  named.finish();
  token.finish();
  return result;
}

} // namespace saeta
