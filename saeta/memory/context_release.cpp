// How a context frees a block: after the work on it, without blocking a thread.
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context_core.hpp"

namespace saeta {

bool context_core::free_in_order(resource& to, const block& freed, requirement& after) noexcept {
  try {
    if (after.points.size() > 1) {
      drop_passed(after.points); // a block with one user is cheaper to reuse
    }
    return freed.order == release_order::in_stream_order && (!after.unknown || releases->resolve(after)) &&
           to.deallocate(freed, after.points.all());
  } catch (...) {
    with_report_text(report_current_exception, "freeing a block is tried again", "freeing ", freed.bytes,
                     " bytes is tried again");
    return false;
  }
}

void context::release_later(resource& to, const block& freed, requirement&& after) noexcept {
  try {
    core_->releases->submit(
        {.after = std::move(after),
         .action =
             [&to, freed, kept = shared_from_this(), reported = false]() mutable {
               const bool done = to.deallocate(freed, std::span<const point>());
               if (!done && !std::exchange(reported, true)) {
                 with_report_text([](std::string_view text) { report("context", text); },
                                  "the driver refused to free a block", "the driver refused to free ",
                                  freed.bytes, " bytes: they stay charged, and the free is tried again");
               }
               return done;
             },
         .label = freed.label.name(),
         .bytes = freed.bytes});
  } catch (...) {
    // Neither ordered nor queued: the only safe choice is to keep the memory, charged.
    with_report_text(report_current_exception, "a block stays allocated", "block of ", freed.bytes,
                     " bytes stays allocated");
  }
}

} // namespace saeta
