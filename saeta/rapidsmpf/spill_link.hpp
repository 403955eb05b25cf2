// Spilling in both directions: rapidsmpf moves tables of a context, and the context asks rapidsmpf for room.
//
// @code
// const spill_link link(ctx, spill_manager_of(resource)); // until it is dropped, each asks the other
// @endcode
//
// What      rapidsmpf's manager gets a spill function that moves unused tables of the context
//           (spill/spill.hpp). The context gets a hook (memory/pressure.hpp): when a request on the device
//           has no room, the manager spills. It asks its spill functions in the order of their priorities,
//           ours among them. Tables that still have to leave are moved after that, as without a link.
// Owner     Whoever holds the link. It keeps neither the context nor the manager.
// Thread    Any. The manager calls spill functions under its lock: a link must not be destroyed in a spill
//           function, and a spill function must not allocate memory of the context.
// Failure   A spill function that throws in the hook is reported, and counts as having freed nothing.
// Links     librapidsmpf (26.10).
#pragma once

#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/spill/spill.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <rapidsmpf/memory/buffer_resource.hpp>
#include <rapidsmpf/memory/spill_manager.hpp>
#include <utility>

namespace saeta {

/// The manager of a buffer resource, which the result keeps.
[[nodiscard]] inline std::shared_ptr<rapidsmpf::SpillManager>
spill_manager_of(const std::shared_ptr<rapidsmpf::BufferResource>& of) {
  return {of, &of->spill_manager()};
}

class spill_link {
public:
  /// @param priority  of the spill function among those of the manager, where higher ones are asked earlier;
  ///                  of the hook among those of the context, too
  spill_link(const std::shared_ptr<context>& ctx, const std::shared_ptr<rapidsmpf::SpillManager>& manager,
             int priority = 0)
      : manager_(required(manager, "manager")),
        function_(manager->add_spill_function(
            [from = std::weak_ptr(required(ctx, "ctx"))](std::size_t bytes) { return spill(from, bytes); },
            priority)),
        hook_(ctx->add_room_maker("rapidsmpf", priority, [asked = std::weak_ptr(manager)](shortage& need) {
          return ask(asked, need.bytes);
        })) {}
  spill_link(spill_link&& other) noexcept
      : manager_(std::exchange(other.manager_, {})), function_(other.function_),
        hook_(std::move(other.hook_)) {}
  spill_link& operator=(spill_link&&) = delete;
  ~spill_link() {
    hook_.remove();
    if (const auto manager = manager_.lock()) {
      manager->remove_spill_function(function_);
    }
  }

private:
  static std::size_t spill(const std::weak_ptr<context>& from, std::size_t bytes) {
    const auto ctx = from.lock();
    const hooks_suspended inside; // the manager holds the lock that the hook needs
    return ctx == nullptr || ctx->closed() ? 0 : spill_unused(ctx, bytes);
  }
  static std::uint64_t ask(const std::weak_ptr<rapidsmpf::SpillManager>& asked,
                           std::uint64_t bytes) noexcept {
    try {
      const auto manager = asked.lock();
      return manager == nullptr ? 0 : manager->spill(bytes);
    } catch (...) {
      report_current_exception("pressure hook 'rapidsmpf'");
      return 0;
    }
  }

  std::weak_ptr<rapidsmpf::SpillManager> manager_;
  rapidsmpf::SpillManager::SpillFunctionID function_;
  hook_registration hook_;
};

} // namespace saeta
