// A stack of resources, described by one options object and built from it: decorators on top, a base at the
// bottom.
//
// @code
// stack_options options;
// parse_stack("logging, budget, guard, caching", options); // top first; the last may be a base
// const auto log = std::make_shared<event_log>();
// const resource_stack stack = build_stack(options, {device, ctx->memory_budget(), log, {}});
// @endcode
//
// What      The default base is the cache over the driver's pool. Each decorator appears at most once. A
//           stack without `budget` gets one below the leading `logging` and `statistics`, because nothing in
//           Saeta allocates without a budget.
// Owner     The stack shares its parts and keeps them alive.
// Thread    Options are plain values; building a stack is for one thread.
// Failure   error invalid_argument naming the word or the option; nothing is changed.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/observe/event_log.hpp"
#include "saeta/resource/cache/caching_resource.hpp"
#include "saeta/resource/decorators/budget_resource.hpp"
#include "saeta/resource/decorators/fault_resource.hpp"
#include "saeta/resource/decorators/guard_resource.hpp"
#include "saeta/resource/decorators/statistics_resource.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace SAETA_EXPORT saeta {

enum class resource_kind { caching, async, direct };
enum class decorator_kind { logging, statistics, budget, guard, fault };

/// Makes any resource for a device; an RMM resource comes through its adaptor (rmm/).
using resource_source = std::function<std::shared_ptr<resource>(const std::shared_ptr<backend>& device)>;

struct stack_options {
  resource_kind base = resource_kind::caching;
  std::vector<decorator_kind> layers{decorator_kind::logging, decorator_kind::budget}; ///< top first
  resource_kind slabs_from = resource_kind::async; ///< upstream of the cache: async or direct
  /// Bytes of unused memory that the driver's pool keeps (device/backend.hpp).
  std::uint64_t pool_threshold = ~std::uint64_t{0};
  /// Makes the memory of the driver's pool shareable with other processes. Only for a stack over that pool.
  bool exportable_pool = false;
  caching_options caching{};
  guard_options guard{};
  resource_source custom_base{};  ///< replaces the base
  resource_source custom_slabs{}; ///< replaces `slabs_from` below the cache
};

/// Parses any of "logging", "statistics", "budget", "guard", "fault", then optionally one of "caching",
/// "async", "direct", into `layers` and `base` of `into`. "async" or "direct" may follow "caching":
/// `slabs_from`. After "caching, direct" the cache keeps blocks of every size, because the driver's calls
/// wait for the device. Unlike memory of the driver's pool, this memory has handles of CUDA IPC. Options that
/// the text does not name are unchanged.
void parse_stack(std::string_view text, stack_options& into);
/// The inverse of `parse_stack`: "logging, budget, caching". A custom base is left out, and the usual
/// upstream of the cache.
[[nodiscard]] std::string to_string(const stack_options& options);

/// The objects that a stack is built with.
struct stack_parts {
  std::shared_ptr<backend> device;
  std::shared_ptr<budget> limit;
  std::shared_ptr<event_log> log; ///< needed by `logging`
  budget_resource::relief make_room;
};

struct resource_stack {
  std::shared_ptr<resource> top;
  std::shared_ptr<caching_resource> cache;         ///< null without one
  std::shared_ptr<guard_resource> guard;           ///< null without one
  std::shared_ptr<statistics_resource> statistics; ///< null without one
  std::shared_ptr<fault_resource> fault;           ///< null without one
};

[[nodiscard]] resource_stack build_stack(const stack_options& options, const stack_parts& parts);

} // namespace saeta
