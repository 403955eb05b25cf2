// How a context gives a block back: after the work on it, and without anybody waiting for that.
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/detail/context_core.hpp"

#include <algorithm>

namespace saeta {
namespace {

/// The one stream that all fences are of; none when there are several, or a fence over all work.
std::optional<std::uint64_t> only_stream(const std::vector<fence>& after, std::uint64_t without_any) {
  if (after.empty()) {
    return without_any;
  }
  const std::uint64_t id = after.front().stream_id();
  const bool same = id != fence::every_stream && std::all_of(after.begin(), after.end(), [&](const fence& f) {
                      return f.stream_id() == id;
                    });
  return same ? std::optional(id) : std::nullopt;
}

/// Makes the stream wait for all of them. False when the device refused: the fences are then waited for elsewhere.
bool wait_for_all(stream_ref stream, const std::vector<fence>& after) noexcept {
  try {
    for (const fence& f : after) {
      f.wait(stream);
    }
    return true;
  } catch (...) {
    report_current_exception("a release can't be ordered on its stream and waits for its work instead");
    return false;
  }
}

} // namespace

void context::release(block freed, pending_release how, std::shared_ptr<context> self) noexcept {
  context_core& core = *core_;
  try {
    const release_order order = core.memory.top->order();
    if (!how.needs_context_fence && order != release_order::when_complete) {
      const auto last_user = only_stream(how.after, freed.stream_id);
      if (order == release_order::by_identity && last_user) {
        core.free_now(freed, stream_ref::by_identity(*core.device, *last_user));
        return;
      }
      if (wait_for_all(core.release_stream.ref(), how.after)) {
        core.free_now(freed, core.release_stream.ref());
        return;
      }
    }
    how.action = [freed, self = std::move(self)] {
      self->core_->free_now(freed, self->core_->release_stream.ref());
    };
    core.releases->submit(std::move(how));
  } catch (...) {
    // Neither ordered nor queued: keeping the memory is the only safe end, and it stays charged.
    report_current_exception(concat("block of ", freed.bytes, " bytes stays allocated"));
  }
}

} // namespace saeta
