#include "support/command_line.hpp"

namespace saeta::bench {

command_line::command_line(int count, char** arguments) {
  for (int i = 0; i < count; ++i) {
    text_ += concat(i == 0 ? "" : " ", arguments[i]);
  }
  for (int i = 1; i < count; i += 2) {
    if (i + 1 == count) {
      throw error(errc::invalid_argument, concat("option ", arguments[i], " needs a value"));
    }
    given_.push_back({arguments[i], arguments[i + 1]});
  }
}

void command_line::read(std::string_view name, std::string& into) {
  if (const std::string* value = take(name)) {
    into = *value;
  }
}

void command_line::read(std::string_view name, std::filesystem::path& into) {
  if (const std::string* value = take(name)) {
    into = *value;
  }
}

void command_line::read(std::string_view name, std::vector<std::size_t>& into) {
  const std::string* value = take(name);
  if (value == nullptr) {
    return;
  }
  into.clear();
  std::istringstream list(*value);
  for (std::string each; std::getline(list, each, ',');) {
    into.push_back(parse<std::size_t>(name, each));
  }
}

void command_line::finish() const {
  for (const option& each : given_) {
    if (!each.read) {
      throw error(errc::invalid_argument, concat("option ", each.name, ": expected one of", known_));
    }
  }
}

const std::string* command_line::take(std::string_view name) {
  known_ += concat(' ', name);
  const std::string* value = nullptr;
  for (option& each : given_) {
    if (each.name == name) {
      each.read = true;
      value = &each.value;
    }
  }
  return value;
}

std::filesystem::path memory_folder() {
  return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

run_options read_run_options(command_line& line) {
  run_options chosen;
  chosen.command = line.text();
  line.read("--out", chosen.out);
  line.read("--commit", chosen.commit);
  return chosen;
}

} // namespace saeta::bench
