// Leases of memory that other processes share. Each is an open connection to the process that shares it.
//
// What      That process takes the end of the connection as the end of the lease, so a lease ends even if
//           this process is killed. A lease that ends in the usual way sends a message instead, and its
//           connection is kept for the next lease: to accept a new one takes longer than to answer a request.
// Owner     Whoever uses the memory shares the lease. A process keeps at most eight connections without one.
// Thread    Any.
// Fork      A child has none of its parent's connections. Leases of the parent end with the parent.
#pragma once

#include "saeta/share/descriptor.hpp"
#include "saeta/share/wire.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace saeta::sharing {

class lease {
public:
  lease(std::string broker, descriptor connection) noexcept
      : broker_(std::move(broker)), connection_(std::move(connection)) {}
  lease(const lease&) = delete;
  lease& operator=(const lease&) = delete;
  ~lease();

  /// Whether the process that shares the memory has ended: what is open stays, and nobody else can open it.
  [[nodiscard]] bool ended() const noexcept { return has_ended(connection_.number()); }

private:
  std::string broker_;
  descriptor connection_;
};

struct leased {
  std::shared_ptr<lease> held;
  std::vector<std::byte> reply;
  descriptor file; ///< that came with the reply
};

/// Asks the process of a broker for an export. @throws error as `connect`, `exchange` and `granted`.
[[nodiscard]] leased ask(std::string_view broker, request_kind kind, const share_token::id& key);

/// Closes the connections without a lease.
void close_idle_connections();

} // namespace saeta::sharing
