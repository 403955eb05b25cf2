#include "schedules/program.hpp"

#include "saeta/base/text.hpp"
#include "schedules/random_program.hpp"

#include <algorithm>

namespace saeta::schedules {

random_program::random_program(std::uint64_t seed, const program_options& chosen)
    : draw_(seed), chosen_(chosen) {
  sites_.reserve(chosen.devices);
  for (unsigned i = 0; i < chosen.devices; ++i) {
    const auto beside = sites_.empty() ? nullptr : sites_.front().device;
    sites_.push_back(make_site(seed, static_cast<std::int32_t>(i), beside, budget_bytes, draw_));
  }
  set_fail_percent(sites_, chosen.fail_percent);
}

void random_program::run() {
  for (unsigned i = 0; i < chosen_.steps; ++i) {
    checked_step(i);
    if (draw_.chance(5)) {
      check_counters();
    }
  }
  chosen_.fail_percent = 0;
  set_fail_percent(sites_, 0);
  end();
}

std::string random_program::findings() const {
  std::string all;
  for (const std::string& line : found_) {
    all += line + "\n";
  }
  for (const sim::race& r : sites_.front().device->races()) {
    all += r.text + "\n";
  }
  return all;
}

void random_program::checked_step(unsigned number) {
  at_risk_.clear();
  excused_ = unfenced_pending_;
  const char* name = "";
  try {
    name = step();
  } catch (const error& e) {
    if (chosen_.fail_percent == 0 || e.code() != errc::device) {
      found_.push_back(concat("step ", number, ": unexpected error: ", e.what()));
    }
    for (known* const hit : at_risk_) {
      hit->certain = false;
    }
  }
  if (chosen_.captures && capture_ && capture_->was_ended()) {
    if (!excused_) {
      found_.push_back(concat("step ", number, " (", name, ") ended the capture of another library"));
    }
    capture_.reset();
  }
  unfenced_pending_ = unfenced_pending_ && std::any_of(sites_.begin(), sites_.end(), [](const site& each) {
                        return each.ctx->reports().statistics().pending_releases != 0;
                      });
}

const char* random_program::step() {
  if (chosen_.spills && draw_.chance(50)) {
    return spill(), "spill";
  }
  switch (draw_.below(20)) {
  case 0:
  case 1:
  case 2:
    return allocate(), "allocate";
  case 3:
  case 4:
    return write(), "write";
  case 5:
  case 6:
    return copy(), "copy";
  case 7:
    return read(), "read";
  case 8:
    return drop(), "drop";
  case 9:
    return lend(), "lend";
  case 10:
    return take_back(), "take back";
  case 11:
    return import(), "import";
  case 12:
    return settle(), "settle";
  case 13:
    return share_budget(), "share budget";
  case 14:
    return fail(), "fail";
  case 15:
    return read_everywhere(), "read everywhere";
  case 16:
    return end_elsewhere(), "end elsewhere";
  case 17:
  case 18:
    return work_apart(), "work apart";
  default:
    return capture(), "capture";
  }
}

void random_program::expect_code(const error& e, errc code) {
  if (e.code() != code && !(e.code() == errc::device && chosen_.fail_percent != 0)) {
    found_.push_back(concat("unexpected error: ", e.what()));
  }
}

void random_program::check_counters() {
  for (const site& each : sites_) {
    const memory_statistics now = each.ctx->reports().statistics();
    std::uint64_t live = now.ledger.own;
    for (const auto& [charged, bytes] : each.ctx->reports().live_by_budget()) {
      if (charged == each.ctx->pinned_budget()->name()) {
        live -= bytes; // bytes of spilled tables are charged to the budget of pinned memory
      }
    }
    const std::uint64_t pending = now.pending_releases == 0 ? 0 : now.budget.current - live;
    if (now.budget.current != live + pending || now.budget.current > now.budget.limit) {
      found_.push_back(concat("budget ", now.budget.current, " and live bytes ", live, " disagree"));
    }
  }
}

void random_program::end() {
  capture_.reset();
  lent_.clear();
  end_tables();
  while (!buffers_.empty()) {
    read();
    drop();
  }
  shares_.clear();
  for (site& each : sites_) {
    end(each);
  }
  for (const site& each : sites_) {
    each.ctx->synchronize(each.ctx->mark_unknown_work("end")); // copies to the landings must have finished
  }
  for (const landing& one : landings_) {
    check_landing(one);
  }
  landings_.clear();
  arrivals_.clear();
  for (site& each : sites_) {
    each.ctx.reset(); // all contexts before any check: each may hold events of the others
  }
  for (site& each : sites_) {
    check_nothing_left(each);
  }
}

void random_program::end(site& last) {
  last.leases.clear();
  if (!last.ctx->wait_for_releases(std::chrono::seconds(60))) {
    found_.emplace_back("releases are still pending at the end");
  }
  const memory_statistics now = last.ctx->reports().statistics();
  if (now.budget.current != 0 || now.budget.reserved != 0 || now.ledger.buffers != 0) {
    found_.push_back(concat("at the end: current ", now.budget.current, ", reserved ", now.budget.reserved,
                            ", buffers ", now.ledger.buffers));
  }
}

void random_program::check_nothing_left(site& last) {
  for (const stream_handle stream : last.foreign) {
    last.device->destroy_stream(stream);
  }
  last.device->run();
  static_cast<void>(timelines::collect_orphans()); // all work has finished, so their events can be destroyed
  const sim::usage left = last.device->live();
  const sim::usage& before = last.before;
  if (left.allocations != before.allocations || left.pinned != before.pinned ||
      left.streams != before.streams || left.events != before.events) {
    found_.push_back(concat("left behind: ", left.allocations, " allocations, ", left.pinned, " pinned, ",
                            left.streams, " streams, ", left.events, " events"));
  }
}

void random_program::check_landing(const landing& one) {
  const auto wrong = std::mismatch(one.expected.begin(), one.expected.end(), one.arrived.get());
  if (wrong.first != one.expected.end()) {
    found_.push_back(concat("wrong bytes: ", int{*wrong.second}, " instead of ", int{*wrong.first},
                            " at offset ", wrong.first - one.expected.begin(), " of ", one.expected.size()));
  }
}

outcome run_program(std::uint64_t seed, const program_options& chosen) {
  random_program made(seed, chosen);
  made.run();
  outcome result;
  result.report = made.findings();
  result.clean = result.report.empty();
  if (!result.clean) {
    result.report = concat("seed ", seed, "\n", result.report, made.device_report());
  }
  return result;
}

} // namespace saeta::schedules
