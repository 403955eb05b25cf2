#include "saeta/resource/decorators/fault_resource.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

namespace saeta {
namespace {

/// Counts one call; true for the last `count` calls of the countdown, each in exactly one thread.
bool is_chosen(std::atomic<std::uint64_t>& countdown, std::uint64_t count) noexcept {
  std::uint64_t left = countdown;
  while (left != 0 && !countdown.compare_exchange_weak(left, left - 1)) {
  }
  return left != 0 && left <= count;
}

} // namespace

block fault_resource::do_allocate(const allocation_request& request, const stream_ref& stream) {
  if (request.bytes != 0 && is_chosen(fail_allocation_, failing_)) {
    ++failures_;
    throw error(errc::out_of_memory, concat("injected fault: no memory for ", request.bytes, " bytes"));
  }
  return upstream().allocate(request, stream);
}

bool fault_resource::do_deallocate(const block& freed, std::span<const point> after) noexcept {
  if (freed.bytes != 0 && is_chosen(fail_free_, 1)) {
    ++failures_;
    report("fault_resource", "injected fault: the block was not freed");
    return false;
  }
  return upstream().deallocate(freed, after);
}

} // namespace saeta
