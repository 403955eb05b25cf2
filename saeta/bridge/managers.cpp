// The live memory managers, and their registration with libarrow.
#include "saeta/base/process.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/device.hpp"
#include "saeta/bridge/memory_manager.hpp"

#include <arrow/config.h>
#include <arrow/util/config.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace saeta {
namespace {

struct manager_table {
  using key = std::pair<const context*, memory_kind>;

  std::mutex mutex;
  /// A manager keeps its context, so no two contexts with a manager have the same key.
  std::map<key, std::weak_ptr<bridged_memory>> entries;
};

/// Empty in a child of fork, because the contexts of its parent are not its own.
per_process<manager_table> all_managers;

/// The kind of memory of a device type; nullopt for types that are not ours.
std::optional<memory_kind> kind_of(arrow::DeviceAllocationType type) noexcept {
  switch (type) {
  case arrow::DeviceAllocationType::kCUDA:
  case arrow::DeviceAllocationType::kEXT_DEV:
    return memory_kind::device;
  case arrow::DeviceAllocationType::kCUDA_HOST:
    return memory_kind::pinned;
  case arrow::DeviceAllocationType::kCUDA_MANAGED:
    return memory_kind::managed;
  default:
    return std::nullopt;
  }
}

arrow::Result<std::shared_ptr<arrow::MemoryManager>> find_manager(const context_finder& open,
                                                                  std::int64_t ordinal, memory_kind kind) {
  return bridge::run_guarded([&]() -> arrow::Result<std::shared_ptr<arrow::MemoryManager>> {
    const std::shared_ptr<context> ctx = open(ordinal);
    if (ctx == nullptr) {
      throw error(errc::device, concat("this machine has no device number ", ordinal));
    }
    return memory_manager_of(ctx, kind);
  });
}

} // namespace

bridged_memory::bridged_memory(std::shared_ptr<context> ctx, memory_kind kind)
    : MemoryManager(std::make_shared<bridged_device>(ctx, kind)), ctx_(std::move(ctx)), kind_(kind) {}

bridged_memory::~bridged_memory() {
  manager_table& known = all_managers.get();
  const std::lock_guard lock(known.mutex);
  const auto entry = known.entries.find({ctx_.get(), kind_});
  if (entry != known.entries.end() && entry->second.expired()) { // else a newer manager has the entry
    known.entries.erase(entry);
  }
}

std::shared_ptr<arrow::MemoryManager> memory_manager_of(const std::shared_ptr<context>& ctx,
                                                        memory_kind kind) {
  require_argument(ctx, "ctx");
  const memory_kind kept = ctx->on_host() ? memory_kind::host : kind;
  if (!ctx->on_host() && kept == memory_kind::host) {
    throw error(
        errc::invalid_argument,
        concat("ordinary host memory has no memory manager in the context of ", to_string(ctx->device())));
  }
  manager_table& known = all_managers.get();
  const std::lock_guard lock(known.mutex);
  std::weak_ptr<bridged_memory>& entry = known.entries[{ctx.get(), kept}];
  std::shared_ptr<bridged_memory> found = entry.lock();
  if (found == nullptr) {
    found = std::make_shared<bridged_memory>(ctx, kept);
    entry = found;
  }
  return found;
}

std::shared_ptr<arrow::MemoryManager> memory_manager_of(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  return memory_manager_of(ctx, own_kind(ctx->device()));
}

std::shared_ptr<context> context_of(const arrow::MemoryManager& of) {
  const auto* const ours = dynamic_cast<const bridged_memory*>(&of);
  return ours == nullptr ? nullptr : ours->ctx();
}

void register_devices(arrow::DeviceAllocationType type, context_finder open) {
  require_argument(open, "open");
  static std::mutex mutex;
  static std::set<arrow::DeviceAllocationType> registered;
  const std::optional<memory_kind> kind = kind_of(type);
  if (!kind) {
    throw error(
        errc::invalid_argument,
        concat("device type ", static_cast<int>(type),
               " is not supported: expected CUDA (2), CUDA_HOST (3), EXT_DEV (12) or CUDA_MANAGED (13)"));
  }
  const std::lock_guard lock(mutex);
  if (registered.contains(type)) {
    return;
  }
  const arrow::Status done =
      arrow::RegisterDeviceMapper(type, [open = std::move(open), kind = *kind](std::int64_t ordinal) {
        return find_manager(open, ordinal, kind);
      });
  if (!done.ok()) {
    throw error(errc::exchange, concat("libarrow has memory managers of another library for device type ",
                                       static_cast<int>(type), ": ", done.message()));
  }
  registered.insert(type);
}

std::string built_arrow_version() { return ARROW_VERSION_STRING; }
std::string loaded_arrow_version() { return arrow::GetBuildInfo().version_string; }

} // namespace saeta
