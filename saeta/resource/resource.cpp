#include "saeta/resource/resource.hpp"

#include "saeta/base/report.hpp"

namespace saeta {

bool resource::deallocate(const block& what, stream_ref stream) noexcept {
  if (what.pointer == nullptr) {
    return do_deallocate(what, {}); // nobody can have used it
  }
  try {
    const point last = mark(stream);
    return deallocate(what, std::span(&last, last.empty() ? 0U : 1U));
  } catch (...) {
    report_current_exception("a block can't be freed on this stream");
    return false;
  }
}

} // namespace saeta
