#include "saeta/share/lease.hpp"

#include "saeta/base/process.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <sys/socket.h>

namespace saeta::sharing {
namespace {

/// Connections without a lease, the latest last, with the names of their brokers.
struct idle_connections {
  static constexpr std::size_t most = 8;

  std::mutex mutex;
  std::vector<std::pair<std::string, descriptor>> kept;
};

idle_connections& idle() {
  static per_process<idle_connections> all;
  return all.get();
}

descriptor take_idle(std::string_view broker) {
  idle_connections& all = idle();
  const std::lock_guard lock(all.mutex);
  const auto found = std::find_if(all.kept.rbegin(), all.kept.rend(),
                                  [&](const auto& each) { return each.first == broker; });
  if (found == all.kept.rend()) {
    return {};
  }
  descriptor taken = std::move(found->second);
  all.kept.erase(std::prev(found.base()));
  return taken;
}

leased finish(std::string_view broker, descriptor connection, message replied) {
  std::vector<std::byte> reply = granted(replied.bytes);
  return {std::make_shared<lease>(std::string(broker), std::move(connection)), std::move(reply),
          std::move(replied.file)};
}

} // namespace

lease::~lease() {
  const request_message end = encode(request_kind::end, {});
  if (!connection_.is_open() ||
      ::send(connection_.number(), end.data(), end.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return; // the other process has ended, or this is a child of fork
  }
  try {
    idle_connections& all = idle();
    const std::lock_guard lock(all.mutex);
    all.kept.emplace_back(std::move(broker_), std::move(connection_));
    if (all.kept.size() > idle_connections::most) {
      all.kept.erase(all.kept.begin());
    }
  } catch (...) { // no memory to keep the connection: it is closed
  }
}

leased ask(std::string_view broker, request_kind kind, const share_token::id& key) {
  for (descriptor kept = take_idle(broker); kept.is_open(); kept = take_idle(broker)) {
    message replied = exchange(kept.number(), kind, key);
    const bool gone =
        replied.bytes.empty() || replied.bytes.front() == static_cast<std::byte>(reply_code::gone);
    if (!gone) { // otherwise the other process may have closed an old connection: try a new one
      return finish(broker, std::move(kept), std::move(replied));
    }
  }
  descriptor made = connect(broker);
  message replied = exchange(made.number(), kind, key);
  if (replied.bytes.empty()) { // it has ended, perhaps after it handed its socket over
    made = connect(broker);
    replied = exchange(made.number(), kind, key);
  }
  return finish(broker, std::move(made), std::move(replied));
}

void close_idle_connections() {
  idle_connections& all = idle();
  const std::lock_guard lock(all.mutex);
  all.kept.clear();
}

} // namespace saeta::sharing
