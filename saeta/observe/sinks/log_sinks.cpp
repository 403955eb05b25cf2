#include "saeta/observe/sinks/log_sinks.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/observe/sinks/log_text.hpp"

namespace saeta {
namespace {

/// Writes one line for each record, made by `line`.
class line_sink final : public log_sink {
public:
  using line_maker = std::string (*)(const log_record& record);

  line_sink(const std::filesystem::path& file, std::string_view header, line_maker line)
      : file_(file), line_(line) {
    file_.append(header);
  }
  ~line_sink() override {
    try {
      file_.flush();
    } catch (...) {
      report_current_exception("log_sink");
    }
  }

  void write(const log_record& record) override {
    const std::string line = line_(record);
    const std::lock_guard lock(mutex_);
    file_.append(line);
  }
  void flush() override {
    const std::lock_guard lock(mutex_);
    file_.flush();
  }

private:
  std::mutex mutex_;
  log_file file_;
  line_maker line_;
};

std::string csv_line(const log_record& record) {
  return concat(record.order, ',', record.time_ns, ',', to_string(record.event), ',',
                to_string(record.device), ',', record.thread, ',', record.stream, ',', record.bytes, ',',
                record.address, ',', record.generation, ',', csv_field(record.label.name()), ',',
                csv_field(record.account.name()), ',', record.limit, ',', csv_field(record.outcome), ',',
                record.reserved, ',', record.held, '\n');
}

std::string json_line(const log_record& record) {
  return concat("{\"order\":", record.order, ",\"time_ns\":", record.time_ns, ",\"event\":\"",
                to_string(record.event), "\",\"device\":\"", to_string(record.device),
                "\",\"thread\":", record.thread, ",\"stream\":", record.stream, ",\"bytes\":", record.bytes,
                ",\"address\":", record.address, ",\"generation\":", record.generation,
                ",\"tag\":", json_string(record.label.name()),
                ",\"account\":", json_string(record.account.name()), ",\"limit\":", record.limit,
                ",\"outcome\":", json_string(record.outcome), ",\"reserved\":", record.reserved,
                ",\"held\":", record.held, "}\n");
}

} // namespace

void memory_sink::write(const log_record& record) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(record);
  if (kept_.size() > capacity_) {
    kept_.pop_front();
    ++forgotten_;
  }
}

std::vector<log_record> memory_sink::records() const {
  const std::lock_guard lock(mutex_);
  return {kept_.begin(), kept_.end()};
}

std::size_t memory_sink::size() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

std::uint64_t memory_sink::forgotten() const {
  const std::lock_guard lock(mutex_);
  return forgotten_;
}

std::shared_ptr<log_sink> make_csv_sink(const std::filesystem::path& file) {
  return std::make_shared<line_sink>(
      file,
      "order,time_ns,event,device,thread,stream,bytes,address,generation,tag,account,limit,outcome,"
      "reserved,held\n",
      csv_line);
}

std::shared_ptr<log_sink> make_json_lines_sink(const std::filesystem::path& file) {
  return std::make_shared<line_sink>(file, "", json_line);
}

std::shared_ptr<log_sink> make_sink(std::string_view description) {
  const std::size_t colon = description.find(':');
  const std::string_view format = description.substr(0, colon);
  const std::string_view path =
      colon == std::string_view::npos ? std::string_view() : description.substr(colon + 1);
  if (!path.empty()) {
    if (format == "csv") {
      return make_csv_sink(path);
    }
    if (format == "jsonl") {
      return make_json_lines_sink(path);
    }
    if (format == "trace") {
      return make_trace_sink(path);
    }
  }
  throw error(errc::invalid_argument,
              concat("'", description, "' is not a log: expected csv:PATH, jsonl:PATH or trace:PATH"));
}

} // namespace saeta
