// What costs.cpp measures, a source for each group. All of it runs on one thread.
#pragma once

#include "costs/recorder.hpp"
#include "saeta/memory/context.hpp"

#include <memory>

namespace saeta::bench {

/// A use token over 1, 4 and 16 buffers that were last used on its stream, or on another one.
void measure_tokens(cost_recorder& into, const std::shared_ptr<context>& ctx);

/// Events recorded, waited for, asked and merged, and fences over all work: with idle streams, and on a
/// device also with busy ones.
void measure_fences(cost_recorder& into, const std::shared_ptr<context>& ctx);

/// A pair of allocate and free through each decorator alone, over a resource of almost no cost and the cache.
void measure_decorators(cost_recorder& into, const std::shared_ptr<context>& ctx);

/// Charging budgets of some depth, and drawing from a reservation.
void measure_budgets(cost_recorder& into, const std::shared_ptr<context>& ctx);

/// Lending buffers to a consumer that nobody knows, and taking them back.
void measure_exports(cost_recorder& into, const std::shared_ptr<context>& ctx);

} // namespace saeta::bench
