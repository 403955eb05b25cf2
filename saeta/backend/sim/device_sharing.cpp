// Memory of the simulated device that other processes open: they map the arena, which is an anonymous file.

#include "saeta/backend/sim/machine.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace saeta::sim {
namespace {

constexpr std::uint64_t name_mark = 0x73'61'65'74'61'2d'73'69;

/// The content of an allocation's name.
struct allocation_facts {
  std::uint64_t mark = name_mark;
  std::uint64_t process = 0;
  std::uint64_t machine = 0; ///< number of the machine, unique in its process
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  const void* base = nullptr; ///< address in the process that exported the memory
  std::uint64_t pooled = 0;   ///< 1 for memory of the pool
};
static_assert(sizeof(allocation_facts) <= sizeof(allocation_name));

void require_exportable(bool exportable, std::int32_t ordinal) {
  if (!exportable) {
    throw error(
        errc::unsupported,
        concat(
            "sim:", ordinal,
            ": the pool is not exportable: make it exportable before the first allocation (stack_options)"));
  }
}

/// The count of importers of the original allocation; null if it belongs to another process. Called without a
/// lock.
std::shared_ptr<std::atomic<int>> importers_of(const allocation_facts& facts) {
  const auto exporter =
      facts.process == static_cast<std::uint64_t>(::getpid()) ? machine::of_number(facts.machine) : nullptr;
  if (!exporter) {
    return nullptr;
  }
  const machine::guard held = exporter->lock();
  allocation* const allocation = exporter->memory().beginning_at(facts.base);
  if (allocation == nullptr) {
    throw error(errc::device, "sim: the exporter has freed the allocation");
  }
  if (!allocation->importers) {
    allocation->importers = std::make_shared<std::atomic<int>>(0);
  }
  return allocation->importers;
}

} // namespace

mapped_pool::mapped_pool(int descriptor) {
  struct stat stat {};
  if (fstat(descriptor, &stat) != 0 || stat.st_size <= 0) {
    throw error(errc::device, concat("sim: descriptor ", descriptor, " does not belong to a pool"));
  }
  size_ = static_cast<std::size_t>(stat.st_size);
  void* const mapped =
      mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (mapped == MAP_FAILED) {
    throw error(errc::device, concat("sim: descriptor ", descriptor, " can't be mapped as a pool"));
  }
  base_ = static_cast<unsigned char*>(mapped);
}

mapped_pool::~mapped_pool() { munmap(base_, size_); }

bool mapped_pool::contains(const void* pointer) const noexcept {
  return std::less_equal<const void*>()(base_, pointer) && std::less<const void*>()(pointer, base_ + size_);
}

std::size_t mapped_pool::offset(const void* pointer) const noexcept {
  return static_cast<std::size_t>(static_cast<const unsigned char*>(pointer) - base_);
}

int simulated_device::export_pool() {
  const machine::guard held = machine_->enter_call(*gpu_, "export_pool");
  require_exportable(exportable_, gpu_->ordinal);
  return gpu_->memory.descriptor();
}

allocation_name simulated_device::export_allocation(const void* base) {
  const machine::guard held = machine_->enter_call(*gpu_, "export_allocation");
  require_exportable(exportable_, gpu_->ordinal);
  const allocation* const allocation = machine_->memory().beginning_at(base);
  const bool pooled = allocation != nullptr && allocation->kind == allocation_kind::stream_ordered;
  if (allocation == nullptr || allocation->ordinal != gpu_->ordinal ||
      (pooled && !from_pool_.contains(base)) || (!pooled && allocation->kind != allocation_kind::direct)) {
    throw error(errc::device,
                concat("sim:", gpu_->ordinal, ": no allocation of the device begins at ", base));
  }
  const allocation_facts facts{.process = static_cast<std::uint64_t>(::getpid()),
                               .machine = machine_->number(),
                               .offset = gpu_->memory.offset(base),
                               .bytes = allocation->bytes,
                               .base = base,
                               .pooled = pooled ? 1U : 0U};
  allocation_name name{};
  std::memcpy(name.data(), &facts, sizeof facts);
  return name;
}

pool_handle simulated_device::import_pool(int descriptor) {
  const machine::guard held = machine_->enter_call(*gpu_, "import_pool");
  auto pool = std::make_shared<mapped_pool>(descriptor);
  std::erase_if(gpu_->mapped, [](const auto& weak) { return weak.expired(); });
  gpu_->mapped.push_back(pool);
  const std::uintptr_t handle = ++gpu_->imported_count;
  gpu_->imported.emplace(handle, std::move(pool));
  ++gpu_->alive.imports;
  return pool_handle{handle};
}

void simulated_device::release_pool(pool_handle imported) noexcept {
  const machine::guard held = machine_->lock();
  if (gpu_->imported.erase(static_cast<std::uintptr_t>(imported)) == 0) {
    saeta::report("sim: releasing a pool", "the pool was not imported, or was already released");
    return;
  }
  --gpu_->alive.imports;
}

void* simulated_device::open_allocation(pool_handle imported, const allocation_name& name) {
  allocation_facts facts;
  std::memcpy(&facts, name.data(), sizeof facts);
  if (facts.mark != name_mark) {
    throw error(errc::device, "sim: the bytes do not describe an allocation");
  }
  if (facts.pooled != 0 && facts.bytes > largest_pool_export) {
    throw error(errc::device,
                concat("sim: an allocation of ", facts.bytes, " bytes of a pool can't be opened"));
  }
  const auto importers = importers_of(facts);
  const machine::guard held = machine_->enter_call(*gpu_, "open_allocation");
  const auto entry = gpu_->imported.find(static_cast<std::uintptr_t>(imported));
  if (entry == gpu_->imported.end()) {
    throw error(errc::device, concat("sim:", gpu_->ordinal, ": the pool was not imported"));
  }
  const std::shared_ptr<mapped_pool>& pool = entry->second;
  if (facts.bytes > pool->size() || facts.offset > pool->size() - facts.bytes) {
    throw error(errc::device, concat("sim: ", facts.bytes, " bytes at offset ", facts.offset,
                                     " exceed a pool of ", pool->size(), " bytes"));
  }
  unsigned char* const base = pool->at(facts.offset);
  if (machine_->memory().beginning_at(base) != nullptr) {
    throw error(errc::device, concat("sim:", gpu_->ordinal, ": the allocation is already open"));
  }
  allocation& allocation =
      machine_->memory().add(base, facts.bytes, allocation_kind::imported, gpu_->ordinal);
  allocation.importers = importers;
  if (importers) {
    importers->fetch_add(1);
  }
  ++gpu_->alive.imports;
  return base;
}

bool simulated_device::close_allocation(void* pointer, stream_handle stream) noexcept {
  try {
    const machine::guard held = machine_->enter();
    machine_->require_device(*gpu_, "close_allocation");
    const allocation* const gone = machine_->memory().beginning_at(pointer);
    if (gone == nullptr || gone->kind != allocation_kind::imported || gone->ordinal != gpu_->ordinal) {
      saeta::report("sim: closing an allocation", concat("no allocation is open at ", pointer));
      return false;
    }
    std::shared_ptr<mapped_pool> pool; // keeps the bytes mapped until the operation has run
    for (const auto& weak : gpu_->mapped) {
      if (auto one = weak.lock(); one && one->contains(pointer)) {
        pool = std::move(one);
      }
    }
    operation work;
    work.body = [importers = gone->importers, pool](unsigned, unsigned) {
      if (importers) {
        importers->fetch_sub(1);
      }
    };
    const auto queued = machine_->submit(machine_->stream(*gpu_, stream), "close",
                                         {{pointer, gone->bytes, false}}, std::move(work));
    machine_->memory().remove(*gone, {queued->when, queued->name});
    --gpu_->alive.imports;
    return true;
  } catch (...) {
    report_current_exception("sim: closing an allocation");
    return false;
  }
}

} // namespace saeta::sim
