#include "saeta/interop/own_memory.hpp"

#include "saeta/base/process.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace saeta {
namespace {

/// Exported storages by their first address, with one entry per live export.
struct export_table {
  std::mutex mutex;
  std::multimap<const void*, std::weak_ptr<storage>, std::less<>> entries;
};

/// Empty in a child of fork, because the contexts of its parent are not its own.
per_process<export_table> all_exports;

export_table& exports() { return all_exports.get(); }

bool contains(const storage& bytes, const void* lowest, std::size_t size) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.pointer());
  const auto from = reinterpret_cast<std::uintptr_t>(lowest);
  return from >= first && from - first <= bytes.bytes() && size <= bytes.bytes() - (from - first);
}

/// Removes one entry of the storage.
void forget(const std::shared_ptr<storage>& bytes) noexcept {
  const auto [first, end] = exports().entries.equal_range(bytes->pointer());
  for (auto entry = first; entry != end; ++entry) {
    if (!entry->second.owner_before(bytes) && !bytes.owner_before(entry->second)) {
      exports().entries.erase(entry);
      return;
    }
  }
}

void forget_all(const export_hold& of) noexcept {
  const std::lock_guard lock(exports().mutex);
  if (of.first()) {
    forget(of.first());
  }
  std::ranges::for_each(of.others(), forget);
}

} // namespace

known_export::known_export(std::span<const buffer> shown, access mode) : hold_(shown, mode) {
  try {
    const std::lock_guard lock(exports().mutex);
    const auto remember = [](const std::shared_ptr<storage>& bytes) {
      exports().entries.emplace(bytes->pointer(), bytes);
    };
    if (hold_.first()) {
      remember(hold_.first());
    }
    std::ranges::for_each(hold_.others(), remember);
  } catch (...) {
    forget_all(hold_); // the entries made so far
    throw;
  }
}

known_export::~known_export() { forget_all(hold_); }

std::shared_ptr<storage> find_known(const void* lowest, std::size_t bytes) {
  const std::lock_guard lock(exports().mutex);
  auto next = exports().entries.upper_bound(lowest);
  if (next == exports().entries.begin()) {
    return nullptr;
  }
  std::shared_ptr<storage> storage = std::prev(next)->second.lock();
  return storage && contains(*storage, lowest, bytes) ? storage : nullptr;
}

std::optional<buffer> share_again(const std::shared_ptr<storage>& bytes, const context& ctx,
                                  const void* lowest, std::size_t size, point ready) {
  const bool usable =
      bytes && !bytes->ctx()->inherited() && bytes->ctx()->shares_with(ctx) && contains(*bytes, lowest, size);
  if (!usable) {
    return std::nullopt;
  }
  if (!ready.empty()) {
    bytes->ordering().add_write(ready);
  }
  const auto distance =
      static_cast<const std::byte*>(lowest) - static_cast<const std::byte*>(bytes->pointer());
  return buffer(bytes).slice(static_cast<std::size_t>(distance), size);
}

own_memory_finder find_own(const context& ctx, const point& ready) {
  {
    const std::lock_guard lock(exports().mutex);
    if (exports().entries.empty()) {
      return {};
    }
  }
  return [&ctx, ready](std::span<const std::byte> range) {
    return share_again(find_known(range.data(), range.size()), ctx, range.data(), range.size(), ready);
  };
}

} // namespace saeta
