#include "saeta/ipc/writer.hpp"

#include "saeta/base/interrupt.hpp"
#include "saeta/base/interruptible_lock.hpp"
#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/executor/background_thread.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/io/atomic_file.hpp"
#include "saeta/ipc/write/sinks.hpp"
#include "saeta/ipc/write/table_encoder.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/memory/context.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <unistd.h>

namespace saeta::ipc {
namespace {

/// Writes a table to a sink and ends it there. Returns its bytes.
template <class Sink>
std::uint64_t encode(const table& source, Sink& sink, const std::string& name, const write_options& options,
                     thread_pool& pool, const progress_hook& hook) {
  {
    detail::table_encoder encoder(sink, name, options, pool, hook,
                                  static_cast<std::int64_t>(source.batches().size()));
    encoder.write(source, source.fields());
    encoder.close(source.fields());
  }
  return sink.finish();
}

} // namespace

compression parse_compression(std::string_view name) {
  if (name == "none") {
    return compression::none;
  }
  if (name == "lz4") {
    return compression::lz4;
  }
  if (name == "zstd") {
    return compression::zstd;
  }
  throw error(errc::invalid_argument, concat("compression '", name, "': expected none, lz4 or zstd"));
}

std::uint64_t write(const table& source, const std::filesystem::path& file, const write_options& options,
                    const progress_hook& hook) {
  detail::require_valid(options);
  detail::atomic_file target(file, {options.durable, options.replace_read_only});
  thread_pool pool;
  detail::piece_sink sink(pool, target.descriptor(), file);
  const std::uint64_t bytes = encode(source, sink, file.string(), options, pool, hook);
  target.commit();
  return bytes;
}

std::uint64_t write(const table& source, const byte_sink& sink, const std::string& name,
                    const write_options& options, const progress_hook& hook) {
  detail::require_valid(options);
  require_argument(sink, "sink");
  thread_pool pool;
  detail::ordered_sink ordered(sink);
  return encode(source, ordered, name, options, pool, hook);
}

std::string write_bytes(const table& source, const write_options& options) {
  std::string text;
  const auto append = [&](std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  write(source, append, "bytes", options);
  return text;
}

file_target::file_target(std::filesystem::path file, const write_options& options)
    : name_(std::move(file)),
      file_(new detail::atomic_file(name_, {options.durable, options.replace_read_only})) {}

file_target::~file_target() = default;

void file_target::put(std::span<const std::byte> bytes) {
  const int descriptor = open().descriptor();
  while (!bytes.empty()) {
    const ssize_t taken = ::write(descriptor, bytes.data(), bytes.size());
    if (taken < 0 && errno != EINTR) {
      throw os_error("write", name_, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(std::max(taken, ssize_t{0})));
  }
}

void file_target::commit() {
  open().commit();
  file_.reset();
}

void file_target::discard() noexcept { file_.reset(); }

detail::atomic_file& file_target::open() const {
  if (file_ == nullptr) {
    throw error(errc::closed, concat("'", name_.string(), "' is complete or was discarded"));
  }
  if (file_.get_deleter().made_in != fork_generation()) {
    throw error(errc::closed, "the file belongs to the parent of this forked process: make one here");
  }
  return *file_;
}
namespace {

/// The tables that a writer was given and that are not written yet.
///
/// `put` adds a table and waits for room; `take` returns those that are written next. The taker says when
/// they are in the target, and when it has nothing left to do. Until then they count, because their memory
/// may be what is written. `end` drops those that wait. The thread that writes calls `take`, `fills_half`,
/// `written` and `end`. Any other thread calls the rest, one at a time, but `cancel` at any time.
/// `put`, `wait_until_idle` and `wait_until_ended` check for an interrupt.
class pending_tables {
public:
  /// @param most         bytes of all tables; one table may have more
  /// @param taken_bytes  bytes of the tables that `take` joins; 0: it joins none
  pending_tables(std::uint64_t most, std::uint64_t taken_bytes) : most_(most), taken_bytes_(taken_bytes) {}

  /// Waits for room, then adds a table. Returns false if the taker has ended.
  [[nodiscard]] bool put(const table& added) {
    const std::uint64_t bytes = added.byte_size();
    lock_type lock(mutex_);
    wait_interruptibly(changed_, lock, [&] {
      const std::uint64_t held = waiting_bytes_ + in_work_;
      return ended_ || held == 0 || (bytes <= most_ && held <= most_ - bytes);
    });
    if (ended_) {
      return false;
    }
    waiting_.push_back({added, bytes});
    waiting_bytes_ += bytes;
    idle_ = false;
    more_ = true;
    changed_.notify_all();
    return true;
  }
  /// Waits until everything is written. Returns false if the taker has ended.
  [[nodiscard]] bool wait_until_idle() {
    lock_type lock(mutex_);
    wait_interruptibly(changed_, lock, [&] { return ended_ || idle_; });
    return !ended_;
  }
  /// Says that no table follows.
  void finish() {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    more_ = true;
    changed_.notify_all();
  }
  void wait_until_ended() {
    lock_type lock(mutex_);
    wait_interruptibly(changed_, lock, [&] { return ended_; });
  }
  /// Makes every wait of the taker, and every scope of `cancelled()`, throw error closed.
  void cancel() noexcept {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    more_ = true;
    changed_.notify_all();
  }
  /// Returns why the taker has ended, once; null if it ended well.
  [[nodiscard]] std::exception_ptr take_failure() {
    const std::lock_guard lock(mutex_);
    return std::exchange(failure_, nullptr);
  }

  [[nodiscard]] const std::atomic<bool>& cancelled() const noexcept { return cancelled_; }
  /// Whether a table waits, or the end. Any thread.
  [[nodiscard]] bool has_more() const noexcept { return more_; }
  /// Waits for tables. Returns several as one if they have the same schema without dictionaries and the same
  /// context; nullopt at the end.
  [[nodiscard]] std::optional<table> take() {
    lock_type lock(mutex_);
    changed_.wait(lock, [&] { return more_.load(); });
    if (cancelled_) {
      lock.unlock();
      check_interrupt();
    }
    if (waiting_.empty()) {
      return std::nullopt;
    }
    table first = std::move(waiting_.front().rows);
    std::uint64_t taken = waiting_.front().bytes;
    waiting_.pop_front();
    std::vector<batch> batches;
    const bool joins = taken_bytes_ != 0 && !waiting_.empty() && !detail::has_dictionaries(first.fields());
    while (joins && joins_next(first, taken)) {
      if (batches.empty()) {
        batches.assign(first.batches().begin(), first.batches().end());
      }
      const auto more = waiting_.front().rows.batches();
      batches.insert(batches.end(), more.begin(), more.end());
      taken += waiting_.front().bytes;
      waiting_.pop_front();
    }
    waiting_bytes_ -= taken;
    in_work_ += taken;
    more_ = !waiting_.empty() || finishing_ || cancelled_;
    lock.unlock();
    return batches.empty() ? first : table::make(first.ctx(), first.fields(), std::move(batches));
  }
  /// Whether what was taken and is not written has half of all bytes. To wait for each table would let
  /// threads stop that write small ones side by side.
  [[nodiscard]] bool fills_half() {
    const std::lock_guard lock(mutex_);
    return in_work_ > most_ / 2;
  }
  /// Notes that the target has all bytes of the tables taken so far, which were dropped.
  void written() {
    const std::lock_guard lock(mutex_);
    in_work_ = 0;
    idle_ = waiting_.empty();
    changed_.notify_all();
  }
  /// The last call.
  void end(std::exception_ptr failure) noexcept {
    std::deque<entry> dropped; // after the lock is released
    const std::lock_guard lock(mutex_);
    dropped.swap(waiting_);
    waiting_bytes_ = in_work_ = 0;
    failure_ = std::move(failure);
    ended_ = true;
    changed_.notify_all();
  }

private:
  struct entry {
    table rows;
    std::uint64_t bytes;
  };
  using lock_type = std::unique_lock<std::mutex>;

  [[nodiscard]] bool joins_next(const table& first, std::uint64_t taken) const {
    if (waiting_.empty()) {
      return false;
    }
    const auto& [next, bytes] = waiting_.front();
    return taken < taken_bytes_ && bytes <= taken_bytes_ - taken && next.ctx() == first.ctx() &&
           next.fields() == first.fields();
  }

  std::uint64_t most_;
  std::uint64_t taken_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<entry> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t in_work_ = 0; ///< bytes of the tables that `take` returned since `written`
  bool idle_ = true;
  bool finishing_ = false;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::atomic<bool> more_{false};
  std::atomic<bool> cancelled_{false};
};

/// State that the writing thread shares with the callers.
struct job {
  job(std::string label, const write_options& chosen, std::optional<schema> wanted, progress_hook progress)
      : name(std::move(label)), options(chosen), hook(std::move(progress)), fields(std::move(wanted)),
        tables(options.pending_bytes, options.body == compression::none ? options.window_bytes : 0) {
    detail::require_valid(options);
    if (fields) {
      detail::require_writable(*fields);
    }
  }

  void work() noexcept {
    std::exception_ptr failure;
    try {
      const cancellation_scope ends_with(tables.cancelled());
      thread_pool pool;
      if (file) {
        detail::piece_sink target(pool, file->descriptor(), name);
        encode(target, pool);
      } else {
        detail::ordered_sink target(sink);
        encode(target, pool);
      }
    } catch (...) {
      failure = std::current_exception();
      file.reset();
    }
    tables.end(std::move(failure));
  }

  std::string name;
  write_options options;
  progress_hook hook;
  byte_sink sink;
  std::optional<detail::atomic_file> file; ///< null: the target is a sink
  std::optional<schema> fields;            ///< set before the first table waits
  pending_tables tables;
  std::uint64_t written = 0; ///< set at the end

private:
  template <class Sink>
  void encode(Sink& target, thread_pool& pool) {
    {
      detail::table_encoder encoder(target, name, options, pool, hook, -1);
      for (auto next = take(target, pool); next; next = take(target, pool)) {
        encoder.write(*next, *fields);
        next.reset();
        if (tables.fills_half()) {
          target.finish();
          tables.written();
        }
      }
      encoder.close(*fields);
    }
    written = target.finish();
  }

  /// While no table waits, the thread helps to write what there is.
  template <class Sink>
  std::optional<table> take(Sink& target, thread_pool& pool) {
    if (!tables.has_more()) {
      target.flush();
      pool.wait_until([&] { return tables.has_more(); });
      if (!tables.has_more()) {
        tables.written();
      }
    }
    return tables.take();
  }
};

} // namespace

class SAETA_LOCAL writer::implementation {
public:
  explicit implementation(std::shared_ptr<job> of) : job_(std::move(of)) {
    if (!thread_.start([shared = job_] { shared->work(); })) {
      throw error(errc::out_of_memory, concat(job_->name, ": the system has no thread for the writer"));
    }
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;
  ~implementation() { job_->tables.cancel(); }

  void write(const table& source) {
    const cancellation_scope ends_with(job_->tables.cancelled());
    const auto turn = take_turn();
    require_open();
    if (job_->fields) {
      require_fits(source.fields(), job_->name, *job_->fields);
    } else {
      detail::require_writable(source.fields());
      job_->fields = source.fields();
    }
    const bool same = source.fields() == *job_->fields;
    if (!job_->tables.put(same ? source : conform(source, std::make_shared<schema_index>(*job_->fields)))) {
      fail();
    }
  }

  void flush() {
    const cancellation_scope ends_with(job_->tables.cancelled());
    const auto turn = take_turn();
    require_open();
    if (!job_->tables.wait_until_idle()) {
      fail();
    }
  }

  std::uint64_t close() {
    const auto turn = take_turn();
    if (phase_ == phase::closed) {
      return job_->written;
    }
    require_open();
    phase_ = phase::failed; // unless everything below succeeds
    if (!job_->fields) {
      stop();
      throw error(errc::invalid_argument,
                  concat(job_->name, ": no table was written and no schema was given, ",
                         "so nothing says which columns the file has"));
    }
    job_->tables.finish();
    try {
      const cancellation_scope ends_with(job_->tables.cancelled());
      job_->tables.wait_until_ended();
      thread_.join();
      if (const auto failure = job_->tables.take_failure()) {
        std::rethrow_exception(failure);
      }
      if (job_->file) {
        job_->file->commit();
      }
    } catch (...) {
      stop();
      job_->file.reset();
      throw;
    }
    job_->file.reset();
    phase_ = phase::closed;
    return job_->written;
  }

  void abandon() {
    job_->tables.cancel();
    const auto turn = take_turn();
    stop();
    if (phase_ == phase::open) {
      phase_ = phase::abandoned;
    }
  }

private:
  enum class phase { open, closed, failed, abandoned };

  [[nodiscard]] interruptible_mutex::guard take_turn() {
    if (thread_.is_current()) {
      throw error(errc::busy, concat(job_->name, ": the writer is used by its own sink or progress hook"));
    }
    return turn_.lock("a write");
  }
  void require_open() const {
    switch (phase_) {
    case phase::open:
      return;
    case phase::closed:
      throw error(errc::closed, concat(job_->name, ": the writer is closed"));
    case phase::abandoned:
      throw error(errc::closed, concat(job_->name, ": the writer was abandoned"));
    case phase::failed:
      throw error(errc::closed, concat(job_->name, ": the writer has failed, and nothing more is written"));
    }
  }
  /// The thread has ended by itself.
  [[noreturn]] void fail() {
    phase_ = phase::failed;
    if (const auto failure = job_->tables.take_failure()) {
      std::rethrow_exception(failure);
    }
    throw error(errc::closed, concat(job_->name, ": the writer was closed by another thread"));
  }
  /// Ends the thread. An interrupt leaves it in a call of the sink that does not return.
  void stop() {
    if (!thread_.joinable()) {
      return;
    }
    job_->tables.cancel();
    try {
      job_->tables.wait_until_ended();
    } catch (...) {
      thread_.detach();
      throw;
    }
    thread_.join();
  }

  std::shared_ptr<job> job_;
  interruptible_mutex turn_;
  phase phase_ = phase::open; ///< read and written in turn
  background_thread thread_{"saeta-writer"};
};

writer::writer(const std::filesystem::path& file, std::optional<schema> fields, const write_options& options,
               progress_hook hook) {
  auto work = std::make_shared<job>(file.string(), options, std::move(fields), std::move(hook));
  work->file.emplace(file, detail::file_options{options.durable, options.replace_read_only});
  made_.reset(new implementation(std::move(work)));
}

writer::writer(byte_sink sink, std::string name, std::optional<schema> fields, const write_options& options,
               progress_hook hook) {
  auto work = std::make_shared<job>(std::move(name), options, std::move(fields), std::move(hook));
  work->sink = required(std::move(sink), "sink");
  made_.reset(new implementation(std::move(work)));
}

writer::~writer() = default;

writer::implementation& writer::in_own_process() const {
  if (made_.get_deleter().made_in != fork_generation()) {
    throw error(errc::closed, "the writer belongs to the parent of this forked process: make one here");
  }
  return *made_;
}

void writer::write(const table& source) { in_own_process().write(source); }

void writer::flush() { in_own_process().flush(); }

std::uint64_t writer::close() { return in_own_process().close(); }

void writer::abandon() { in_own_process().abandon(); }

} // namespace saeta::ipc
