#include "saeta/column/column.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstddef>

namespace saeta {
namespace {

void append_unknown(const column& of, std::vector<const column*>& unknown) {
  if (of.known_null_count() == column::unknown_nulls) {
    unknown.push_back(&of);
  }
  for (const column& child : of.children()) {
    append_unknown(child, unknown);
  }
  if (of.dictionary() != nullptr) {
    append_unknown(*of.dictionary(), unknown);
  }
}

} // namespace

void column::count_nulls(std::span<const column> of) {
  std::vector<const column*> unknown;
  for (const column& each : of) {
    append_unknown(each, unknown);
  }
  if (unknown.empty()) {
    return;
  }
  const std::shared_ptr<context>& ctx = unknown.front()->ctx_;
  storage_reads memory;
  for (const column* const each : unknown) {
    memory.add(each->validity());
  }
  use_token token(ctx->work_stream(), memory.uses());
  std::vector<std::int64_t> counts(unknown.size());
  const auto count = [&](std::int64_t* target) {
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      ctx->kernels().count_nulls(token.stream().native_handle(),
                                 token.data<std::uint8_t>(unknown[i]->validity()), unknown[i]->offset_,
                                 unknown[i]->length_, target + i);
    }
  };
  if (ctx->on_host()) {
    count(counts.data());
  } else {
    counts = kernel_results(ctx, counts.size(), {},
                            [&](const use_token&, std::int64_t* target) { count(target); });
  }
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    unknown[i]->facts().nulls = counts[i];
  }
  token.finish();
}

} // namespace saeta
