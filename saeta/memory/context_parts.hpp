// Parts of a context: reports of its memory, services of upper layers, and streams that it lends.
//
// @code
// const context_reports reports = ctx->reports(); // a view: `ctx` outlives it
// for (const auto& [tag, live] : reports.live_by_tag()) {
//   std::cout << tag << ": " << live << " bytes\n";
// }
// @endcode

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/required.hpp"
#include "saeta/budget/budget.hpp"
#include "saeta/observe/event_log.hpp"
#include "saeta/observe/ledger.hpp"
#include "saeta/order/timeline.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <typeindex>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

class context;
class memory_sink;

struct memory_statistics {
  budget_statistics budget;
  ledger_totals ledger;
  std::uint64_t pinned = 0;           ///< page-locked bytes held
  std::uint64_t host_held = 0;        ///< pageable host memory for downloads: in use, or kept for later
  std::uint64_t held = 0;             ///< bytes taken from the device: in use, cached, or lost to rounding
  std::uint64_t pending_releases = 0; ///< waiting for work to finish
};

/// Reports of a context about its memory.
///
/// Owner     A view of a context, made by `context::reports`. It must not outlive the context.
/// Order     Each number is a consistent snapshot; two numbers may be of different moments.
/// Thread    Any.
/// Failure   error device in a child of fork.
class context_reports {
public:
  explicit context_reports(const context& of) noexcept : of_(of) {}

  [[nodiscard]] memory_statistics statistics() const;
  /// Live bytes by tag: of the whole device, or for a derived context, of its own.
  [[nodiscard]] bytes_by_name live_by_tag() const;
  /// Live bytes of own buffers by budget, for the whole device.
  [[nodiscard]] bytes_by_name live_by_budget() const;
  /// Bytes of the device that are used by other libraries and processes. 0 on the host.
  [[nodiscard]] std::uint64_t foreign_bytes() const;
  [[nodiscard]] const std::shared_ptr<event_log>& log() const noexcept;
  /// The records since the context was made. Null unless `context_options::recorded` asked for them.
  [[nodiscard]] const std::shared_ptr<memory_sink>& recorder() const noexcept;

private:
  const context& of_;
};

/// Services that upper layers keep with the contexts of a device, such as the staging ring.
///
/// Owner     The contexts of the device share one registry (`context::services`). A service is made on first
///           use and destroyed with the contexts, so it must not own a context.
/// Thread    Any. `make` is called under the registry's lock.
///
/// @code
/// struct compiled_kernels final : context_service { // destroyed with the contexts of the device
///   std::vector<std::string> names;
/// };
/// service_registry& services = ctx->services();
/// auto& kernels = services.of<compiled_kernels>([] { return std::make_unique<compiled_kernels>(); });
/// kernels.names.emplace_back("scale"); // every later call returns the same object
/// @endcode
class context_service {
public:
  context_service() = default;
  context_service(const context_service&) = delete;
  context_service& operator=(const context_service&) = delete;
  virtual ~context_service() = default;

  /// Bytes of host memory that it has taken from the system, in use or kept for later.
  [[nodiscard]] virtual std::uint64_t host_bytes() const noexcept { return 0; }
  /// Returns host memory that it keeps for later to the system; returns the number of bytes.
  virtual std::size_t trim() noexcept { return 0; }
};

class service_registry {
public:
  /// Returns the device's `Service`. @param make  returns a std::unique_ptr of it; called on first use.
  template <std::derived_from<context_service> Service, class Make>
  [[nodiscard]] Service& of(Make make) {
    return static_cast<Service&>(find_or_make(typeid(Service), make));
  }

  [[nodiscard]] std::uint64_t host_bytes() const;
  std::uint64_t trim();
  /// Destroys all services.
  void clear() { services_.clear(); }

private:
  context_service& find_or_make(std::type_index kind,
                                const std::function<std::unique_ptr<context_service>()>& make);

  mutable std::mutex mutex_;
  std::map<std::type_index, std::unique_ptr<context_service>> services_;
};

class stream_lease;

/// The pool of streams that the contexts of a device lend.
///
/// Owner     The contexts of the device share one pool (`context::borrow_stream`). When its lease ends, a
///           stream goes back to the pool and is lent again. A lease keeps the pool and the contexts' core
///           alive.
/// Thread    The pool: any. A lease: one at a time.
/// Failure   busy when as many streams are lent as the options allow (`context_options::max_streams`).
class stream_pool {
public:
  stream_pool(std::shared_ptr<timelines> clocks, std::size_t most)
      : clocks_(required(std::move(clocks), "clocks")), most_(most) {}

  /// @param keeps  kept alive by the lease; it owns this pool.
  /// @throws error busy, device.
  [[nodiscard]] stream_lease borrow(std::shared_ptr<void> keeps);

private:
  friend class stream_lease;
  friend struct stream_pool_probe; // tests/unit/memory
  void take_back(own_stream lent) noexcept;

  std::shared_ptr<timelines> clocks_;
  std::size_t most_;
  std::mutex mutex_;
  std::vector<own_stream> idle_;
  std::size_t lent_ = 0;
};

/// A borrowed stream.
///
/// @code
/// stream_pool pool(ctx->clocks(), 2);           // `context::borrow_stream` lends from one like this
/// const stream_lease copies = pool.borrow(ctx); // keeps `ctx`; error busy if both streams are lent
/// launch(copies.ref(), bytes.address());
/// @endcode
class stream_lease {
public:
  stream_lease(stream_pool& from, std::shared_ptr<void> keeps, own_stream lent)
      : from_(&from), keeps_(std::move(keeps)), stream_(std::move(lent)) {}
  stream_lease(stream_lease&&) noexcept = default;
  stream_lease& operator=(stream_lease&&) = delete;
  ~stream_lease();

  /// @throws error closed for a lease that was moved from.
  [[nodiscard]] stream_ref ref() const {
    if (stream_.empty()) [[unlikely]] {
      refuse_moved_from("stream lease");
    }
    return stream_.ref();
  }

private:
  stream_pool* from_;
  std::shared_ptr<void> keeps_;
  own_stream stream_;
  std::uint64_t made_in_ = fork_generation();
};

} // namespace saeta
