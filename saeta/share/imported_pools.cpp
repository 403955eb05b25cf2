#include "saeta/share/imported_pools.hpp"

#include "saeta/base/interruptible_lock.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/loans/imported_pool.hpp"
#include "saeta/share/broker.hpp"

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace saeta::sharing {
namespace {

struct pool_entry {
  interruptible_mutex mutex;
  std::shared_ptr<imported_pool> imported; ///< null until its first use
};

/// The pools that the contexts of a device have imported, by the broker of their process.
struct pool_list {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<pool_entry>, std::less<>> by_broker;
};

struct pools_of_device final : context_service {
  std::shared_ptr<pool_list> list = std::make_shared<pool_list>();
};

std::shared_ptr<pool_list> pools_of(const context& home) {
  return home.services().of<pools_of_device>([] { return std::make_unique<pools_of_device>(); }).list;
}

void forget(pool_list& all, const std::string& broker, const std::weak_ptr<pool_entry>& entry) {
  std::shared_ptr<pool_entry> dropped; // without the lock
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_broker.find(broker);
  if (found != all.by_broker.end() && found->second == entry.lock()) {
    dropped = std::move(found->second);
    all.by_broker.erase(found);
  }
}

void import_pool(const context& home, const std::shared_ptr<pool_list>& all,
                 const std::shared_ptr<pool_entry>& into, const share_token& token) {
  descriptor connection = connect(token.broker);
  message replied = exchange(connection.number(), request_kind::pool, token.key);
  static_cast<void>(granted(replied.bytes));
  if (!replied.file.is_open()) {
    throw error(errc::exchange, "the process that exported the buffer sent no descriptor of its pool");
  }
  into->imported = imported_pool::open(home, replied.file.number());
  // Dropped when that process ends, because it then shares no more memory.
  broker::own()->watch(std::move(connection),
                       [name = token.broker, list = std::weak_ptr(all), entry = std::weak_ptr(into)] {
                         if (const std::shared_ptr<pool_list> live = list.lock()) {
                           forget(*live, name, entry);
                         }
                       });
}

} // namespace

buffer open_device_bytes(const std::shared_ptr<context>& home, const share_token& token,
                         std::span<const std::byte> shared, std::shared_ptr<lease> held, std::string tag) {
  shared_bytes which;
  if (shared.size() != sizeof which) {
    throw error(errc::format,
                concat("a description of shared bytes has ", sizeof which, " bytes, not ", shared.size()));
  }
  std::memcpy(static_cast<void*>(&which), shared.data(), sizeof which);
  const std::shared_ptr<pool_list> all = pools_of(*home);
  std::shared_ptr<pool_entry> entry;
  {
    const std::lock_guard lock(all->mutex);
    std::shared_ptr<pool_entry>& known = all->by_broker[token.broker];
    if (known == nullptr) {
      known = std::make_shared<pool_entry>();
    }
    entry = known;
  }
  std::shared_ptr<imported_pool> pool;
  {
    const interruptible_mutex::guard alone = entry->mutex.lock("importing the pool of another process");
    if (entry->imported == nullptr) {
      import_pool(*home, all, entry, token);
    }
    pool = entry->imported;
  }
  return pool->open_bytes(home, which, std::move(held), std::move(tag));
}

std::vector<std::string> imported_brokers(const context& home) {
  std::vector<std::string> names;
  const std::shared_ptr<pool_list> all = pools_of(home);
  const std::lock_guard lock(all->mutex);
  for (const auto& [name, entry] : all->by_broker) {
    names.push_back(name);
  }
  return names;
}

} // namespace saeta::sharing
