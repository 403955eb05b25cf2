// The groups of measurements of costs.cpp, one source for each. All run on one thread.
#pragma once

#include "costs/recorder.hpp"
#include "saeta/memory/context.hpp"

#include <memory>

namespace saeta::bench {

/// A use token over 1, 4 and 16 buffers whose last use was on the same stream, or on another one.
void measure_tokens(cost_recorder& into, const std::shared_ptr<context>& ctx);

/// Recording, waiting for, querying and merging events, and fences over all work of a stream: with idle
/// streams, and on a device also with busy ones.
void measure_fences(cost_recorder& into, const std::shared_ptr<context>& ctx);

/// A pair of allocate and free through each decorator, over `null_resource` and over the cache.
void measure_decorators(cost_recorder& into, const std::shared_ptr<context>& ctx);

/// Charging a budget that has up to two ancestors, and allocating from a reservation.
void measure_budgets(cost_recorder& into, const std::shared_ptr<context>& ctx);

/// Exporting buffers to a consumer whose streams are unknown, and the release by that consumer.
void measure_exports(cost_recorder& into, const std::shared_ptr<context>& ctx);

} // namespace saeta::bench
