#include "saeta/memory/loans/span_map.hpp"

#include <iterator>

namespace saeta {

void span_map::add(address begin, std::size_t bytes) {
  const auto added = by_size_.emplace(bytes, begin).first;
  try {
    spans_.emplace(begin, span{bytes, begin, true});
  } catch (...) {
    by_size_.erase(added);
    throw;
  }
}

std::optional<span_map::address> span_map::take(std::size_t bytes, std::size_t most) {
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end() || fit->first > most) {
    return std::nullopt;
  }
  const auto [size, begin] = *fit;
  span& taken = spans_.at(begin);
  if (size > bytes) {
    const auto rest = by_size_.emplace(size - bytes, begin + bytes).first;
    try {
      spans_.emplace(begin + bytes, span{size - bytes, taken.region, true});
    } catch (...) {
      by_size_.erase(rest);
      throw;
    }
  }
  taken.bytes = bytes;
  taken.free = false;
  by_size_.erase(fit);
  return begin;
}

void span_map::give_back(address begin) {
  const auto returned = spans_.find(begin);
  auto first = returned;
  auto end = std::next(returned);
  std::size_t bytes = returned->second.bytes;
  const auto merges = [&](const auto& neighbour) {
    return neighbour->second.free && neighbour->second.region == returned->second.region;
  };
  if (first != spans_.begin() && merges(std::prev(first))) {
    --first;
    bytes += first->second.bytes;
  }
  if (end != spans_.end() && merges(end)) {
    bytes += end->second.bytes;
    ++end;
  }
  by_size_.emplace(bytes, first->first); // the only step that may throw
  for (auto span = first; span != end; ++span) {
    if (span->second.free) {
      by_size_.erase({span->second.bytes, span->first});
    }
  }
  first->second.bytes = bytes;
  first->second.free = true;
  spans_.erase(std::next(first), end);
}

} // namespace saeta
