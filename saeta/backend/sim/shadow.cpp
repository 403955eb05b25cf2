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

shadow::pieces::iterator shadow::cut(std::size_t at) {
  const auto after = pieces_.lower_bound(at);
  if (after == pieces_.begin() || (after != pieces_.end() && after->first == at)) {
    return after;
  }
  piece& left = std::prev(after)->second;
  if (left.end <= at) {
    return after;
  }
  piece right = left;
  left.end = at;
  return pieces_.emplace_hint(after, at, std::move(right));
}

std::vector<conflict> shadow::touch(std::size_t begin, std::size_t end, const access_record& later,
                                    const vector_clock& clock) {
  std::vector<conflict> found;
  if (begin == end) {
    return found;
  }
  const auto first = cut(begin);
  const auto last = cut(end);
  for (auto at = first; at != last; ++at) {
    const piece& where = at->second;
    const auto check = [&](const access_record& earlier) {
      if (earlier.when.number != 0 && earlier.when != later.when && !clock.covers(earlier.when)) {
        add(found, earlier, at->first, where.end);
      }
    };
    check(where.write);
    for (const access_record& earlier : where.shared) {
      const bool agree = later.reads ? earlier.reads : later.atomic && earlier.atomic;
      if (!agree) {
        check(earlier);
      }
    }
  }
  if (later.when.slot == host_slot) {
    return found;
  }
  if (later.reads || later.atomic) {
    std::for_each(first, last, [&](auto& entry) { share(entry.second, later); });
  } else {
    first->second = {std::prev(last)->second.end, later, {}};
    pieces_.erase(std::next(first), last);
  }
  return found;
}

void shadow::share(piece& where, const access_record& later) {
  const auto same = std::find_if(where.shared.begin(), where.shared.end(), [&](const access_record& earlier) {
    return earlier.when.slot == later.when.slot && earlier.reads == later.reads;
  });
  if (same == where.shared.end()) {
    where.shared.push_back(later);
  } else {
    *same = later;
  }
}

} // namespace saeta::sim
