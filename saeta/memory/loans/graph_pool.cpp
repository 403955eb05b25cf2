#include "saeta/memory/loans/graph_pool.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/loans/span_map.hpp"
#include "saeta/order/captures.hpp"

#include <bit>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace saeta {
namespace {

/// Sizes and addresses of spans are multiples of it.
constexpr std::size_t granularity = device_alignment;
/// Smaller requests take no part of a span above it, so that large requests still find whole spans.
constexpr std::size_t small_span = 1 << 20;

std::size_t span_for(std::size_t bytes, std::size_t alignment) {
  if (alignment != 0 && !std::has_single_bit(alignment)) {
    throw error(errc::invalid_argument, concat("alignment ", alignment, " is not a power of two"));
  }
  const std::size_t padding = alignment > granularity ? alignment - granularity : 0;
  return round_up(checked_add(bytes, padding, "bytes and their alignment"), granularity);
}

void* aligned(std::uintptr_t begin, std::size_t alignment) {
  return reinterpret_cast<void*>(alignment > granularity ? round_up(begin, std::uintptr_t{alignment})
                                                         : begin);
}

} // namespace

/// Captured work and other work of a stream have separate lanes, because the launches of a graph are not
/// ordered with the other work of that stream.
struct SAETA_LOCAL graph_pool::lane {
  stream_ref stream;
  bool captured;
  span_map spans;
  point_set pending; ///< uses outside of the capture of memory that later captures may reuse

  /// In a capture streams are compared by handle, because refs have no identity there.
  [[nodiscard]] bool serves(const stream_ref& other) const {
    return captured == other.made_in_capture() && (captured ? stream.same_handle(other) : stream == other);
  }
};

struct SAETA_LOCAL graph_pool::state {
  struct segment {
    std::shared_ptr<storage> memory;
    std::size_t out = 0; ///< pieces in use
  };

  std::mutex mutex;
  std::deque<lane> lanes; ///< deque: pieces point to its elements
  std::map<std::uintptr_t, segment> segments;
  std::uint64_t openings = 0;
  int open = 0; ///< number of open scopes
  bool released = false;

  // Call these with the lock held.

  lane& lane_of(const stream_ref& stream) {
    for (lane& lane : lanes) {
      if (lane.serves(stream)) {
        return lane;
      }
    }
    lanes.push_back({stream, stream.made_in_capture(), {}, {}});
    return lanes.back();
  }
  std::optional<piece> take(lane& from, std::size_t bytes, std::size_t alignment) {
    const std::size_t most = bytes < small_span ? small_span : std::numeric_limits<std::size_t>::max();
    const auto begin = from.spans.take(bytes, most);
    if (!begin) {
      return std::nullopt;
    }
    ++segment_of(*begin)->second.out;
    return piece{aligned(*begin, alignment), *begin, &from, open > 0 ? openings : 0};
  }
  void add(lane& to, const std::shared_ptr<storage>& memory) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory->pointer());
    const auto added = segments.emplace(begin, segment{memory}).first;
    try {
      to.spans.add(begin, memory->bytes());
    } catch (...) {
      segments.erase(added);
      throw;
    }
    memory->ordering().begin_export(access::write); // never ended: the memory is released after all work
  }
  std::map<std::uintptr_t, segment>::iterator segment_of(std::uintptr_t begin) {
    return std::prev(segments.upper_bound(begin));
  }
};

std::shared_ptr<graph_pool> graph_pool::create(std::shared_ptr<context> ctx, tag label) {
  require_argument(ctx, "ctx");
  return {new graph_pool(std::move(ctx), label), delete_in_own_process{}};
}

graph_pool::graph_pool(std::shared_ptr<context> ctx, tag label)
    : ctx_(std::move(ctx)), label_(label), state_(std::make_unique<state>()) {}

graph_pool::~graph_pool() { release(); }

graph_pool::piece graph_pool::take(std::size_t bytes, stream_ref stream, std::size_t alignment) {
  if (inherited()) {
    throw error(errc::device,
                concat("the graph pool '", label_.name(), "' belongs to the parent of this process"));
  }
  static_cast<void>(ctx_->clocks()->graph_captures().note(stream));
  const std::size_t wanted = span_for(bytes, alignment);
  lane* from = nullptr;
  for (;;) {
    point_set pending;
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->released) {
        throw error(errc::closed, concat("the graph pool '", label_.name(), "' has been released"));
      }
      from = &state_->lane_of(stream);
      drop_passed(from->pending);
      if (from->pending.empty()) {
        if (const auto memory = state_->take(*from, wanted, alignment)) {
          return *memory;
        }
        break;
      }
      pending = from->pending;
    }
    ctx_->synchronize(pending); // a capture can't wait for work outside of it
  }
  std::shared_ptr<storage> memory = allocate_ready(ctx_, wanted, label_, granularity);
  const std::lock_guard lock(state_->mutex);
  state_->add(*from, memory);
  return state_->take(*from, wanted, alignment).value();
}

bool graph_pool::reusable(const piece& ended, const users& by, point& pending) const {
  const lane& from = *ended.from;
  // The per-thread default streams of all threads share one handle.
  if (by.others || (from.captured && from.stream.is_default())) {
    return false;
  }
  if (ctx_->on_host()) { // all work has finished, and foreign streams have no meaning
    return true;
  }
  if (!by.last) {
    const std::lock_guard lock(state_->mutex);
    return state_->open > 0 && ended.opening == state_->openings;
  }
  const stream_ref used(*ctx_->device_backend(), *by.last);
  if (from.captured && from.stream.same_handle(used)) {
    if (!used.made_in_capture()) {
      pending = mark(used);
    }
    return true;
  }
  return from.serves(used);
}

void graph_pool::give_back(const piece& ended, const users& by) noexcept {
  bool again = false;
  point pending;
  try {
    again = reusable(ended, by, pending);
  } catch (...) {
    report_current_exception("memory that is returned to a graph pool is kept until the pool is released");
  }
  std::shared_ptr<storage> unused;
  {
    const std::lock_guard lock(state_->mutex);
    const auto of = state_->segment_of(ended.begin);
    --of->second.out;
    if (state_->released && of->second.out == 0) {
      unused = std::move(of->second.memory);
      state_->segments.erase(of);
    } else if (again) {
      try {
        ended.from->pending.add(pending);
        ended.from->spans.give_back(ended.begin);
      } catch (...) {
        report_current_exception(
            "memory that is returned to a graph pool is kept until the pool is released");
      }
    }
  }
}

void graph_pool::release() noexcept {
  if (inherited()) {
    return;
  }
  std::map<std::uintptr_t, state::segment> unused;
  {
    const std::lock_guard lock(state_->mutex);
    state_->released = true;
    for (auto next = state_->segments.begin(); next != state_->segments.end();) {
      const auto here = next++;
      if (here->second.out == 0) {
        unused.insert(state_->segments.extract(here));
      }
    }
  }
}

void graph_pool::note_opened() noexcept {
  if (!inherited()) {
    const std::lock_guard lock(state_->mutex);
    ++state_->openings;
    ++state_->open;
  }
}

void graph_pool::note_ended() noexcept {
  if (!inherited()) {
    const std::lock_guard lock(state_->mutex);
    --state_->open;
  }
}

std::uint64_t graph_pool::bytes() const {
  if (inherited()) {
    return 0;
  }
  const std::lock_guard lock(state_->mutex);
  std::uint64_t sum = 0;
  for (const auto& [begin, segment] : state_->segments) {
    sum += segment.memory->bytes();
  }
  return sum;
}

graph_pool_scope::graph_pool_scope(std::shared_ptr<graph_pool> pool)
    : announced_(required(pool, "pool")->ctx()->capturing()),
      opened_(std::make_shared<entry>(std::move(pool))) {
  auto& open = of_this_thread();
  std::erase_if(open, [](const auto& each) { return each.expired(); });
  open.push_back(opened_);
  (*opened_)->note_opened();
}

graph_pool_scope::~graph_pool_scope() { (*opened_)->note_ended(); }

std::shared_ptr<graph_pool> graph_pool_scope::open_for(const backend& device) {
  const auto& all = of_this_thread();
  for (auto pool = all.rbegin(); pool != all.rend(); ++pool) {
    const std::shared_ptr<entry> open = pool->lock();
    if (open && (*open)->ctx()->device_backend().get() == &device) {
      return *open;
    }
  }
  return nullptr;
}

std::vector<std::weak_ptr<graph_pool_scope::entry>>& graph_pool_scope::of_this_thread() {
  thread_local std::vector<std::weak_ptr<entry>> open;
  return open;
}

} // namespace saeta
