#include "saeta/interop/detail/own_memory.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace saeta {
namespace {

/// Storages by the address that they begin at, each as often as it was exported.
struct export_table {
  std::mutex mutex;
  std::multimap<const void*, std::weak_ptr<storage>, std::less<>> entries;
};

export_table& exports() {
  static auto* const table = new export_table; // exports may outlive every static object
  return *table;
}

bool contains(const storage& bytes, const void* lowest, std::size_t size) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.pointer());
  const auto from = reinterpret_cast<std::uintptr_t>(lowest);
  return from >= first && from - first <= bytes.bytes() && size <= bytes.bytes() - (from - first);
}

} // namespace

known_export::known_export(const buffer& shown)
    : hold_(std::span(&shown, 1), access::read), bytes_(shown.owner()) {
  if (bytes_) {
    const std::lock_guard lock(exports().mutex);
    exports().entries.emplace(bytes_->pointer(), bytes_);
  }
}

known_export::~known_export() {
  if (!bytes_) {
    return;
  }
  const std::lock_guard lock(exports().mutex);
  const auto [first, end] = exports().entries.equal_range(bytes_->pointer());
  for (auto each = first; each != end; ++each) {
    if (!each->second.owner_before(bytes_) && !bytes_.owner_before(each->second)) {
      exports().entries.erase(each);
      return;
    }
  }
}

std::shared_ptr<storage> find_known(const void* lowest, std::size_t bytes) {
  const std::lock_guard lock(exports().mutex);
  auto next = exports().entries.upper_bound(lowest);
  if (next == exports().entries.begin()) {
    return nullptr;
  }
  std::shared_ptr<storage> found = std::prev(next)->second.lock();
  return found && contains(*found, lowest, bytes) ? found : nullptr;
}

std::optional<buffer> shared_again(const std::shared_ptr<storage>& bytes, const context& home,
                                   const void* lowest, std::size_t size, point ready) {
  const bool usable = bytes && !bytes->home()->inherited() && bytes->home()->shares_with(home) &&
                      contains(*bytes, lowest, size);
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

} // namespace saeta
