#include "saeta/backend/sim/shadow.hpp"

namespace saeta::sim {
namespace {

/// Keeps one conflict per earlier operation, from its first conflicting byte to the last.
void add(std::vector<conflict>& found, const access_record& earlier, std::size_t begin, std::size_t end) {
  for (conflict& known : found) {
    if (known.earlier.when == earlier.when && known.earlier.reads == earlier.reads) {
      known.end = end;
      return;
    }
  }
  found.push_back({earlier, begin, end});
}

} // namespace

std::size_t shadow::cut(std::size_t at) {
  const auto after =
      std::partition_point(pieces_.begin(), pieces_.end(), [&](const piece& p) { return p.end <= at; });
  const auto index = static_cast<std::size_t>(after - pieces_.begin());
  if (after == pieces_.end() || after->begin == at) {
    return index;
  }
  piece left = *after;
  left.end = at;
  after->begin = at;
  pieces_.insert(after, std::move(left));
  return index + 1;
}

std::vector<conflict> shadow::touch(std::size_t begin, std::size_t end, const access_record& later,
                                    const vector_clock& clock) {
  std::vector<conflict> found;
  if (begin == end) {
    return found;
  }
  const std::size_t first = cut(begin);
  const std::size_t last = cut(end);
  const auto check = [&](const access_record& earlier, const piece& where) {
    if (earlier.when.number != 0 && earlier.when != later.when && !clock.covers(earlier.when)) {
      add(found, earlier, where.begin, where.end);
    }
  };
  for (std::size_t i = first; i < last; ++i) {
    check(pieces_[i].write, pieces_[i]);
    for (const access_record& earlier : pieces_[i].shared) {
      const bool agree = later.reads ? earlier.reads : later.atomic && earlier.atomic;
      if (!agree) {
        check(earlier, pieces_[i]);
      }
    }
  }
  if (later.when.slot != host_slot) {
    remember(first, last, later);
  }
  return found;
}

void shadow::remember(std::size_t first, std::size_t last, const access_record& later) {
  if (!later.reads && !later.atomic) {
    piece& whole = pieces_[first];
    whole.end = pieces_[last - 1].end;
    whole.write = later;
    whole.shared.clear();
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(first + 1),
                  pieces_.begin() + static_cast<std::ptrdiff_t>(last));
    return;
  }
  for (std::size_t i = first; i < last; ++i) {
    auto& shared = pieces_[i].shared;
    const auto same = std::find_if(shared.begin(), shared.end(), [&](const access_record& earlier) {
      return earlier.when.slot == later.when.slot && earlier.reads == later.reads;
    });
    if (same == shared.end()) {
      shared.push_back(later);
    } else {
      *same = later;
    }
  }
}

} // namespace saeta::sim
