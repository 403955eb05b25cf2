#include "saeta/memory/context.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/detail/context_core.hpp"
#include "saeta/memory/storage.hpp"
#include "saeta/order/captures.hpp"

#include <algorithm>
#include <cstring>

namespace saeta {

namespace {

/// A refusal with those who hold the bytes: first those of the budget that was asked, then, where one above it has no
/// room, whoever else holds bytes of that one.
error with_owners(const error& refused, const ledger& holders, const budget& asked) {
  budget_refusal numbers = *refused.refusal();
  const budget* refusing = &asked;
  for (std::size_t level = 0; level < numbers.levels_above; ++level) {
    refusing = refusing->parent().get();
  }
  ledger::shares held = holders.split(asked, *refusing);
  numbers.owners = std::move(held.own);
  numbers.others = std::move(held.others);
  return error(std::move(numbers), refused.where());
}

} // namespace

stream_lease::~stream_lease() {
  if (stream_.empty()) {
    return;
  }
  if (made_in_ != fork_generation()) {
    stream_.abandon(); // of the parent
    return;
  }
  const std::lock_guard lock(from_->streams_mutex);
  --from_->lent_streams;
  try {
    from_->idle_streams.push_back(std::move(stream_));
  } catch (...) {
    report_current_exception("stream_lease"); // the stream is destroyed; its work still finishes
  }
}

std::shared_ptr<context> context::create(std::shared_ptr<backend> device, context_options options) {
  auto core = std::make_shared<context_core>(std::move(device), std::move(options));
  auto limit = core->root_budget;
  return {new context(std::move(core), nullptr, std::move(limit), nullptr), delete_in_own_process{}};
}

context::context(std::shared_ptr<context_core> core, std::shared_ptr<context> base,
                 std::shared_ptr<budget> limit, std::unique_ptr<reservation> drawn_from)
    : core_(std::move(core)), base_(std::move(base)), budget_(std::move(limit)),
      reservation_(std::move(drawn_from)) {}

context::~context() {
  if (base_ == nullptr) {
    core_->services.clear(); // they refer to this object
  }
}

std::shared_ptr<context> context::with_budget(std::string name, std::uint64_t limit) {
  require_open();
  return {new context(core_, shared_from_this(), budget_->make_child(std::move(name), limit), nullptr),
          delete_in_own_process{}};
}

std::shared_ptr<context> context::with_reservation(std::uint64_t bytes, overbooking policy) {
  require_open();
  std::unique_ptr<reservation> promised;
  try {
    promised = std::make_unique<reservation>(reservation::make(budget_, bytes, policy));
  } catch (const error& e) {
    if (e.refusal() == nullptr) {
      throw;
    }
    throw with_owners(e, *core_->holders, *budget_);
  }
  return {new context(core_, shared_from_this(), budget_, std::move(promised)), delete_in_own_process{}};
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
  const auto made = std::make_shared<charged_bytes>(core_->pinned_budget, core_->holders, bytes);
  try {
    core_->pinned->charge(bytes, *core_->pinned_budget);
  } catch (const error& e) {
    if (e.refusal() == nullptr) {
      throw;
    }
    throw with_owners(e, *core_->holders, *core_->pinned_budget);
  }
  made->taken = true;
  made->entry = core_->holders->add(owner_kind::own, label, bytes, core_->pinned_budget.get());
  return made;
}

counters& context::count() noexcept { return core_->counted; }
const std::shared_ptr<timelines>& context::clocks() const noexcept { return core_->clocks; }
const std::shared_ptr<event_log>& context::log() const noexcept { return core_->log; }
const std::shared_ptr<memory_sink>& context::recorder() const noexcept { return core_->recorder; }
stream_ref context::work_stream() const { return core_->work_stream.ref(); }

memory_statistics context::statistics() const {
  require_own_process();
  memory_statistics now;
  now.budget = budget_->statistics();
  now.ledger = core_->holders->totals();
  now.pinned = core_->pinned->held_bytes();
  now.host_held = core_->of_services([](context_service& each) { return each.host_bytes(); });
  now.held = core_->memory.top->held_bytes();
  now.pending_releases = core_->releases->pending();
  return now;
}

counter_values context::read_counters() const {
  require_own_process();
  const std::lock_guard lock(core_->counters_mutex);
  counter_values now = core_->counted.read();
  const counter_values elsewhere = core_->counted_elsewhere();
  now.allocations = elsewhere.allocations - core_->at_reset.allocations;
  now.imports = elsewhere.imports - core_->at_reset.imports;
  now.events = elsewhere.events - core_->at_reset.events;
  return now;
}

void context::reset_counters() {
  require_own_process();
  const std::lock_guard lock(core_->counters_mutex);
  core_->counted.reset();
  core_->at_reset = core_->counted_elsewhere();
}

bytes_by_name context::live_by_tag() const {
  require_own_process();
  return core_->holders->by_tag(base_ ? budget_.get() : nullptr);
}

bytes_by_name context::live_by_budget() const {
  require_own_process();
  return core_->holders->by_budget();
}

std::uint64_t context::foreign_bytes() const {
  if (on_host()) {
    return 0;
  }
  const device_properties now = core_->device->properties();
  const std::uint64_t used = now.total_bytes - now.free_bytes.value_or(now.total_bytes);
  // What the driver's pool keeps for reuse is ours, too; slabs of the cache lie in it.
  const std::uint64_t own = std::max(core_->memory.top->held_bytes(), core_->device->pool_bytes());
  return used - std::min(used, own);
}

stream_lease context::borrow_stream() {
  require_open();
  const std::lock_guard lock(core_->streams_mutex);
  if (core_->lent_streams >= core_->options.max_streams) {
    throw error(errc::busy, concat("all ", core_->options.max_streams, " streams of ", to_string(device()),
                                   " are borrowed"));
  }
  own_stream lent = [&] {
    if (core_->idle_streams.empty()) {
      return own_stream(core_->clocks);
    }
    own_stream reused = std::move(core_->idle_streams.back());
    core_->idle_streams.pop_back();
    return reused;
  }();
  ++core_->lent_streams;
  return {core_, std::move(lent)};
}

copy_kind context::kind_of_copy(memory_kind source, memory_kind target) const noexcept {
  return on_host() ? copy_kind::host_to_host : copy_between(source, target);
}

void context::copy(void* target, const void* source, std::size_t bytes, copy_kind kind, stream_ref stream) {
  if (bytes == 0) {
    return;
  }
  if (kind == copy_kind::device_to_host) {
    require_downloads(bytes);
  }
  stream.owner().copy(target, source, bytes, kind, stream.native_handle());
  core_->counter_of(kind).add_call(bytes);
}

void context::copy_all(std::span<const copy_range> ranges, copy_kind kind, stream_ref stream) {
  std::uint64_t bytes = 0;
  for (const copy_range& each : ranges) {
    bytes += each.bytes;
  }
  if (kind == copy_kind::device_to_host) {
    require_downloads(bytes);
  }
  stream.owner().copy_all(ranges, kind, stream.native_handle());
  core_->counter_of(kind).add_call(bytes);
}

bool context::forbids_downloads() const noexcept {
  return !on_host() && core_->download_bans.load(std::memory_order_relaxed) != 0;
}

void context::require_downloads(std::uint64_t bytes) const {
  if (bytes != 0 && forbids_downloads()) {
    throw error(errc::download_forbidden, concat("strict mode: ", bytes, " bytes would be copied from ",
                                                 to_string(device()), " to the host"));
  }
}

std::shared_ptr<void> context::forbid_downloads() {
  ++core_->download_bans;
  return {nullptr, [core = core_](void*) { --core->download_bans; }};
}

void context::count_transfer(copy_kind kind) noexcept { core_->counter_of(kind).add_transfer(); }

void context::fill(void* target, std::uint8_t value, std::size_t bytes, stream_ref stream) {
  if (bytes != 0) {
    stream.owner().fill(target, value, bytes, stream.native_handle());
  }
}

void context::read_scalar(void* target, const void* source, std::size_t bytes, stream_ref stream,
                          std::optional<memory_kind> kind) {
  constexpr std::size_t largest = 16;
  if (bytes > largest) {
    throw error(errc::invalid_argument, concat("a scalar read of ", bytes, " bytes; at most ", largest));
  }
  read_metadata({static_cast<std::byte*>(target), bytes}, source,
                kind_of_copy(kind.value_or(own_kind(device())), memory_kind::host), stream);
}

void context::read_scalars(std::span<std::int64_t> target, const std::int64_t* source, stream_ref stream) {
  read_metadata(std::as_writable_bytes(target), source, kind_of_copy(own_kind(device()), memory_kind::host),
                stream);
}

void context::send_description(void* target, std::span<const std::byte> source, stream_ref stream) {
  stream.owner().copy(target, source.data(), source.size(),
                      kind_of_copy(memory_kind::host, own_kind(device())), stream.native_handle());
  core_->counted.scalars.add_transfer();
  core_->counted.scalars.add_call(source.size());
}

void context::read_metadata(std::span<std::byte> target, const void* source, copy_kind kind,
                            stream_ref stream) {
  // Into memory of our own: where the wait fails the copy is still to come, and the caller's memory may be gone by then.
  const auto landing = std::make_shared<std::vector<std::byte>>(target.size());
  if (!on_host()) { // before the copy, which itself waits: its target is not page-locked
    core_->counted.synchronizations.fetch_add(1);
  }
  core_->device->copy(landing->data(), source, target.size(), kind, stream.native_handle());
  core_->counted.scalars.add_transfer();
  core_->counted.scalars.add_call(target.size());
  try {
    if (!on_host()) {
      stream.owner().synchronize_stream(stream.native_handle());
    }
  } catch (...) {
    core_->releases->submit({.after = {.points = {}, .unknown = true},
                             .action = [landing, self = shared_from_this()] { return true; },
                             .label = "scalar",
                             .bytes = target.size()});
    throw;
  }
  std::ranges::copy(*landing, target.begin());
}

void context::synchronize(const point_set& awaited) {
  if (!awaited.empty()) {
    core_->counted.synchronizations.fetch_add(1);
    for (const point& each : awaited.all()) {
      saeta::synchronize(each);
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
  core_->counted.synchronizations.fetch_add(1);
  stream.owner().synchronize_stream(stream.native_handle());
}

context_service& context::service_of(std::type_index kind,
                                     const std::function<std::unique_ptr<context_service>()>& make) {
  require_own_process();
  const std::lock_guard lock(core_->services_mutex);
  auto& kept = core_->services[kind];
  if (!kept) {
    kept = make();
  }
  return *kept;
}

hook_registration context::add_pressure_hook(std::string name, int priority, pressure_hook ask) {
  return core_->relief->add_hook(std::move(name), priority, std::move(ask));
}

std::size_t context::trim() { return inherited() ? 0 : core_->trim(); }
std::size_t context::drain() { return inherited() ? 0 : core_->drain(); }
bool context::wait_for_releases(std::chrono::milliseconds timeout) {
  return inherited() || core_->releases->wait_idle(timeout);
}

bytes_by_name context::close() {
  closed_ = true;
  if (inherited()) {
    return {}; // what lives is the parent's
  }
  if (reservation_) {
    reservation_->release();
  } else if (base_ != nullptr ||
             !on_host()) { // page-locked memory of devices is charged to the host's budget, too
    budget_->close();
  }
  core_->drain();
  core_->log->flush();
  return live_by_tag();
}

bool context::closed() const noexcept { return closed_ || (base_ && base_->closed()); }

void context::require_own_process() const {
  if (inherited()) {
    throw error(errc::device,
                on_host()
                    ? std::string("this context belongs to the parent of this forked process: open the "
                                  "process's own (open_context, saeta.context)")
                    : concat("CUDA can't be used in a forked process: ", to_string(device()),
                             " was opened by its parent; start the process with spawn instead of fork"));
  }
}

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

context::memory_source context::own_source() const noexcept {
  return {core_->memory.top.get(), budget_.get(), reservation_.get()};
}

context::memory_source context::source_of(memory_kind kind, std::string_view user) const {
  if (kind == memory_kind::device || kind == own_kind(device())) {
    return own_source();
  }
  if (kind != memory_kind::pinned) {
    throw error(errc::unsupported, concat("'", user, "': the context of ", to_string(device()),
                                          " allocates memory of the kinds ", to_string(own_kind(device())),
                                          " and pinned, not ", to_string(kind)));
  }
  if (on_host()) {
    return {core_->pinned.get(), budget_.get(), reservation_.get()};
  }
  return {core_->pinned.get(), core_->pinned_budget.get(), nullptr};
}

block context::allocate(const memory_source& out_of, std::size_t bytes, std::size_t alignment, tag label,
                        const stream_ref& stream) {
  require_open();
  if (stream.made_in_capture()) {
    throw error(errc::invalid_argument,
                concat("'", label.name(), "': ", bytes,
                       " bytes can't be allocated on a stream that captures a graph, which would own them: "
                       "allocate before the capture"));
  }
  const allocation_request request{bytes, alignment, label, out_of.charged, out_of.drawn_from};
  try {
    return out_of.from->allocate(request, stream);
  } catch (const error& e) {
    if (e.refusal() == nullptr) {
      throw;
    }
    throw with_owners(e, *core_->holders, *out_of.charged);
  }
}

} // namespace saeta
