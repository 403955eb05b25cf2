// Scatters of the staging ring.
#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/transfer/detail/chain_windows.hpp"
#include "saeta/transfer/detail/chunk_sequence.hpp"
#include "saeta/transfer/detail/staging_lane.hpp"
#include "saeta/transfer/detail/worker_team.hpp"
#include "saeta/transfer/device_copy.hpp"
#include "saeta/transfer/staging_ring.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace saeta {
namespace {

/// What a worker of the host reads before it puts the pieces in their places: small enough to stay in its cache.
constexpr std::size_t host_chunk_bytes = 256u << 10;
/// Of chunks that one thread decodes: the two that it uses in turns stay in the cache of its core. Larger ones went through memory.
constexpr std::size_t decoded_chunk_bytes = 512u << 10;

/// A step as the kernel takes it. @param base  of what its source counts from; null where it has none.
join_step finished(const scatter_step& step, const std::byte* base, std::byte* slab, std::int64_t* counters) {
  join_step made;
  made.kind = step.kind;
  made.width = step.width;
  made.source = base == nullptr ? nullptr : base + step.source;
  made.target = slab + step.target;
  made.count = step.count;
  made.source_first = step.source_first;
  made.target_first = step.target_first;
  made.addend = step.addend;
  made.nulls = step.counter == scatter_step::not_counted ? nullptr : counters + step.counter;
  return made;
}

/// Steps that need no source but the slab, on the work stream. What describes them takes memory of the device: some at once.
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

std::vector<join_step> fills_of(const scatter_plan& plan, std::byte* slab) {
  std::vector<join_step> fills;
  fills.reserve(plan.fills.size());
  for (const scatter_step& fill : plan.fills) {
    fills.push_back(finished(fill, nullptr, slab, nullptr));
  }
  return fills;
}

std::vector<std::int64_t> check(const std::shared_ptr<context>& into, const scatter_plan& plan,
                                const std::byte* slab, const std::int64_t* tables) {
  std::vector<value_check> checks;
  checks.reserve(plan.checks.size());
  for (const scatter_check& each : plan.checks) {
    value_check& made = checks.emplace_back();
    made.kind = each.kind;
    made.width = each.width;
    made.values = slab + each.values;
    made.second = each.second == scatter_check::absent ? nullptr : slab + each.second;
    made.validity = each.validity == scatter_check::absent
                        ? nullptr
                        : reinterpret_cast<const std::uint8_t*>(slab + each.validity);
    made.bit_offset = each.bit_offset;
    made.count = each.count;
    made.limit = each.limit;
    made.table = each.table == scatter_check::absent ? nullptr : tables + each.table;
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
    join_step& made = steps.emplace_back();
    made.kind = fix.kind;
    made.width = fix.width;
    made.source = slab + fix.target;
    made.target = slab + fix.target;
    made.count = fix.count;
    made.addend = fix.addend;
    if (fix.kind == join_kind::unions) {
      made.ids = reinterpret_cast<const std::int8_t*>(slab + fix.ids);
      made.table = tables + fix.table;
    }
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

/// Memory in which the lanes land their chunks, one each: a lane's stream is done with a chunk before the next one lands. Fewer
/// where the budget has no room for all: it is not asked to make any. Adds to what there is.
void add_landing_memory(const std::shared_ptr<context>& into, std::size_t lanes, std::size_t bytes,
                        std::vector<buffer>& made) {
  std::erase_if(made, [](const buffer& each) { return !each.present(); });
  try {
    while (made.size() < lanes && into->memory_budget()->statistics().remaining >= bytes) {
      made.push_back(buffer::allocate(into, bytes, into->work_stream(), "landing"));
    }
  } catch (const error& refused) {
    if (!is_lack_of_room(refused.code())) {
      throw;
    }
  }
  made.resize(std::max(made.size(), lanes));
}

} // namespace

void staging_ring::in_parallel(std::size_t tasks, const std::function<void(std::size_t task)>& work) {
  const auto turn = turn_.lock("a transfer");
  team_->run(tasks, [&](std::size_t, std::size_t task) { work(task); });
}

/// The parts of a scatter that read the source.
class staging_ring::scattering {
public:
  scattering(staging_ring& ring, const std::shared_ptr<context>& into, const scatter_source& source,
             const scatter_progress& progress, std::span<std::byte> slab, std::int64_t* counters)
      : ring_(ring), home_(ring.home_), into_(into), source_(source), progress_(progress), slab_(slab.data()),
        slab_bytes_(slab.size()), counters_(counters),
        steps_(std::max(ring.team_->members(), ring.shared_.size())), cut_(steps_.size()) {}

  void bring(std::span<const scatter_step> all) {
    const std::size_t chunk_bytes = home_.on_host() ? host_chunk_bytes : ring_.chunk_bytes_;
    const chunk_cutter cutter(all, chunk_bytes, source_.ordered_from, home_.on_host());
    const chunk_cutter rest(all, std::min(chunk_bytes, decoded_chunk_bytes), source_.ordered_from,
                            home_.on_host());
    chain_windows windows(rest, ring_.team_->members(),
                          home_.on_host() ? chunk_cursor() : bring_shared(cutter));
    if (windows.chains() == 0) {
      return;
    }
    if (home_.on_host()) {
      bring_on_host(chunk_bytes, rest, windows);
    } else {
      bring_by_lanes(rest, windows);
    }
  }

private:
  void finish_steps(std::size_t place, const std::byte* base) {
    std::vector<join_step>& made = steps_[place];
    made.clear();
    for (const scatter_step& step : cut_[place].steps) {
      made.push_back(finished(step, base, slab_, counters_));
    }
    number_tiles(made);
  }

  void bring_on_host(std::size_t chunk_bytes, const chunk_cutter& cutter, chain_windows& windows) {
    std::vector<std::vector<std::byte>> scratch(steps_.size());
    const auto bring = [&](std::size_t member, chunk_chain& chain) {
      cut_chunk& chunk = cut_[member];
      const chunk_cursor next = cutter.cut(chain.at, chunk);
      if (chunk.direct) {
        fetch(chunk, source_, chain, slab_ + chunk.steps.front().target);
      } else {
        scratch[member].resize(chunk_bytes);
        fetch(chunk, source_, chain, scratch[member].data());
        finish_steps(member, scratch[member].data());
        join_now(steps_[member]);
      }
      home_.count().host_to_host.add_call(chunk.read);
      fetched_ += chunk.read;
      return next;
    };
    by_windows(windows, [&](std::size_t chains) {
      const auto turn = ring_.turn_.lock("a transfer");
      ring_.team_->run(chains, [&](std::size_t member, std::size_t task) {
        windows.work_off(task, [&](chunk_chain& chain) { return bring(member, chain); });
      });
    });
  }

  void bring_by_lanes(const chunk_cutter& cutter, chain_windows& windows) {
    add_landing_memory(into_, std::min(ring_.team_->members(), windows.chains()), ring_.chunk_bytes_,
                       landing_);
    landing_of_.assign(ring_.team_->members(), nobody);
    landings_taken_ = 0;
    const auto bring = [&](staging_lane& lane, std::size_t member, chunk_chain& chain) {
      cut_chunk& chunk = cut_[member];
      const chunk_cursor next = cutter.cut(chain.at, chunk);
      auto& staged = lane.next();
      fetch(chunk, source_, chain, static_cast<std::byte*>(staged.memory.pointer));
      send(lane, staged, member, chunk.direct ? absent() : landing_for(member));
      return next;
    };
    by_windows(windows, [&](std::size_t chains) {
      ring_.run(chains, [&](staging_lane& lane, std::size_t member, std::size_t task) {
        windows.work_off(task, [&](chunk_chain& chain) { return bring(lane, member, chain); });
      });
    });
  }

  /// The first chunks, whose bytes are read in any order. Returns where they end.
  chunk_cursor bring_shared(const chunk_cutter& cutter) {
    const std::size_t slots = ring_.shared_.size();
    chunk_sequence chunks(cutter);
    const std::size_t known = chunks.find(slots + 1); // of few chunks all
    if (known == 0) {
      return chunks.end();
    }
    add_landing_memory(into_, std::min(slots, known), ring_.chunk_bytes_, landing_);
    chunks.cut(0, cut_.front());
    const slicing slices = ring_.slices_of(known, cut_.front().bytes);
    std::vector<staging_lane::chunk*> staged(slots);
    // On a stream of their own, beside the copies of other chunks: behind a chunk's own copy they held up the next one.
    const lane_stream* const kernels = ring_.shared_streams_.back().get();
    for (std::size_t first = 0; chunks.find(first + 1) > first;) {
      const shared_work work{
          [&](staging_lane& lane, std::size_t slot, std::size_t) { staged[slot] = &lane.next(); },
          [&](std::size_t slot, std::size_t, std::size_t slice) {
            fetch_slice(cut_[slot], slice * slices.bytes, (slice + 1) * slices.bytes,
                        static_cast<std::byte*>(staged[slot]->memory.pointer));
          },
          [&](staging_lane& lane, std::size_t slot, std::size_t) {
            const bool lands = !cut_[slot].direct && slot < landing_.size();
            send(lane, *staged[slot], slot, lands ? landing_[slot] : absent(), kernels);
          },
          [&](staging_lane&, std::size_t slot, std::size_t chunk) {
            return chunks.cut(first + chunk, cut_[slot]);
          },
          true};
      const std::size_t most = known <= slots ? known - first : expected_chunks(first);
      first += ring_.run_shared(most, slices.count, work,
                                chain_windows::clock::now() + chain_windows::window_time);
      tell();
    }
    return chunks.end();
  }

  /// About as many chunks as are left, and no fewer than are under way at once. What lands is what the slab has; steps, and what lies
  /// between pieces, take some room. Too few cost another round of the threads, too many an empty turn each.
  [[nodiscard]] std::size_t expected_chunks(std::size_t brought) const noexcept {
    constexpr std::size_t most = 1024; ///< the link brings fewer in the time of a window
    const std::size_t all = slab_bytes_ / ring_.chunk_bytes_;
    return std::max(std::min(all + all / 64 - std::min(all, brought), most), ring_.shared_.size());
  }

  /// The parts of a chunk that lie between two places of it.
  void fetch_slice(const cut_chunk& chunk, std::size_t begin, std::size_t end, std::byte* pinned) const {
    auto part = std::ranges::partition_point(
        chunk.parts, [&](const chunk_part& each) { return each.at + each.bytes <= begin; });
    for (; part != chunk.parts.end() && part->at < end; ++part) {
      const std::size_t from = std::max(begin, part->at);
      const std::size_t to = std::min(end, part->at + part->bytes);
      source_.read(part->source + (from - part->at), {pinned + from, to - from});
    }
  }

  /// What was fetched into a pinned chunk goes to its places.
  /// @param place    of the chunk and its steps
  /// @param kernels  stream of the kernel where the chunk lands; null: behind the copy
  void send(staging_lane& lane, staging_lane::chunk& staged, std::size_t place, const buffer& lands,
            const lane_stream* kernels = nullptr) {
    constexpr copy_kind kind = copy_kind::host_to_device;
    const cut_chunk& chunk = cut_[place];
    auto* const pinned = static_cast<std::byte*>(staged.memory.pointer);
    fetched_ += chunk.read;
    if (chunk.direct) {
      home_.copy(slab_ + chunk.steps.front().target, pinned, chunk.bytes, kind, lane.stream());
      lane.mark(staged);
      return;
    }
    use_token token(lane.stream(), {writes(lands)});
    std::byte* const base = lands.present() ? token.mutable_data<std::byte>(lands) : pinned;
    finish_steps(place, base);
    const std::size_t at = chunk_cutter::steps_at(chunk);
    const std::size_t step_bytes = steps_[place].size() * sizeof(join_step);
    std::memcpy(pinned + at, steps_[place].data(), step_bytes);
    const auto join = [&](stream_ref on) {
      home_.kernels().join(on.native_handle(), steps_[place], reinterpret_cast<const join_step*>(base + at));
    };
    if (lands.present()) {
      home_.copy(base, pinned, at + step_bytes, kind, lane.stream());
      lane.mark(staged);
      if (kernels != nullptr) { // the landing memory orders the two streams, both ways
        token.finish();
        use_token placing(kernels->ref(), {reads(lands)});
        join(kernels->ref());
        return placing.finish();
      }
      join(lane.stream());
    } else {
      join(lane.stream());
      lane.mark(staged);
      home_.count().host_to_device.add_call(at + step_bytes); // the kernel has moved it
    }
    token.finish();
  }

  /// Where a member lands its chunks, which are as many as there are chains and may be fewer than the members. Absent where there was
  /// no room.
  const buffer& landing_for(std::size_t member) {
    if (landing_of_[member] == nobody) {
      landing_of_[member] = landings_taken_.fetch_add(1);
    }
    return landing_of_[member] < landing_.size() ? landing_[landing_of_[member]] : absent();
  }
  static const buffer& absent() {
    static const buffer none;
    return none;
  }

  /// Calls `run(chains)` for windows, and the outside after each.
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

  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  staging_ring& ring_;
  context& home_;
  const std::shared_ptr<context>& into_;
  const scatter_source& source_;
  const scatter_progress& progress_;
  std::byte* slab_;
  std::size_t slab_bytes_;
  std::int64_t* counters_;                    ///< in the slab
  std::vector<std::vector<join_step>> steps_; ///< of each member's or slot's chunk
  std::vector<cut_chunk> cut_;
  std::vector<buffer> landing_;
  std::vector<std::size_t> landing_of_; ///< by member
  std::atomic<std::size_t> landings_taken_{0};
  std::atomic<std::uint64_t> fetched_{0};
};

scattered staging_ring::scatter(const std::shared_ptr<context>& into, const scatter_plan& plan,
                                const scatter_source& source, tag label, const scatter_progress& progress,
                                const std::function<void()>& after_early) {
  scattered made;
  const stream_ref work = home_.work_stream();
  made.slab = buffer::allocate(into, plan.slab_bytes, work, label);
  if (made.slab.size() == 0) {
    return made;
  }
  use_token token(work, {writes(made.slab)});
  auto* const slab = token.mutable_data<std::byte>(made.slab);
  auto* const counters = reinterpret_cast<std::int64_t*>(slab + plan.counters_at);
  if (!plan.early.empty() || !plan.steps.empty()) {
    home_.count_transfer(home_.on_host() ? copy_kind::host_to_host : copy_kind::host_to_device);
  }
  into->fill(slab, 0, plan.zeroed_bytes, work);
  {
    scattering chunks(*this, into, source, progress, {slab, plan.slab_bytes}, counters);
    chunks.bring(plan.early);
    if (after_early) {
      after_early();
    }
    join_in_slab(into, fills_of(plan, slab));
    chunks.bring(plan.steps);
  }
  join_in_slab(into, changes_of(plan.moves, slab, nullptr));

  std::vector<std::int64_t> tables = plan.tables;
  for (const std::size_t at : plan.addresses) {
    tables[at] += static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(slab));
  }
  const device_copy<std::int64_t> sent(into, tables);
  use_token named(work, {reads(sent.memory())});
  const std::int64_t* const known = tables.empty() ? nullptr : sent.data(named);
  made.bad_rows = check(into, plan, slab, known);
  join_in_slab(into, changes_of(plan.fixes, slab, known));
  made.counted.resize(plan.counters);
  if (plan.counters != 0) {
    into->read_scalars(made.counted, counters, work);
  }
  named.finish();
  token.finish();
  return made;
}

} // namespace saeta
