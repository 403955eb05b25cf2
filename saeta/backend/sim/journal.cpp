#include "saeta/backend/sim/journal.hpp"

#include "saeta/base/text.hpp"

namespace saeta::sim {

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

void journal::add_finding(race found) {
  if (races_.size() == most_races) {
    ++races_left_out_;
    return;
  }
  races_.push_back(std::move(found));
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
  for (const race& found : races_) {
    out << found.text << '\n';
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
