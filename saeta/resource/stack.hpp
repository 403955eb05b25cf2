// A stack of resources, described by one options object and built from it: decorators on top, a base at the bottom.
//
//   stack_options options;
//   parse_stack("logging, budget, guard, caching", options);   // top first; the last may be a base
//   resource_stack stack = build_stack(options, parts);
//
// What      The base is the cache over the driver's pool unless said otherwise. Each decorator stands at most once. A
//           stack without `budget` gets one on top of its first decorator that is not logging or statistics, because
//           nothing in Saeta allocates without a budget.
// Owner     The stack shares its parts and keeps them alive.
// Thread    Options are plain values; building is for one thread.
// Failure   error invalid_argument naming the word or the option; nothing is changed.
#pragma once

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

namespace saeta {

enum class resource_kind { caching, async, direct };
enum class decorator_kind { logging, statistics, budget, guard, fault };

/// Makes a resource for a device: any, an RMM one through its adaptor (rmm/).
using resource_source = std::function<std::shared_ptr<resource>(const std::shared_ptr<backend>& device)>;

struct stack_options {
  resource_kind base = resource_kind::caching;
  std::vector<decorator_kind> layers{decorator_kind::logging, decorator_kind::budget}; ///< top first
  resource_kind slabs_from = resource_kind::async; ///< upstream of the cache: async or direct
  std::uint64_t pool_threshold =
      ~std::uint64_t{0}; ///< bytes that the driver's pool holds on to (device/backend.hpp)
  /// The driver's pool is one whose memory can be shared with other processes. Where it is below the stack.
  bool exportable_pool = false;
  caching_options caching;
  guard_options guard;
  std::uint64_t fail_at = 0;    ///< for `fault`: position of the allocation that fails, from 1; 0: none
  resource_source custom_base;  ///< stands in for the base
  resource_source custom_slabs; ///< stands in for `slabs_from`, below the cache
};

/// Reads any of "logging", "statistics", "budget", "guard", "fault", then optionally one of "caching", "async",
/// "direct", into `layers` and `base` of `into`; without a base word `base` stays.
void parse_stack(std::string_view text, stack_options& into);
/// The inverse: "logging, budget, caching". A custom base has no word.
[[nodiscard]] std::string to_string(const stack_options& options);

/// What a stack is built with, and what of it can be looked at later.
struct stack_parts {
  std::shared_ptr<backend> device;
  std::shared_ptr<budget> limit;
  std::shared_ptr<event_log> log; ///< needed where `logging` stands
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
