#include "saeta/memory/export_hold.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/order/captures.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace saeta {
namespace {

std::vector<std::shared_ptr<storage>> distinct_storages(std::span<const buffer> views) {
  std::vector<std::shared_ptr<storage>> storages;
  storages.reserve(views.size());
  for (const buffer& view : views) {
    if (view.present()) {
      storages.push_back(view.owner());
    }
  }
  if (storages.size() <= 1) {
    return storages;
  }
  std::sort(storages.begin(), storages.end(),
            [](const auto& a, const auto& b) { return a->generation() < b->generation(); });
  storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
  return storages;
}

} // namespace

export_hold::export_hold(std::span<const buffer> views, access mode) : mode_(mode) {
  if (views.size() == 1) { // the fast path: a plain tensor, whose hand-over takes nanoseconds
    first_ = views.front().owner();
  } else if (others_ = distinct_storages(views); !others_.empty()) {
    first_ = std::move(others_.front());
    others_.erase(others_.begin());
  }
  std::set<context*> homes; // built before any export begins, because it may throw
  for (const auto& bytes : others_) {
    // An inherited storage belongs to the parent process, and so do its other views.
    if (!bytes->ctx()->inherited()) {
      homes.insert(bytes->ctx().get());
    }
  }
  if (first_ && !first_->ctx()->inherited()) {
    context* const ctx = first_->ctx().get();
    first_->ordering().begin_export(mode_);
    ctx->copies().count().exports.fetch_add(1);
    homes.erase(ctx);
  }
  for (const auto& bytes : others_) {
    if (!bytes->ctx()->inherited()) {
      bytes->ordering().begin_export(mode_);
    }
  }
  for (context* const home : homes) {
    home->copies().count().exports.fetch_add(1);
  }
}

export_hold::~export_hold() {
  if (first_ && !first_->ctx()->inherited()) {
    first_->ordering().end_export(mode_);
  }
  for (const auto& bytes : others_) {
    if (!bytes->ctx()->inherited()) {
      bytes->ordering().end_export(mode_);
    }
  }
}

void export_hold::end_on(stream_handle last) noexcept {
  const auto end = [&](storage& bytes) {
    context& ctx = *bytes.ctx();
    if (ctx.inherited()) {
      return;
    }
    point_set used;
    bool known = false;
    try {
      known = add_last_use(ctx, stream_ref(*ctx.device_backend(), last), used);
    } catch (...) {
      report_current_exception("a returned view can't be ordered on its stream: its work counts as unknown");
    }
    if (known) {
      bytes.ordering().end_export(mode_, used);
    } else {
      bytes.ordering().end_export(mode_);
    }
  };
  if (first_) {
    end(*first_);
    first_.reset();
  }
  for (const auto& bytes : others_) {
    end(*bytes);
  }
  others_.clear();
}

bool add_last_use(context& ctx, stream_ref used, point_set& to) {
  if (!is_ours(used) && ctx.clocks()->graph_captures().note(used)) {
    return false;
  }
  to.add(mark(used));
  return true;
}

namespace {

/// The points that a reader of one storage must wait for.
point_set points_before_reading(storage& bytes) {
  if (bytes.ctx()->inherited()) {
    bytes.ctx()->require_readable(); // throws for memory of a device; on the host nothing is pending
    return {};
  }
  handover needed = bytes.ordering().find_dependencies(access::read, bytes.tag());
  if (needed.unknown) {
    const point_set covered = bytes.ctx()->root().mark_unknown_work("of a hand-over");
    bytes.ordering().settle(access::read, covered, needed.seen);
    needed.points.add(covered.all());
  }
  return std::move(needed.points);
}

/// The points that a reader of the storages must wait for. They cover unknown writes from now on.
point_set points_before_reading(const std::vector<std::shared_ptr<storage>>& storages) {
  std::vector<handover> needed;
  needed.reserve(storages.size());
  std::map<context*, point_set> everything; // one for each device, whatever the number of buffers
  for (const auto& bytes : storages) {
    if (bytes->ctx()->inherited()) {
      bytes->ctx()->require_readable(); // throws for memory of a device; on the host nothing is pending
      needed.emplace_back();
      continue;
    }
    needed.push_back(bytes->ordering().find_dependencies(access::read, bytes->tag()));
    if (needed.back().unknown) {
      everything[&bytes->ctx()->root()];
    }
  }
  for (auto& [ctx, covered] : everything) {
    covered = ctx->mark_unknown_work("of a hand-over");
  }
  point_set all;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    all.add(needed[i].points.all());
    if (needed[i].unknown) {
      const point_set& covered = everything[&storages[i]->ctx()->root()];
      storages[i]->ordering().settle(access::read, covered, needed[i].seen);
      all.add(covered.all());
    }
  }
  return all;
}

/// The same for buffers.
point_set points_before_reading(std::span<const buffer> views) {
  if (views.size() == 1) {
    return views.front().present() ? points_before_reading(*views.front().owner()) : point_set();
  }
  return points_before_reading(distinct_storages(views));
}

/// The storage of any present buffer; null if all are absent.
const storage* any_of(std::span<const buffer> views) {
  const auto match = std::ranges::find_if(views, [](const buffer& view) { return view.present(); });
  return match == views.end() ? nullptr : match->owner().get();
}

void order_behind(const point_set& before, std::span<const buffer> views, stream_ref stream) {
  if (is_ours(stream) || !timelines::of(stream.owner())->graph_captures().note(stream)) {
    wait(stream, before);
  } else if (const storage* const any = any_of(views)) { // a capture can't wait for work outside of it
    any->ctx()->synchronize(before);
  }
}

} // namespace

void order_handover(std::span<const buffer> views, stream_ref stream) {
  order_behind(points_before_reading(views), views, stream);
}

void order_handover(std::span<const buffer> views, backend& device, stream_handle stream) {
  point_set before = points_before_reading(views);
  // Dropping points known to have passed makes later hand-overs cheaper. An open epoch has no event yet.
  before.remove_if([](const point& point) { return has_epoch_ended(point) && is_known_passed(point); });
  if (!before.empty() || device.capturing(stream)) {
    order_behind(before, views, stream_ref(device, stream));
  }
}

std::optional<event> handover_event(const std::shared_ptr<context>& ctx, std::span<const buffer> views) {
  require_argument(ctx, "ctx");
  point_set before = points_before_reading(views);
  if (drop_passed(before)) {
    return std::nullopt;
  }
  const stream_ref work = ctx->work_stream();
  wait(work, before);
  event event(ctx->device_backend());
  event.ref().record(work);
  return event;
}

void synchronize_handover(std::span<const buffer> views) {
  const point_set before = points_before_reading(views);
  if (!before.empty()) {
    any_of(views)->ctx()->synchronize(before);
  }
}

} // namespace saeta
