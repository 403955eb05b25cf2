#include "schedules/program.hpp"

#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace saeta::schedules {
namespace {

using bytes = std::vector<std::uint8_t>;

/// splitmix64: the same numbers on every machine.
class draw {
public:
  explicit draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  std::size_t below(std::size_t limit) noexcept { return next() % limit; }
  bool chance(unsigned percent) noexcept { return below(100) < percent; }

private:
  std::uint64_t state_;
};

/// A buffer and what it must hold once everything queued has run.
struct known {
  buffer what;
  bytes expected;
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

sim::options device_options(std::uint64_t seed) {
  sim::options chosen;
  chosen.seed = seed;
  chosen.total_bytes = 8U << 20U;
  return chosen;
}

class program {
public:
  explicit program(std::uint64_t seed)
      : draw_(seed), device_(sim::device::create(device_options(seed))), before_(device_->live()) {
    context_options chosen;
    chosen.budget = budget_bytes;
    chosen.releases = release_thread::none;
    chosen.pressure.release_wait =
        std::chrono::milliseconds(0); // a capture by this thread would be waited for
    constexpr std::array bases{resource_kind::caching, resource_kind::caching, resource_kind::async,
                               resource_kind::direct};
    chosen.memory.base = bases.at(draw_.below(bases.size()));
    chosen.memory.caching.slab = 64U << 10U;
    chosen.memory.caching.largest_small = 16U << 10U;
    chosen.memory.caching.largest_cached = 64U << 10U;
    home_ = context::create(device_, std::move(chosen));
    // More streams than a buffer remembers readers apart.
    for (std::size_t i = 0; i < ordering_state::max_reads + 2; ++i) {
      leases_.push_back(home_->borrow_stream());
    }
    for (int i = 0; i < 3; ++i) {
      foreign_.push_back(i == 0 ? device_->create_blocking_stream() : device_->create_stream());
    }
  }

  void run(unsigned steps) {
    for (unsigned i = 0; i < steps; ++i) {
      step();
      if (draw_.chance(5)) {
        check_counters();
      }
    }
    end();
  }

  [[nodiscard]] std::string findings() const {
    std::string all;
    for (const std::string& line : found_) {
      all += line + "\n";
    }
    for (const sim::race& r : device_->races()) {
      all += r.text + "\n";
    }
    return all;
  }
  [[nodiscard]] std::string device_report() const { return device_->report(); }

private:
  static constexpr std::uint64_t budget_bytes = 1U << 20U;
  static constexpr std::size_t most_buffers = 12;

  void step() {
    switch (draw_.below(17)) {
    case 0:
    case 1:
    case 2:
      return allocate();
    case 3:
    case 4:
      return write();
    case 5:
    case 6:
      return copy();
    case 7:
      return read();
    case 8:
      return drop();
    case 9:
      return lend();
    case 10:
      return take_back();
    case 11:
      return import();
    case 12:
      return settle();
    case 13:
      return share_budget();
    case 14:
      return fail();
    case 15:
      return read_everywhere();
    default:
      return capture();
    }
  }

  stream_ref any_stream() {
    const std::size_t i = draw_.below(leases_.size() + 1);
    return i == leases_.size() ? home_->work_stream() : leases_[i].ref();
  }
  known& any_buffer() { return buffers_[draw_.below(buffers_.size())]; }
  std::size_t any_size() {
    constexpr std::array<std::size_t, 8> sizes{64, 64, 256, 1000, 4096, 4096, 20'000, 65'536};
    return sizes.at(draw_.below(sizes.size()));
  }

  void allocate() {
    if (buffers_.size() >= most_buffers) {
      return drop();
    }
    const auto& from = shares_.empty() || draw_.chance(60) ? home_ : shares_[draw_.below(shares_.size())];
    const std::size_t size = any_size();
    const stream_ref stream = any_stream();
    try {
      buffer made = buffer::allocate(from, size, stream, "program");
      // A buffer holds nothing known before it is written, and its first use may be anywhere.
      fill(made, 0, size, any_stream(), 1);
      buffers_.push_back({std::move(made), bytes(size, 1)});
    } catch (const error& e) {
      expect_code(e, errc::budget_exceeded);
    }
  }

  void fill(const buffer& what, std::size_t offset, std::size_t size, stream_ref stream, std::uint8_t value) {
    use_token token(stream, {writes(what)});
    home_->fill(token.mutable_data<std::uint8_t>(what) + offset, value, size, stream);
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
    if (!guarded([&] { fill(target.what, offset, size, any_stream(), value); })) {
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
    const stream_ref stream = any_stream();
    const bool done = guarded([&] {
      use_token token(stream, {reads(source.what.slice(0, size)), writes(target.what)});
      home_->copy(token.mutable_data<std::uint8_t>(target.what), token.data<std::uint8_t>(source.what), size,
                  copy_kind::device_to_device, stream);
    });
    if (done) {
      std::copy_n(source.expected.begin(), size, target.expected.begin());
    }
  }

  void read() {
    if (buffers_.empty()) {
      return;
    }
    const known& source = any_buffer();
    read(source, any_stream());
  }

  void read(const known& source, stream_ref stream) {
    landing next{std::make_shared<bytes>(source.expected.size()), source.expected};
    const bool done = guarded([&] {
      use_token token(stream, {reads(source.what)});
      home_->copy(next.arrived->data(), token.data<std::uint8_t>(source.what), next.arrived->size(),
                  copy_kind::device_to_host, stream);
    });
    if (done) {
      landings_.push_back(std::move(next));
    }
  }

  /// More readers than a buffer remembers apart.
  void read_everywhere() {
    if (buffers_.empty() || !draw_.chance(30)) {
      return;
    }
    const known& source = any_buffer();
    for (const stream_lease& lease : leases_) {
      read(source, lease.ref());
    }
  }

  void drop() {
    if (!buffers_.empty()) {
      const std::size_t i = draw_.below(buffers_.size());
      std::swap(buffers_[i], buffers_.back());
      buffers_.pop_back();
    }
  }

  /// A consumer gets a view, uses it on a stream that nobody announced, and gives it back later.
  void lend() {
    if (buffers_.empty() || lent_.size() >= 4 || captured_) {
      return;
    }
    known& source = any_buffer();
    if (!source.what.owner()->writable()) {
      return;
    }
    const stream_handle user = foreign_[draw_.below(foreign_.size())];
    const std::array views{source.what};
    const bool changes = draw_.chance(40);
    const bool contested = std::any_of(lent_.begin(), lent_.end(), [&](const lent& other) {
      return other.of == source.what.owner().get() && (changes || other.writes);
    });
    if (contested) {
      return; // two consumers of one buffer order themselves
    }
    order_handover(views, stream_ref(*device_, user));
    // One who gave his view back during a capture could not be fenced then.
    source.what.owner()->wait_for_consumers(changes ? access::write : access::read,
                                            stream_ref(*device_, user));
    if (changes) {
      // A consumer that writes must see earlier readers gone, too: that is his producer's promise in DLPack.
      for (const fence& f : source.what.owner()->ordering().pending(access::write)) {
        f.wait(stream_ref(*device_, user));
      }
    }
    lent next{std::make_unique<export_hold>(views, changes ? access::write : access::read),
              source.what.owner().get(), changes};
    auto* const at = reinterpret_cast<std::uint8_t*>(source.what.address());
    const std::size_t size = source.expected.size();
    if (changes) {
      const auto value = static_cast<std::uint8_t>(draw_.next());
      device_->launch(user, "consumer writes", {}, {{at, size}}, [=] { std::memset(at, value, size); });
      std::fill(source.expected.begin(), source.expected.end(), value);
    } else {
      landing seen{std::make_shared<bytes>(size), source.expected};
      const auto arrived = seen.arrived;
      device_->launch(user, "consumer reads", {{at, size}}, {},
                      [=] { std::memcpy(arrived->data(), at, size); });
      landings_.push_back(std::move(seen));
    }
    lent_.push_back(std::move(next));
  }

  void take_back() {
    if (!lent_.empty()) {
      lent_.erase(lent_.begin() + static_cast<std::ptrdiff_t>(draw_.below(lent_.size())));
    }
  }

  /// Memory of somebody else, who writes it on his own stream and frees it the moment we let go.
  void import() {
    if (buffers_.size() >= most_buffers || captured_) {
      return drop();
    }
    const std::size_t size = 4096;
    const stream_handle producer = foreign_[draw_.below(foreign_.size())];
    void* const memory = device_->allocate(size, 0);
    const auto value = static_cast<std::uint8_t>(draw_.next());
    device_->fill(memory, value, size, producer);
    external_memory taken;
    taken.pointer = memory;
    taken.bytes = size;
    taken.device = device_->device();
    taken.access = mutability::writable;
    taken.tag = "imported";
    taken.ready = home_->events().record(stream_ref(*device_, producer));
    taken.keepalive = std::shared_ptr<void>(memory, [device = device_, size](void* pointer) {
      static_cast<void>(device->deallocate(pointer, size, 0));
    });
    buffers_.push_back({buffer::adopt(home_, std::move(taken)), bytes(size, value)});
  }

  void settle() {
    switch (draw_.below(4)) {
    case 0:
      home_->trim();
      return;
    case 1:
      home_->drain();
      return;
    case 2:
      while (draw_.chance(90) && device_->step()) {
      }
      return;
    default:
      if (!captured_) {
        home_->synchronize(any_stream());
      }
    }
  }

  void share_budget() {
    if (shares_.size() >= 3) {
      shares_.pop_front();
      return;
    }
    try {
      shares_.push_back(draw_.chance(50) ? home_->with_budget("share", 128U << 10U)
                                         : home_->with_reservation(64U << 10U));
    } catch (const error& e) {
      expect_code(e, errc::budget_exceeded);
    }
  }

  void fail() {
    try {
      static_cast<void>(buffer::allocate(home_, budget_bytes + 1, any_stream(), "too large"));
      found_.emplace_back("a request beyond the budget was accepted");
    } catch (const error& e) {
      expect_code(e, errc::budget_exceeded);
    }
    if (!buffers_.empty()) { // work of a step that ended by an exception is real
      const known& source = any_buffer();
      try {
        const use_token token(any_stream(), {reads(source.what)});
        throw error(errc::invalid_argument, "dropped");
      } catch (const error&) { // NOLINT(bugprone-empty-catch): the token has ended, that is all
      }
    }
  }

  /// While somebody captures a graph there is no fence over all work.
  void capture() {
    if (captured_) {
      device_->end_capture(*captured_);
      captured_.reset();
    } else if (draw_.chance(30)) {
      if (capture_stream_ == nullptr) {
        capture_stream_ = std::make_unique<stream>(device_);
      }
      captured_ = capture_stream_->ref().native_handle();
      device_->begin_capture(*captured_);
    }
  }

  /// While a capture runs, uses that would need a context-wide fence are refused; anything else is a finding.
  template <class Use>
  bool guarded(Use use) {
    try {
      use();
      return true;
    } catch (const error& e) {
      if (!captured_ || e.code() != errc::busy) {
        found_.push_back(concat("unexpected error: ", e.what()));
      }
      return false;
    }
  }

  void expect_code(const error& e, errc code) {
    if (e.code() != code) {
      found_.push_back(concat("unexpected error: ", e.what()));
    }
  }

  void check_counters() {
    const memory_statistics now = home_->statistics();
    const std::uint64_t pending = now.pending_releases == 0 ? 0 : now.budget.current - now.ledger.own;
    if (now.budget.current != now.ledger.own + pending || now.budget.current > now.budget.limit) {
      found_.push_back(
          concat("budget ", now.budget.current, " and live bytes ", now.ledger.own, " disagree"));
    }
  }

  void end() {
    if (captured_) {
      device_->end_capture(*captured_);
      captured_.reset();
    }
    while (!lent_.empty()) {
      take_back();
    }
    while (!buffers_.empty()) {
      read();
      drop();
    }
    shares_.clear();
    leases_.clear();
    if (!home_->wait_for_releases(std::chrono::seconds(60))) {
      found_.emplace_back("releases are still pending at the end");
    }
    const memory_statistics now = home_->statistics();
    if (now.budget.current != 0 || now.budget.reserved != 0 || now.ledger.buffers != 0) {
      found_.push_back(concat("at the end: current ", now.budget.current, ", reserved ", now.budget.reserved,
                              ", buffers ", now.ledger.buffers));
    }
    device_->run();
    for (const landing& one : landings_) {
      check_landing(one);
    }
    home_.reset();
    capture_stream_.reset();
    for (const stream_handle stream : foreign_) {
      device_->destroy_stream(stream);
    }
    device_->run();
    const sim::usage left = device_->live();
    if (left.allocations != before_.allocations || left.pinned != before_.pinned ||
        left.streams != before_.streams || left.events != before_.events) {
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
  std::shared_ptr<sim::device> device_;
  sim::usage before_;
  std::shared_ptr<context> home_;
  std::vector<stream_lease> leases_;
  std::vector<stream_handle> foreign_;
  std::unique_ptr<stream> capture_stream_;
  std::optional<stream_handle> captured_;
  std::vector<known> buffers_;
  std::vector<lent> lent_;
  std::deque<std::shared_ptr<context>> shares_;
  std::vector<landing> landings_;
  std::vector<std::string> found_;
};

} // namespace

outcome run_program(std::uint64_t seed, unsigned steps) {
  program made(seed);
  made.run(steps);
  outcome result;
  result.report = made.findings();
  result.clean = result.report.empty();
  if (!result.clean) {
    result.report = concat("seed ", seed, "\n", result.report, made.device_report());
  }
  return result;
}

} // namespace saeta::schedules
