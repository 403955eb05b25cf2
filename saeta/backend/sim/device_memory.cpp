// Memory of the simulated device: direct, stream-ordered and page-locked.

#include "saeta/backend/sim/machine.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace saeta::sim {
namespace {

constexpr std::size_t round_allocation(std::size_t bytes) {
  return (bytes + arena::granule - 1) / arena::granule * arena::granule;
}

[[noreturn]] void refuse(const gpu& home, std::size_t bytes) {
  throw error(errc::out_of_memory,
              concat("sim:", home.ordinal, ": can't allocate ", bytes, " bytes (", human_bytes(bytes),
                     ") of device memory: ", home.used_bytes, " of ", home.total_bytes, " are in use and ",
                     home.memory.pooled_bytes(), " in the pool"));
}

/// @throws error out_of_memory when the device has no room, even after its pool was trimmed.
void make_room(gpu& home, std::size_t bytes, bool pooled) {
  if (bytes > home.total_bytes || round_allocation(bytes) > home.total_bytes - home.used_bytes) {
    refuse(home, bytes);
  }
  const auto full = [&] {
    return home.used_bytes + home.memory.pooled_bytes() + round_allocation(bytes) > home.total_bytes;
  };
  if (!pooled && full()) {
    home.memory.trim(0);
    if (full()) {
      refuse(home, bytes);
    }
  }
}

void count_allocation(gpu& home, std::size_t bytes) {
  home.used_bytes += round_allocation(bytes);
  home.alive.bytes += bytes;
  ++home.alive.allocations;
}

void count_free(gpu& home, std::size_t bytes) {
  home.used_bytes -= round_allocation(bytes);
  home.alive.bytes -= bytes;
  --home.alive.allocations;
}

/// Reports a free while an importer has the memory open: the pool may reuse it.
void check_importers(machine& owner, const allocation& gone) {
  if (gone.importers && gone.importers->load() != 0) {
    owner.add_finding({"open in another process", "free", gone.base, gone.bytes,
                       concat("allocation ", gone.number, " (", gone.bytes, " bytes, sim:", gone.ordinal,
                              ") is freed while it is open elsewhere")});
  }
}

/// Reports and returns null when this device has no such allocation.
allocation* find(machine& owner, const gpu& home, void* pointer, std::size_t bytes) {
  allocation* const allocation = owner.memory().beginning_at(pointer);
  if (allocation == nullptr || allocation->ordinal != home.ordinal || allocation->bytes != bytes) {
    report("sim: freeing memory",
           concat(bytes, " bytes at ", pointer, " are not an allocation of sim:", home.ordinal));
    return nullptr;
  }
  return allocation;
}

} // namespace

void* simulated_device::allocate(std::size_t bytes, std::size_t alignment) {
  const machine::guard held = machine_->enter_call(*gpu_, "allocate");
  make_room(*gpu_, bytes, false);
  const auto taken = gpu_->memory.take(round_allocation(bytes), std::max(alignment, arena::granule));
  if (!taken) {
    refuse(*gpu_, bytes);
  }
  std::uint8_t* const base = gpu_->memory.at(taken->offset);
  std::memset(base, poison, bytes);
  machine_->memory().add(base, bytes, allocation_kind::direct, gpu_->ordinal);
  count_allocation(*gpu_, bytes);
  return base;
}

bool simulated_device::deallocate(void* pointer, std::size_t bytes, std::size_t) noexcept {
  try {
    const machine::guard held = machine_->enter();
    machine_->require_device(*gpu_, "deallocate");
    const allocation* const gone = find(*machine_, *gpu_, pointer, bytes);
    if (gone == nullptr || gone->kind == allocation_kind::pinned || gone->kind == allocation_kind::imported) {
      return false;
    }
    check_importers(*machine_, *gone);
    machine_->check_host({pointer, bytes, false}, "free");
    std::memset(pointer, poison, bytes);
    const bool pooled = gone->kind == allocation_kind::stream_ordered;
    gpu_->pool_used -= pooled ? round_allocation(bytes) : 0;
    machine_->memory().remove(*gone, machine_->host_access("free"));
    gpu_->memory.give_back({gpu_->memory.offset(pointer), round_allocation(bytes), pooled, nullptr});
    count_free(*gpu_, bytes);
    return true;
  } catch (...) {
    report_current_exception("sim: freeing memory");
    return false;
  }
}

void* simulated_device::allocate_async(std::size_t bytes, stream_handle stream) {
  const machine::guard held = machine_->enter_call(*gpu_, "allocate_async");
  stream_state& ordering = machine_->stream(*gpu_, stream);
  if (ordering.capture) {
    throw error(errc::device, concat("sim:", gpu_->ordinal, ": can't allocate while stream ", ordering.slot,
                                     " captures a graph"));
  }
  make_room(*gpu_, bytes, true);
  const auto taken =
      gpu_->memory.take_pooled(round_allocation(bytes), ordering.slot, machine_->schedule().random());
  if (!taken) {
    refuse(*gpu_, bytes);
  }
  std::uint8_t* const base = gpu_->memory.at(taken->offset);
  operation work;
  if (!taken->finished()) {
    work.after.push_back(taken->freed);
  }
  work.bytes = bytes;
  work.offset = taken->offset;
  work.body = [base, bytes](unsigned, unsigned) { std::memset(base, poison, bytes); };
  const auto queued = machine_->submit(ordering, "allocate", {}, std::move(work));
  machine_->memory().add(base, bytes, allocation_kind::stream_ordered, gpu_->ordinal,
                         {queued->when, queued->name});
  gpu_->pool_used += round_allocation(bytes);
  pool_used_ = true;
  from_pool_.insert(base);
  count_allocation(*gpu_, bytes);
  return base;
}

bool simulated_device::deallocate_async(void* pointer, std::size_t bytes, stream_handle stream) noexcept {
  try {
    const machine::guard held = machine_->enter();
    machine_->require_device(*gpu_, "deallocate_async");
    stream_state& ordering = machine_->stream(*gpu_, stream);
    const allocation* const gone = find(*machine_, *gpu_, pointer, bytes);
    if (gone == nullptr || gone->kind != allocation_kind::stream_ordered || ordering.capture) {
      return false;
    }
    check_importers(*machine_, *gone);
    operation work;
    work.body = [pointer, bytes](unsigned, unsigned) { std::memset(pointer, poison, bytes); };
    const auto queued = machine_->submit(ordering, "free", {{pointer, bytes, false}}, std::move(work));
    machine_->memory().remove(*gone, {queued->when, queued->name});
    gpu_->memory.give_back({gpu_->memory.offset(pointer), round_allocation(bytes), true, queued});
    from_pool_.erase(pointer);
    gpu_->pool_used -= round_allocation(bytes);
    count_free(*gpu_, bytes);
    return true;
  } catch (...) {
    report_current_exception("sim: freeing memory in stream order");
    return false;
  }
}

std::uint64_t simulated_device::pool_bytes() const {
  const machine::guard held = machine_->lock();
  return gpu_->pool_used + gpu_->memory.pooled_bytes();
}

std::size_t simulated_device::trim_pool(std::size_t keep) {
  const machine::guard held = machine_->enter_call(*gpu_, "trim_pool");
  return gpu_->memory.trim(keep);
}

void simulated_device::set_pool_threshold(std::uint64_t bytes) {
  const machine::guard held = machine_->enter_call(*gpu_, "set_pool_threshold");
  gpu_->pool_threshold = bytes;
}

std::shared_ptr<backend> simulated_device::another() {
  options chosen;
  chosen.ordinal = gpu_->ordinal;
  chosen.beside = std::static_pointer_cast<simulated_device>(shared_from_this());
  return create(chosen);
}

void simulated_device::make_pool_exportable() {
  const machine::guard held = machine_->enter_call(*gpu_, "make_pool_exportable");
  const std::uint64_t bytes = gpu_->pool_used + gpu_->memory.pooled_bytes();
  if (!exportable_ && pool_used_ && bytes != 0) {
    throw error(errc::busy, concat("sim:", gpu_->ordinal, ": the pool already has ", bytes,
                                   " bytes: make it exportable before the first allocation"));
  }
  gpu_->memory.share();
  exportable_ = true;
}

bool simulated_device::pool_exportable() const {
  const machine::guard held = machine_->lock();
  return exportable_;
}

void* simulated_device::allocate_pinned(std::size_t bytes) {
  const machine::guard held = machine_->enter_call(*gpu_, "allocate_pinned");
  const bool impossible = bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  void* const pointer = impossible ? nullptr : ::operator new(bytes, pinned_alignment, std::nothrow);
  if (pointer == nullptr) {
    throw error(errc::out_of_memory,
                concat("sim: the system has too little page-locked memory for ", bytes, " bytes"));
  }
  std::memset(pointer, poison, bytes);
  machine_->memory().add(static_cast<std::uint8_t*>(pointer), bytes, allocation_kind::pinned, gpu_->ordinal);
  ++gpu_->alive.pinned;
  return pointer;
}

bool simulated_device::deallocate_pinned(void* pointer, std::size_t bytes) noexcept {
  try {
    const machine::guard held = machine_->enter();
    machine_->require_device(*gpu_, "deallocate_pinned");
    const allocation* const gone = find(*machine_, *gpu_, pointer, bytes);
    if (gone == nullptr || gone->kind != allocation_kind::pinned) {
      return false;
    }
    const bool unused = machine_->check_host({pointer, bytes, false}, "free");
    std::memset(pointer, poison, bytes);
    machine_->memory().remove(*gone, machine_->host_access("free"));
    --gpu_->alive.pinned;
    if (unused) {
      ::operator delete(pointer, pinned_alignment);
    } else {
      machine_->keep_until_end(pointer);
    }
    return true;
  } catch (...) {
    report_current_exception("sim: freeing page-locked memory");
    return false;
  }
}

memory_kind simulated_device::kind_of(const void* pointer) const {
  const machine::guard held = machine_->enter_call(*gpu_, "kind_of");
  const allocation* const allocation = machine_->memory().find_around(pointer);
  if (allocation != nullptr && allocation->kind == allocation_kind::pinned) {
    return memory_kind::pinned;
  }
  return machine_->owner(pointer) != nullptr ? memory_kind::device : memory_kind::host;
}

bool simulated_device::can_access_peer(const backend& other) const {
  const auto* const peer = dynamic_cast<const simulated_device*>(&other);
  return peer != nullptr && peer->machine_ == machine_ &&
         (peer->gpu_ == gpu_ || (peer->gpu_->offers_peers && gpu_->offers_peers));
}

void simulated_device::enable_peer_access(backend& other) {
  const machine::guard held = machine_->enter_call(*gpu_, "enable_peer_access");
  if (!can_access_peer(other)) {
    throw error(errc::unsupported,
                concat("sim:", gpu_->ordinal, " can't access the memory of ", to_string(other.device()),
                       ": it is not a device of the same machine, or one of them offers no peer access"));
  }
  const gpu* const peer = dynamic_cast<simulated_device&>(other).gpu_;
  if (std::find(gpu_->peers.begin(), gpu_->peers.end(), peer) == gpu_->peers.end()) {
    gpu_->peers.push_back(peer);
  }
}

} // namespace saeta::sim
