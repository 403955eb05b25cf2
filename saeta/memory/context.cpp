#include "saeta/memory/context.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context_core.hpp"
#include "saeta/order/captures.hpp"

#include <algorithm>
#include <cstring>

namespace saeta {

namespace {

/// Adds the holders of the bytes to a refusal: those of the budget that was asked, and, if a budget above it
/// has no room, the other holders of that budget.
error with_owners(const error& refused, const ledger& holders, const budget& charged) {
  budget_refusal numbers = *refused.refusal();
  const budget* refusing = &charged;
  for (std::size_t level = 0; level < numbers.levels_above; ++level) {
    refusing = refusing->parent().get();
  }
  ledger::shares held = holders.split(charged, *refusing);
  numbers.owners = std::move(held.own);
  numbers.others = std::move(held.others);
  return error(std::move(numbers), refused.where());
}

/// Runs the action. A refusal that it throws gets the holders of the bytes.
template <class Action>
auto naming_owners(const ledger& holders, const budget& charged, const Action& action) {
  try {
    return action();
  } catch (const error& e) {
    if (e.refusal() == nullptr) {
      throw;
    }
    throw with_owners(e, holders, charged);
  }
}

} // namespace

std::shared_ptr<context> context::create(std::shared_ptr<backend> device, context_options options) {
  require_argument(device, "device");
  auto core = std::make_shared<context_core>(std::move(device), std::move(options));
  auto limit = core->root_budget;
  return hand_out(
      {new context(std::move(core), nullptr, std::move(limit), nullptr), delete_in_own_process{}});
}

std::shared_ptr<context> context::hand_out(std::shared_ptr<context> made) {
  struct handle {
    std::shared_ptr<context> handed_out;
    explicit handle(std::shared_ptr<context> of) noexcept : handed_out(std::move(of)) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;
    ~handle() {
      if (!handed_out->inherited()) {
        handed_out->kept_by_storages_.close();
      }
    }
  };
  context& self = *made;
  const auto kept = std::make_shared<handle>(std::move(made));
  self.kept_by_storages_.open(kept->handed_out);
  std::shared_ptr<context> given(kept, &self);
  self.handed_out_ = given;
  return given;
}

context::context(std::shared_ptr<context_core> core, std::shared_ptr<context> base,
                 std::shared_ptr<budget> limit, std::unique_ptr<reservation> drawn_from)
    : core_(std::move(core)), base_(std::move(base)), budget_(std::move(limit)),
      reservation_(std::move(drawn_from)) {}

context::~context() {
  if (base_ == nullptr) {
    core_->services.clear(); // services refer to this object
  }
}

std::shared_ptr<context> context::with_budget(std::string name, std::uint64_t limit) {
  require_open();
  return hand_out({new context(core_, as_base(), budget_->make_child(std::move(name), limit), nullptr),
                   delete_in_own_process{}});
}

std::shared_ptr<context> context::with_reservation(std::uint64_t bytes, overbooking policy) {
  require_open();
  auto promised = naming_owners(*core_->holders, *budget_, [&] {
    return std::make_unique<reservation>(core_->reserve(budget_, bytes, policy));
  });
  return hand_out({new context(core_, as_base(), budget_, std::move(promised)), delete_in_own_process{}});
}

void context::set_budget(std::uint64_t bytes) {
  require_own_process();
  budget_->set_limit(bytes);
  if (base_ == nullptr && core_->memory.top->held_bytes() > bytes) {
    core_->trim();
  }
}

const std::shared_ptr<backend>& context::device_backend() const noexcept { return core_->device; }
const resource_stack& context::memory() const noexcept { return core_->memory; }
const context_options& context::options() const noexcept { return core_->options; }
resource& context::pinned() const noexcept { return *core_->pinned; }
const std::shared_ptr<budget>& context::pinned_budget() const noexcept { return core_->pinned_budget; }
std::size_t context::kept_pinned(std::size_t bytes) const { return core_->pinned_pool->kept(bytes); }

std::shared_ptr<void> context::charge_host(std::uint64_t bytes, tag label) {
  require_open();
  struct charged_bytes {
    std::shared_ptr<budget> charged;
    std::shared_ptr<ledger> holders;
    std::uint64_t bytes;
    std::uint64_t made_in = fork_generation();
    bool taken = false;
    ledger::entry entry{};

    charged_bytes(std::shared_ptr<budget> by, std::shared_ptr<ledger> in, std::uint64_t of)
        : charged(std::move(by)), holders(std::move(in)), bytes(of) {}
    charged_bytes(const charged_bytes&) = delete;
    charged_bytes& operator=(const charged_bytes&) = delete;
    ~charged_bytes() {
      if (taken && made_in == fork_generation()) {
        ledger::remove(entry);
        charged->refund(bytes);
      }
    }
  };
  const auto result = std::make_shared<charged_bytes>(core_->pinned_budget, core_->holders, bytes);
  naming_owners(*core_->holders, *core_->pinned_budget,
                [&] { core_->pinned->charge(bytes, *core_->pinned_budget); });
  result->taken = true;
  result->entry = core_->holders->add(owner_kind::own, label, bytes, core_->pinned_budget.get());
  return result;
}

const std::shared_ptr<timelines>& context::clocks() const noexcept { return core_->clocks; }
stream_ref context::work_stream() const { return core_->work_stream.ref(); }
device_copies& context::copies() const noexcept { return core_->copies; }

service_registry& context::services() const {
  require_own_process();
  return core_->services;
}

stream_lease context::borrow_stream() {
  require_open();
  return core_->streams.borrow(core_);
}

void context::synchronize(const point_set& awaited) {
  if (!awaited.empty()) {
    core_->copies.count().synchronizations.fetch_add(1);
    for (const point& point : awaited.all()) {
      saeta::synchronize(point);
    }
  }
}

bool context::make_visible_to(backend& user) { return core_->make_visible_to(user); }

point_set context::mark_unknown_work(std::string_view user) {
  auto everything = core_->mark_devices();
  if (!everything) {
    throw error(errc::busy,
                concat("buffer '", user, "' has users on unknown streams, which can't be waited for while a ",
                       "stream of ", to_string(device()), " captures a graph"));
  }
  return *std::move(everything);
}

std::shared_ptr<void> context::capturing() { return core_->clocks->graph_captures().announce(); }

void context::synchronize(stream_ref stream) {
  if (on_host()) {
    return; // everything ran inline
  }
  core_->copies.count().synchronizations.fetch_add(1);
  stream.owner().synchronize_stream(stream.native_handle());
}

hook_registration context::add_pressure_hook(std::string name, int priority, pressure_hook ask) {
  return core_->relief->add_hook(std::move(name), priority, std::move(ask));
}

hook_registration context::add_room_maker(std::string name, int priority, room_maker ask) {
  return core_->relief->add_room_maker(std::move(name), priority, std::move(ask));
}

std::size_t context::trim() { return inherited() ? 0 : core_->trim(); }
std::size_t context::drain() { return inherited() ? 0 : core_->drain(); }
bool context::wait_for_releases(std::chrono::milliseconds timeout) {
  return inherited() || core_->releases->wait_idle(timeout);
}

bytes_by_name context::close() {
  closed_ = true;
  if (inherited()) {
    return {}; // live memory belongs to the parent process
  }
  if (reservation_) {
    reservation_->release();
  } else if (base_ != nullptr || !on_host()) { // the host's budget stays open: devices charge it, too
    budget_->close();
  }
  core_->drain();
  core_->log->flush();
  return reports().live_by_tag();
}

bool context::closed() const noexcept { return closed_ || (base_ && base_->closed()); }

void context::require_own_process() const { core_->require_own_process(); }

void context::require_readable() const {
  if (!on_host()) {
    require_own_process();
  }
}

void context::require_open() const {
  require_own_process();
  if (closed()) {
    throw error(errc::closed, concat("the context of ", to_string(device()), " is closed"));
  }
}

std::shared_ptr<context> context::as_base() {
  auto known = handed_out_.lock();
  return known ? known : shared_from_this();
}

std::shared_ptr<context> context::kept_by_storage(const std::shared_ptr<context>& used) noexcept {
  if (used->reservation_) {
    return kept_by_storage(used->base_);
  }
  const bool handed_out = !used.owner_before(used->handed_out_) && !used->handed_out_.owner_before(used);
  return handed_out ? used->kept_by_storages_.copy() : used;
}

context::memory_source context::own_source() const noexcept {
  return {core_->memory.top.get(), budget_.get(), reservation_.get()};
}

context::memory_source context::source_of(memory_kind kind, std::string_view user) const {
  if (kind == memory_kind::device || kind == own_kind(device())) {
    return own_source();
  }
  if (kind != memory_kind::pinned) {
    throw error(errc::unsupported,
                concat(user.empty() ? "" : concat("'", user, "': "), "the context of ", to_string(device()),
                       " allocates memory of the kinds ", to_string(own_kind(device())), " and pinned, not ",
                       to_string(kind)));
  }
  if (on_host()) {
    return {core_->pinned.get(), budget_.get(), reservation_.get()};
  }
  return {core_->pinned.get(), core_->pinned_budget.get(), nullptr};
}

context::memory_source context::shareable_source() const {
  return {&core_->shareable_resource(), budget_.get(), reservation_.get()};
}

int context::export_pool() const {
  require_own_process();
  return core_->device_of(&core_->shareable_resource()).export_pool();
}

block context::allocate_block(const memory_source& out_of, std::size_t bytes, std::size_t alignment,
                              tag label, const stream_ref& stream) {
  require_open();
  if (stream.made_in_capture()) {
    throw error(errc::invalid_argument,
                concat("'", label.name(), "': ", bytes,
                       " bytes can't be allocated on a stream that captures a graph, which would own them: "
                       "allocate before the capture"));
  }
  const allocation_request request{bytes, alignment, label, out_of.charged, out_of.drawn_from};
  return naming_owners(*core_->holders, *out_of.charged,
                       [&] { return out_of.from->allocate(request, stream); });
}

// How a context frees a block: after the work on it, without blocking a thread.

bool context_core::free_in_order(resource& to, const block& freed, requirement& after) noexcept {
  try {
    if (after.points.size() > 1) {
      drop_passed(after.points); // a block with one user is cheaper to reuse
    }
    return freed.order == release_order::in_stream_order && (!after.unknown || releases->resolve(after)) &&
           to.deallocate(freed, after.points.all());
  } catch (...) {
    with_report_text(report_current_exception, "freeing a block is tried again", "freeing ", freed.bytes,
                     " bytes is tried again");
    return false;
  }
}

void context::release_later(resource& to, const block& freed, requirement&& after) noexcept {
  try {
    core_->releases->submit(
        {.after = std::move(after),
         .action =
             [&to, freed, kept = shared_from_this(), reported = false]() mutable {
               const bool done = to.deallocate(freed, std::span<const point>());
               if (!done && !std::exchange(reported, true)) {
                 with_report_text([](std::string_view text) { report("context", text); },
                                  "the driver refused to free a block", "the driver refused to free ",
                                  freed.bytes, " bytes: they stay charged, and the free is tried again");
               }
               return done;
             },
         .label = freed.label.name(),
         .bytes = freed.bytes});
  } catch (...) {
    // Neither ordered nor queued: the only safe choice is to keep the memory, charged.
    with_report_text(report_current_exception, "a block stays allocated", "block of ", freed.bytes,
                     " bytes stays allocated");
  }
}

} // namespace saeta
