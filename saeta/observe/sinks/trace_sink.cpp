// The sink that writes the Trace Event Format in its array form. That form allows the closing bracket to be
// missing, so a file still opens if its process ended early.
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/observe/sinks/log_sinks.hpp"
#include "saeta/observe/sinks/log_text.hpp"

#include <iomanip>
#include <map>
#include <unordered_set>

namespace saeta {
namespace {

constexpr std::string_view closing = "\n]\n";

/// Viewers group events by process, so each device is shown as one process.
std::int64_t process_of(device_id device) {
  return std::int64_t{static_cast<std::int32_t>(device.kind)} * 1000 + device.ordinal;
}

/// Microseconds (the unit of the format) with three decimals, so that no nanosecond is lost.
std::string microseconds(std::int64_t time_ns) {
  std::ostringstream out;
  out << time_ns / 1000 << '.' << std::setw(3) << std::setfill('0') << time_ns % 1000;
  return std::move(out).str();
}

std::string name_of(tag label) { return label.empty() ? "(no tag)" : label.name(); }

/// The members common to all events, without the closing brace.
std::string event_head(const log_record& record, std::string_view phase, std::string_view name) {
  return concat("{\"name\":", json_string(name), ",\"ph\":\"", phase,
                "\",\"ts\":", microseconds(record.time_ns), ",\"pid\":", process_of(record.device),
                ",\"tid\":", record.thread);
}

std::string counter(const log_record& record, std::string_view name, std::uint64_t bytes) {
  return concat(event_head(record, "C", name), ",\"args\":{\"bytes\":", bytes, "}}");
}

/// The beginning ("b") or end ("e") of the span of a block.
std::string span(const log_record& record, std::string_view phase) {
  return concat(event_head(record, phase, name_of(record.label)), ",\"cat\":\"block\",\"id\":\"",
                record.generation, "\",\"args\":{\"bytes\":", record.bytes, ",\"stream\":", record.stream,
                ",\"address\":", record.address, ",\"account\":", json_string(record.account.name()), "}}");
}

std::string instant(const log_record& record) {
  return concat(event_head(record, "i", to_string(record.event)),
                ",\"s\":\"p\",\"cat\":\"memory\",\"args\":{", "\"tag\":", json_string(record.label.name()),
                ",\"bytes\":", record.bytes, ",\"stream\":", record.stream,
                ",\"account\":", json_string(record.account.name()), ",\"limit\":", record.limit,
                ",\"outcome\":", json_string(record.outcome), "}}");
}

class trace_sink final : public log_sink {
public:
  explicit trace_sink(const std::filesystem::path& file) : file_(file) { file_.append("["); }
  ~trace_sink() override {
    try {
      file_.append(closing);
      file_.flush();
    } catch (...) {
      report_current_exception("trace_sink");
    }
  }

  void write(const log_record& record) override {
    const std::lock_guard lock(mutex_);
    std::string events;
    introduce(record.device, events);
    switch (record.event) {
    case memory_event::allocate:
      live_.insert(record.generation);
      add(events, span(record, "b"));
      count(record, events);
      break;
    case memory_event::free:
      if (live_.erase(record.generation) != 0) {
        add(events, span(record, "e"));
        count(record, events);
      }
      break;
    default:
      add(events, instant(record));
    }
    file_.append(events);
    separated_ = separated_ || !events.empty();
  }

  void flush() override {
    const std::lock_guard lock(mutex_);
    file_.suspend(closing);
  }

private:
  struct live_bytes {
    std::uint64_t all = 0;
    std::map<std::string, std::uint64_t> by_tag;
  };

  void add(std::string& events, const std::string& event) const {
    events += separated_ || !events.empty() ? ",\n" : "\n";
    events += event;
  }

  /// The first record of a device names its process.
  void introduce(device_id device, std::string& events) {
    const auto [entry, is_new] = devices_.try_emplace(process_of(device));
    if (is_new) {
      add(events, concat("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":", entry->first,
                         ",\"args\":{\"name\":", json_string(to_string(device)), "}}"));
    }
  }

  void count(const log_record& record, std::string& events) {
    live_bytes& live = devices_[process_of(record.device)];
    std::uint64_t& of_tag = live.by_tag[name_of(record.label)];
    if (record.event == memory_event::allocate) {
      live.all += record.bytes;
      of_tag += record.bytes;
    } else {
      live.all -= record.bytes;
      of_tag -= record.bytes;
    }
    add(events, counter(record, "live bytes", live.all));
    add(events, counter(record, concat("live bytes: ", name_of(record.label)), of_tag));
  }

  std::mutex mutex_;
  log_file file_;
  bool separated_ = false; ///< whether the next event needs a comma
  std::unordered_set<std::uint64_t> live_;
  std::map<std::int64_t, live_bytes> devices_;
};

} // namespace

std::shared_ptr<log_sink> make_trace_sink(const std::filesystem::path& file) {
  return std::make_shared<trace_sink>(file);
}

} // namespace saeta
