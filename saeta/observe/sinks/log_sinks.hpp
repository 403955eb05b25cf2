// Sinks of the event log: memory, CSV, JSON lines, and Chrome's trace format, which Perfetto opens.
//
// What      A sink may be attached to several logs; records then carry their devices, and orders of each log.
// Owner     A file sink owns its file and starts it afresh. The file is complete after `flush()` and at the sink's end;
//           what was written of it when a process ends early can be read too.
// Text      Tags and outcomes are escaped. In JSON, bytes that are no UTF-8 become U+FFFD.
// Thread    Any.
// Failure   error io with the path when a file can't be opened or written; `write` may notice a full disk late, and the
//           sink's end reports it.
#pragma once

#include "saeta/observe/event_log.hpp"

#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace saeta {

/// Keeps the last `capacity` records in memory.
class memory_sink final : public log_sink {
public:
  static constexpr std::size_t standard_capacity = 1u << 20;
  explicit memory_sink(std::size_t capacity = standard_capacity) : capacity_(capacity) {}

  void write(const log_record& record) override;
  [[nodiscard]] std::vector<log_record> records() const;
  /// Number of records that are kept.
  [[nodiscard]] std::size_t size() const;
  /// Records that were pushed out by later ones.
  [[nodiscard]] std::uint64_t forgotten() const;

private:
  std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<log_record> kept_;
  std::uint64_t forgotten_ = 0;
};

/// A header line, then a line a record: order,time_ns,event,device,thread,stream,bytes,address,generation,tag,account,
/// limit,outcome,reserved,held. Text is quoted as RFC 4180 says.
[[nodiscard]] std::shared_ptr<log_sink> make_csv_sink(const std::filesystem::path& file);
/// One JSON object a line, with the same names.
[[nodiscard]] std::shared_ptr<log_sink> make_json_lines_sink(const std::filesystem::path& file);
/// The Trace Event Format: live bytes, all and by tag, as counters, each block as an asynchronous span, everything else
/// as instants. Blocks that were allocated before the sink was attached are left out.
[[nodiscard]] std::shared_ptr<log_sink> make_trace_sink(const std::filesystem::path& file);

/// "csv:PATH", "jsonl:PATH", "trace:PATH". @throws error invalid_argument naming the text.
[[nodiscard]] std::shared_ptr<log_sink> make_sink(std::string_view description);

} // namespace saeta
