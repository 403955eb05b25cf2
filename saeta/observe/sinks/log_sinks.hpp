// Sinks of the event log: memory, CSV, JSON lines, and Chrome's trace format, which Perfetto opens.
//
// @code
// const auto recent = std::make_shared<memory_sink>(1000); // keeps the last 1000 records
// ctx->reports().log()->attach(recent);
// const buffer scratch = buffer::allocate(ctx, 4096, stream, "scratch");
// std::cout << recent->records().back().label.name() << '\n'; // scratch
// ctx->reports().log()->detach(recent);
// @endcode
//
// What      A sink may be attached to several logs. Each record carries its device, and `order` counts within
//           its own log.
// Owner     A file sink owns its file and truncates it first. The file is complete after `flush()` and when
//           the sink is destroyed. If the process ends early, the part that was written can still be read.
// Text      Tags and outcomes are escaped. In JSON, bytes that are not UTF-8 become U+FFFD.
// Thread    Any.
// Failure   error io with the path when a file can't be opened or written. `write` may notice a full disk
//           late; the destructor of the sink reports it then.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/observe/event_log.hpp"

#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Keeps the last `capacity` records in memory.
class memory_sink final : public log_sink {
public:
  static constexpr std::size_t standard_capacity = 1u << 20;
  explicit memory_sink(std::size_t capacity = standard_capacity) : capacity_(capacity) {}

  void write(const log_record& record) override;
  [[nodiscard]] std::vector<log_record> records() const;
  [[nodiscard]] std::size_t size() const;
  /// Number of records dropped to make room for later ones.
  [[nodiscard]] std::uint64_t forgotten() const;

private:
  std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<log_record> kept_;
  std::uint64_t forgotten_ = 0;
};

/// A header line, then one line for each record:
/// order,time_ns,event,device,thread,stream,bytes,address,generation,tag,account,limit,outcome,reserved,held.
/// Text is quoted as RFC 4180 says.
[[nodiscard]] std::shared_ptr<log_sink> make_csv_sink(const std::filesystem::path& file);
/// One JSON object per line and record, with the names of the CSV columns.
[[nodiscard]] std::shared_ptr<log_sink> make_json_lines_sink(const std::filesystem::path& file);
/// The Trace Event Format. Live bytes (total and by tag) are counters, each block is an asynchronous span,
/// and all other events are instants. Blocks allocated before the sink was attached are left out.
[[nodiscard]] std::shared_ptr<log_sink> make_trace_sink(const std::filesystem::path& file);

/// "csv:PATH", "jsonl:PATH", "trace:PATH". @throws error invalid_argument naming the text.
[[nodiscard]] std::shared_ptr<log_sink> make_sink(std::string_view description);

} // namespace saeta
