#include "saeta/resource/resource.hpp"

#include "saeta/base/report.hpp"

namespace saeta {

bool resource::deallocate(const block& freed, const stream_ref& stream) noexcept {
  if (freed.pointer == nullptr) {
    return do_deallocate(freed, {}); // no stream can have used it
  }
  try {
    const point last = mark(stream);
    return deallocate(freed, std::span(&last, last.empty() ? 0U : 1U));
  } catch (...) {
    report_current_exception("a block can't be freed on this stream");
    return false;
  }
}

} // namespace saeta
