#include "saeta/order/point.hpp"

namespace saeta {

void point_set::grow() {
  const std::size_t larger = 4 * capacity();
  auto moved = std::make_unique<point[]>(larger);
  std::copy_n(data(), size_, moved.get());
  many_ = std::move(moved);
  many_capacity_ = larger;
}

} // namespace saeta
