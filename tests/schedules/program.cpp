#include "schedules/program.hpp"

#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/use_token.hpp"
#include "schedules/site.hpp"
#include "support/foreign_capture.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace saeta::schedules {
namespace {

using bytes = std::vector<std::uint8_t>;

/// A buffer and what it must hold once everything queued has run.
struct known {
  buffer what;
  bytes expected;
  site* where;
  bool certain = true; ///< false after a call of the driver failed in the middle of a change
};

/// A view that somebody else has, and the stream on which he uses it.
struct lent {
  std::unique_ptr<export_hold> hold;
  const storage* of;
  bool writes;
};

/// Bytes on their way to the host, and what they must be.
struct landing {
  std::shared_ptr<bytes> arrived;
  bytes expected;
};

class program {
public:
  program(std::uint64_t seed, const program_options& chosen) : draw_(seed), chosen_(chosen) {
    sites_.reserve(chosen.devices);
    for (unsigned i = 0; i < chosen.devices; ++i) {
      const auto beside = sites_.empty() ? nullptr : sites_.front().device;
      sites_.push_back(make_site(seed, static_cast<std::int32_t>(i), beside, budget_bytes, draw_));
    }
    set_fail_percent(chosen.fail_percent);
  }

  void run() {
    for (unsigned i = 0; i < chosen_.steps; ++i) {
      checked_step(i);
      if (draw_.chance(5)) {
        check_counters();
      }
    }
    set_fail_percent(0);
    end();
  }

  [[nodiscard]] std::string findings() const {
    std::string all;
    for (const std::string& line : found_) {
      all += line + "\n";
    }
    for (const sim::race& r : sites_.front().device->races()) {
      all += r.text + "\n";
    }
    return all;
  }
  [[nodiscard]] std::string device_report() const { return sites_.front().device->report(); }

private:
  static constexpr std::uint64_t budget_bytes = 1U << 20U;
  static constexpr std::size_t most_buffers = 12;

  void set_fail_percent(unsigned percent) {
    for (const site& each : sites_) {
      each.device->set_fail_percent(percent);
    }
  }
  [[nodiscard]] working_driver others() const { return {sites_, chosen_.fail_percent}; }

  void checked_step(unsigned number) {
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
                          return each.home->statistics().pending_releases != 0;
                        });
  }

  /// Returns the name of what it did.
  const char* step() {
    switch (draw_.below(17)) {
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
    default:
      return capture(), "capture";
    }
  }

  site& any_site() { return sites_.size() == 1 ? sites_.front() : sites_[draw_.below(sites_.size())]; }
  stream_ref any_stream(const site& of) {
    const std::size_t i = draw_.below(of.leases.size() + 1);
    return i == of.leases.size() ? of.home->work_stream() : of.leases[i].ref();
  }
  known& any_buffer() {
    known& found = buffers_[draw_.below(buffers_.size())];
    excuse(found);
    return found;
  }
  /// Whoever uses memory that a consumer has on streams that nobody knows needs a fence over all work.
  void excuse(const known& used) {
    const storage* const of = used.what.owner().get();
    excused_ = excused_ || unfenced_.contains(of) ||
               std::any_of(lent_.begin(), lent_.end(), [&](const lent& view) { return view.of == of; });
  }
  std::size_t any_size() {
    constexpr std::array<std::size_t, 8> sizes{64, 64, 256, 1000, 4096, 4096, 20'000, 65'536};
    return sizes.at(draw_.below(sizes.size()));
  }

  void allocate() {
    if (buffers_.size() >= most_buffers) {
      return drop();
    }
    site& where = any_site();
    const auto& from =
        shares_.empty() || draw_.chance(60) ? where.home : shares_[draw_.below(shares_.size())];
    site& of = from->device() == where.home->device()
                   ? where
                   : sites_[static_cast<std::size_t>(from->device().ordinal)];
    const std::size_t size = any_size();
    const stream_ref stream = any_stream(of);
    try {
      buffer made = buffer::allocate(from, size, stream, "program");
      // A buffer holds nothing known before it is written, and its first use may be anywhere.
      fill(of, made, 0, size, any_stream(of), 1);
      buffers_.push_back({std::move(made), bytes(size, 1), &of});
    } catch (const error& e) {
      expect_code(e, errc::budget_exceeded);
    }
  }

  void fill(const site& of, const buffer& what, std::size_t offset, std::size_t size, stream_ref stream,
            std::uint8_t value) {
    use_token token(stream, {writes(what)});
    of.home->fill(token.mutable_data<std::uint8_t>(what) + offset, value, size, stream);
    if (draw_.chance(80)) {
      token.finish(); // otherwise its end fences
    }
  }

  void write() {
    if (buffers_.empty()) {
      return;
    }
    known& target = any_buffer();
    if (!target.what.owner()->writable()) {
      return;
    }
    const std::size_t offset = draw_.below(target.expected.size());
    const std::size_t size = 1 + draw_.below(target.expected.size() - offset);
    const auto value = static_cast<std::uint8_t>(draw_.next());
    at_risk_.push_back(&target);
    if (!guarded([&] { fill(*target.where, target.what, offset, size, any_stream(*target.where), value); })) {
      return;
    }
    std::fill_n(target.expected.begin() + static_cast<std::ptrdiff_t>(offset), size, value);
  }

  /// One token over two buffers or over one twice.
  void copy() {
    if (buffers_.empty()) {
      return;
    }
    known& source = any_buffer();
    known& target = any_buffer();
    if (&source == &target || !target.what.owner()->writable()) {
      return;
    }
    const std::size_t size = std::min(source.expected.size(), target.expected.size());
    const site& on = source.where == target.where || draw_.chance(50) ? *target.where : *source.where;
    const stream_ref stream = any_stream(on);
    at_risk_.push_back(&target);
    const bool done = guarded([&] {
      use_token token(stream, {reads(source.what.slice(0, size)), writes(target.what)});
      on.home->copy(token.mutable_data<std::uint8_t>(target.what), token.data<std::uint8_t>(source.what),
                    size, copy_kind::device_to_device, stream);
    });
    if (done) {
      std::copy_n(source.expected.begin(), size, target.expected.begin());
      target.certain = target.certain && source.certain;
    }
  }

  void read() {
    if (buffers_.empty()) {
      return;
    }
    const known& source = any_buffer();
    read(source, any_stream(*source.where));
  }

  void read(const known& source, stream_ref stream) {
    landing next{std::make_shared<bytes>(source.expected.size()), source.expected};
    arrivals_.push_back(next.arrived); // the copy may be queued before something fails
    const bool done = guarded([&] {
      use_token token(stream, {reads(source.what)});
      source.where->home->copy(next.arrived->data(), token.data<std::uint8_t>(source.what),
                               next.arrived->size(), copy_kind::device_to_host, stream);
    });
    if (done && source.certain) {
      landings_.push_back(std::move(next));
    }
  }

  /// More readers than a buffer remembers apart.
  void read_everywhere() {
    if (buffers_.empty() || !draw_.chance(30)) {
      return;
    }
    const known& source = any_buffer();
    for (const stream_lease& lease : source.where->leases) {
      read(source, lease.ref());
    }
  }

  void drop() {
    if (!buffers_.empty()) {
      const std::size_t i = draw_.below(buffers_.size());
      excuse(buffers_[i]);
      unfenced_pending_ = unfenced_pending_ || excused_;
      std::swap(buffers_[i], buffers_.back());
      buffers_.pop_back();
    }
  }

  /// A consumer gets a view, uses it on a stream that nobody announced, and gives it back later.
  void lend() {
    if (buffers_.empty() || lent_.size() >= 4 || capture_) {
      return;
    }
    known& source = any_buffer();
    if (!source.what.owner()->writable()) {
      return;
    }
    sim::device& device = *source.where->device;
    const stream_handle user = source.where->foreign[draw_.below(source.where->foreign.size())];
    const std::array views{source.what};
    const bool changes = draw_.chance(40);
    const bool contested = std::any_of(lent_.begin(), lent_.end(), [&](const lent& other) {
      return other.of == source.what.owner().get() && (changes || other.writes);
    });
    if (contested) {
      return; // two consumers of one buffer order themselves
    }
    order_handover(views, stream_ref(device, user));
    if (changes) {
      // A consumer that writes must see earlier readers gone, too: that is his producer's promise in DLPack.
      const handover needed = source.what.owner()->ordering().needs(access::write, "lent");
      wait(stream_ref(device, user), needed.points);
      if (needed.unknown) {
        wait(stream_ref(device, user), source.where->home->mark_unknown_work("lent"));
      }
    }
    lent next{std::make_unique<export_hold>(views, changes ? access::write : access::read),
              source.what.owner().get(), changes};
    auto* const at = reinterpret_cast<std::uint8_t*>(source.what.address());
    const std::size_t size = source.expected.size();
    if (changes) {
      const auto value = static_cast<std::uint8_t>(draw_.next());
      device.launch(user, "consumer writes", {}, {{at, size}}, [=] { std::memset(at, value, size); });
      std::fill(source.expected.begin(), source.expected.end(), value);
      source.certain = true;
    } else {
      landing seen{std::make_shared<bytes>(size), source.expected};
      const auto arrived = seen.arrived;
      device.launch(user, "consumer reads", {{at, size}}, {},
                    [=] { std::memcpy(arrived->data(), at, size); });
      if (source.certain) {
        landings_.push_back(std::move(seen));
      }
    }
    lent_.push_back(std::move(next));
  }

  void take_back() {
    if (lent_.empty()) {
      return;
    }
    const auto gone = lent_.begin() + static_cast<std::ptrdiff_t>(draw_.below(lent_.size()));
    excused_ = true;
    // While a graph is captured, or the driver fails, the fence that this end needs comes later.
    unfenced_.insert(gone->of);
    unfenced_pending_ = true;
    lent_.erase(gone);
  }

  /// Memory of somebody else, who writes it on his own stream and frees it the moment we let go.
  void import() {
    if (buffers_.size() >= most_buffers || capture_) {
      return drop();
    }
    site& where = any_site();
    const working_driver working = others();
    const std::size_t size = 4096;
    const stream_handle producer = where.foreign[draw_.below(where.foreign.size())];
    void* const memory = where.device->allocate(size, 0);
    const auto value = static_cast<std::uint8_t>(draw_.next());
    where.device->fill(memory, value, size, producer);
    external_memory taken;
    taken.pointer = memory;
    taken.bytes = size;
    taken.device = where.device->device();
    taken.access = mutability::writable;
    taken.tag = "imported";
    taken.ready = mark(stream_ref(*where.device, producer));
    // A keepalive may be a deleter without a pointer.
    taken.keepalive = std::shared_ptr<void>(nullptr, [device = where.device, memory, size](void*) {
      static_cast<void>(device->deallocate(memory, size, 0));
    });
    buffers_.push_back({buffer::adopt(where.home, std::move(taken)), bytes(size, value), &where});
  }

  void settle() {
    site& where = any_site();
    switch (draw_.below(4)) {
    case 0:
      where.home->trim();
      return;
    case 1:
      where.home->drain();
      return;
    case 2:
      while (draw_.chance(90) && where.device->step()) {
      }
      return;
    default:
      if (!capture_) {
        where.home->synchronize(any_stream(where));
      }
    }
  }

  void share_budget() {
    if (shares_.size() >= 3) {
      shares_.pop_front();
      return;
    }
    const auto& from = any_site().home;
    try {
      shares_.push_back(draw_.chance(50) ? from->with_budget("share", 128U << 10U)
                                         : from->with_reservation(64U << 10U));
    } catch (const error& e) {
      expect_code(e, errc::budget_exceeded);
    }
  }

  void fail() {
    const site& where = any_site();
    try {
      static_cast<void>(buffer::allocate(where.home, budget_bytes + 1, any_stream(where), "too large"));
      found_.emplace_back("a request beyond the budget was accepted");
    } catch (const error& e) {
      expect_code(e, errc::budget_exceeded);
    }
    if (!buffers_.empty()) { // work of a step that ended by an exception is real
      const known& source = any_buffer();
      try {
        const use_token token(any_stream(*source.where), {reads(source.what)});
        throw error(errc::invalid_argument, "dropped");
      } catch (const error& e) {
        if (e.code() != errc::invalid_argument && !(capture_ && e.code() == errc::busy)) {
          throw;
        }
      }
    }
  }

  /// While somebody captures a graph there is no fence over all work.
  void capture() {
    if (capture_) {
      const bool ended = !capture_->end();
      if (ended && chosen_.captures && !excused_) {
        found_.emplace_back("the capture of another library was ended");
      }
      capture_.reset();
    } else if (draw_.chance(30)) {
      const working_driver working = others();
      constexpr std::size_t most_calls = 24; // of two or three steps
      const unsigned calls = chosen_.captures ? static_cast<unsigned>(draw_.below(most_calls)) : 0;
      capture_ = std::make_unique<testing::foreign_capture>(any_site().device, calls);
    }
  }

  /// While a capture runs, uses that would need a context-wide fence are refused.
  template <class Use>
  bool guarded(Use use) {
    try {
      use();
      return true;
    } catch (const error& e) {
      if (!capture_ || e.code() != errc::busy) {
        throw;
      }
      return false;
    }
  }

  void expect_code(const error& e, errc code) {
    if (e.code() != code && !(e.code() == errc::device && chosen_.fail_percent != 0)) {
      found_.push_back(concat("unexpected error: ", e.what()));
    }
  }

  void check_counters() {
    for (const site& each : sites_) {
      const memory_statistics now = each.home->statistics();
      const std::uint64_t pending = now.pending_releases == 0 ? 0 : now.budget.current - now.ledger.own;
      if (now.budget.current != now.ledger.own + pending || now.budget.current > now.budget.limit) {
        found_.push_back(
            concat("budget ", now.budget.current, " and live bytes ", now.ledger.own, " disagree"));
      }
    }
  }

  void end() {
    capture_.reset();
    lent_.clear();
    while (!buffers_.empty()) {
      read();
      drop();
    }
    shares_.clear();
    for (site& each : sites_) {
      end(each);
    }
    sites_.front().device->run();
    for (const landing& one : landings_) {
      check_landing(one);
    }
    for (site& each : sites_) {
      each.home.reset(); // all of them before anything is counted: each may know the clocks of the others
    }
    for (site& each : sites_) {
      check_nothing_left(each);
    }
  }

  void end(site& last) {
    last.leases.clear();
    if (!last.home->wait_for_releases(std::chrono::seconds(60))) {
      found_.emplace_back("releases are still pending at the end");
    }
    const memory_statistics now = last.home->statistics();
    if (now.budget.current != 0 || now.budget.reserved != 0 || now.ledger.buffers != 0) {
      found_.push_back(concat("at the end: current ", now.budget.current, ", reserved ", now.budget.reserved,
                              ", buffers ", now.ledger.buffers));
    }
  }

  void check_nothing_left(site& last) {
    for (const stream_handle stream : last.foreign) {
      last.device->destroy_stream(stream);
    }
    last.device->run();
    static_cast<void>(timelines::collect_orphans()); // their work has run by now
    const sim::usage left = last.device->live();
    const sim::usage& before = last.before;
    if (left.allocations != before.allocations || left.pinned != before.pinned ||
        left.streams != before.streams || left.events != before.events) {
      found_.push_back(concat("left behind: ", left.allocations, " allocations, ", left.pinned, " pinned, ",
                              left.streams, " streams, ", left.events, " events"));
    }
  }

  void check_landing(const landing& one) {
    const auto wrong = std::mismatch(one.arrived->begin(), one.arrived->end(), one.expected.begin());
    if (wrong.first != one.arrived->end()) {
      found_.push_back(concat("wrong bytes: ", int{*wrong.first}, " instead of ", int{*wrong.second},
                              " at offset ", wrong.first - one.arrived->begin(), " of ",
                              one.arrived->size()));
    }
  }

  draw draw_;
  program_options chosen_;
  std::vector<site> sites_;
  std::unique_ptr<testing::foreign_capture> capture_;
  std::vector<known> buffers_;
  std::vector<lent> lent_;
  std::deque<std::shared_ptr<context>> shares_;
  std::vector<std::shared_ptr<bytes>> arrivals_;
  std::vector<landing> landings_;
  std::vector<std::string> found_;
  std::vector<known*> at_risk_;       ///< what the step changes
  bool excused_ = false;              ///< the step may end a capture
  std::set<const storage*> unfenced_; ///< given back by a consumer whose work nobody may have fenced yet
  bool unfenced_pending_ = false;     ///< one of them may be waiting for its release
};

} // namespace

outcome run_program(std::uint64_t seed, const program_options& chosen) {
  program made(seed, chosen);
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
