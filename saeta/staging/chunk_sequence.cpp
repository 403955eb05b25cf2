#include "saeta/staging/chunk_sequence.hpp"

#include <algorithm>

namespace saeta {

chunk_sequence::chunk_sequence(const chunk_cutter& cutter)
    : cutter_(cutter), begins_(1), ended_(cutter.done(begins_.front())) {}

bool chunk_sequence::advance(cut_chunk& chunk) {
  if (ended_) {
    return false;
  }
  const chunk_cursor next = cutter_.cut(begins_.back(), chunk);
  if (cutter_.has_order(chunk)) {
    ended_ = true;
    return false;
  }
  begins_.push_back(next);
  ended_ = cutter_.done(next);
  return true;
}

std::size_t chunk_sequence::find(std::size_t wanted) {
  const std::lock_guard lock(mutex_);
  while (begins_.size() <= wanted && advance(passed_)) {
  }
  return std::min(begins_.size() - 1, wanted);
}

bool chunk_sequence::cut(std::size_t number, cut_chunk& chunk) {
  chunk_cursor begin;
  {
    const std::lock_guard lock(mutex_);
    while (begins_.size() <= number) {
      if (!advance(passed_)) {
        return false;
      }
    }
    if (begins_.size() == number + 1) {
      return advance(chunk);
    }
    begin = begins_[number];
  }
  cutter_.cut(begin, chunk);
  return true;
}

} // namespace saeta
