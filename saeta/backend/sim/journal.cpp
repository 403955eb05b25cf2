#include "saeta/backend/sim/journal.hpp"

#include "saeta/base/text.hpp"

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
  std::vector<conflict> conflicts;
  if (begin == end) {
    return conflicts;
  }
  const auto first = cut(begin);
  const auto last = cut(end);
  for (auto at = first; at != last; ++at) {
    const piece& where = at->second;
    const auto check = [&](const access_record& earlier) {
      if (earlier.when.number != 0 && earlier.when != later.when && !clock.covers(earlier.when)) {
        add(conflicts, earlier, at->first, where.end);
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
    return conflicts;
  }
  if (later.reads || later.atomic) {
    std::for_each(first, last, [&](auto& entry) { share(entry.second, later); });
  } else {
    first->second = {std::prev(last)->second.end, later, {}};
    pieces_.erase(std::next(first), last);
  }
  return conflicts;
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

std::uint32_t journal::name(std::string_view text) {
  const auto [found, added] =
      numbers_.try_emplace(std::string(text), static_cast<std::uint32_t>(names_.size()));
  if (added) {
    names_.push_back(found->first);
  }
  return found->second;
}

std::string journal::describe(const access_record& access) const {
  std::string text = names_[access.name];
  text += access.when.slot == host_slot ? " by the host" : concat(" on stream ", access.when.slot);
  return access.reads ? text + " (reads)" : text;
}

void journal::add_race(std::string first, std::string second, byte_range meeting, std::string_view where) {
  std::string text = concat("race: ", first, " and then ", second, " without an edge: ", where);
  add_finding({std::move(first), std::move(second), meeting.pointer, meeting.bytes, std::move(text)});
}

void journal::add_finding(race race) {
  if (races_.size() == most_races) {
    ++races_left_out_;
    return;
  }
  races_.push_back(std::move(race));
}

void journal::add_run(const operation& ran) {
  if (runs_.size() == most_runs) {
    ++runs_left_out_;
    return;
  }
  runs_.push_back({ran.when, ran.name, ran.offset, ran.bytes});
}

std::string journal::report(std::uint64_t seed) const {
  std::ostringstream out;
  out << "seed " << seed << '\n' << races_.size() + races_left_out_ << " races\n";
  for (const race& race : races_) {
    out << race.text << '\n';
  }
  out << runs_.size() + runs_left_out_ << " operations, in the order they ran\n";
  for (const run& one : runs_) {
    out << "stream " << one.when.slot << " #" << one.when.number << ' ' << names_[one.name];
    if (one.bytes != 0) {
      out << ' ' << one.bytes << " bytes at +" << one.offset;
    }
    out << '\n';
  }
  if (runs_left_out_ != 0) {
    out << "... and " << runs_left_out_ << " more\n";
  }
  return std::move(out).str();
}

} // namespace saeta::sim
