#include "saeta/device/reference_permute.hpp"

namespace saeta {
namespace {

template <class Row>
void permute_into(const permute_work& work) noexcept {
  auto* const target = static_cast<Row*>(work.target);
  for (std::int64_t entry = 0; entry < work.numbers.count; ++entry) {
    const auto number = static_cast<std::uint64_t>(number_at(work.numbers, entry));
    target[entry] = static_cast<Row>(permute(work.order, number));
  }
}

} // namespace

void permute_rows(stream_handle /*stream*/, const permute_work& work) {
  if (work.width == sizeof(std::uint32_t)) {
    permute_into<std::uint32_t>(work);
  } else {
    permute_into<std::uint64_t>(work);
  }
}

} // namespace saeta
