// Converts a step of a plan to the form that the kernel takes.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/staging/scatter.hpp"

#include <cstddef>
#include <cstdint>

namespace SAETA_EXPORT saeta {

/// @param source    address of the first value, or of the byte with the first bit; null for fills
/// @param counters  of the plan
/// @param tables    of the plan; null if no step uses one
inline join_step kernel_step(const scatter_step& step, const std::byte* source, std::byte* slab,
                             std::int64_t* counters, const std::int64_t* tables = nullptr) {
  join_step result;
  result.kind = step.kind;
  result.width = step.width;
  result.source = source;
  result.target = slab + step.target;
  result.count = step.count;
  switch (step.kind) {
  case join_kind::bits:
  case join_kind::ones: {
    const std::uint32_t counter = step.bits.counter;
    result.bits = {.source_first = step.bits.source_first,
                   .target_first = step.bits.target_first,
                   .nulls = counter == scatter_step::not_counted ? nullptr : counters + counter};
    break;
  }
  case join_kind::add:
    result.add = step.add;
    break;
  case join_kind::remap:
    result.remap = {.table = tables + step.remap.table, .entries = step.remap.entries};
    break;
  case join_kind::views:
    result.views = step.views;
    break;
  case join_kind::unions:
    result.unions = {.bases = tables + step.unions.bases,
                     .ids = reinterpret_cast<const std::int8_t*>(step.unions.ids)};
    break;
  case join_kind::run_ends:
    result.run_ends = step.run_ends;
    break;
  case join_kind::copy:
    result.copy = {};
    break;
  case join_kind::zero:
    break;
  }
  return result;
}

/// The same for a change of values in the slab.
inline join_step kernel_step(const scatter_fix& fix, std::byte* slab, const std::int64_t* tables) {
  join_step result;
  result.kind = fix.kind;
  result.width = fix.width;
  result.source = slab + fix.target;
  result.target = slab + fix.target;
  result.count = fix.count;
  if (fix.kind == join_kind::unions) {
    result.unions = {.bases = tables + fix.unions.bases,
                     .ids = reinterpret_cast<const std::int8_t*>(slab + fix.unions.ids)};
  } else if (fix.kind == join_kind::views) {
    result.views = fix.views;
  } else {
    result.add = fix.add;
  }
  return result;
}

} // namespace saeta
