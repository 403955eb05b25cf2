#include "saeta/base/interrupt.hpp"
#include "saeta/base/interruptible_lock.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/ipc/io/atomic_file.hpp"
#include "saeta/ipc/write/pending_tables.hpp"
#include "saeta/ipc/write/sinks.hpp"
#include "saeta/ipc/write/table_encoder.hpp"
#include "saeta/ipc/write/write_team.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/ipc/writer.hpp"

#include <system_error>
#include <thread>
#include <utility>

namespace saeta::ipc {
namespace {

/// What the thread that writes shares with the callers.
struct job {
  job(std::string label, const write_options& chosen, std::optional<schema> wanted, progress_hook progress)
      : name(std::move(label)), options(chosen), hook(std::move(progress)), fields(std::move(wanted)),
        tables(options.pending_bytes, options.body == compression::none ? options.window_bytes : 0) {
    if (fields) {
      detail::require_writable(*fields);
    }
  }

  void work() noexcept {
    std::exception_ptr failure;
    try {
      const cancellation_scope ends_with(tables.cancelled());
      detail::write_team team;
      if (file) {
        detail::piece_sink target(team, file->descriptor(), name);
        encode(target, team);
      } else {
        detail::ordered_sink target(sink);
        encode(target, team);
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
  std::optional<detail::atomic_file> file; ///< or the sink
  std::optional<schema> fields;            ///< set before the first table waits
  detail::pending_tables tables;
  std::uint64_t written = 0; ///< set at the end

private:
  template <class Sink>
  void encode(Sink& target, detail::write_team& team) {
    {
      detail::table_encoder encoder(target, name, options, team, hook, -1);
      for (auto next = take(target, team); next; next = take(target, team)) {
        encoder.write(*next, *fields);
        next.reset();
        tables.written();
      }
      encoder.close(*fields);
    }
    written = target.finish();
  }

  /// While no table waits, the thread helps to write what there is.
  template <class Sink>
  std::optional<table> take(Sink& target, detail::write_team& team) {
    if (!tables.has_more()) {
      target.flush();
      team.wait_until([&] { return tables.has_more(); });
      if (!tables.has_more()) {
        tables.rest();
      }
    }
    return tables.take();
  }
};

} // namespace

class writer::implementation {
public:
  explicit implementation(std::shared_ptr<job> of) : job_(std::move(of)) {
    try {
      thread_ = std::thread([shared = job_] { shared->work(); });
    } catch (const std::system_error& failure) {
      throw error(errc::out_of_memory, concat(job_->name, ": no thread for the writer: ", failure.what()));
    }
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;
  ~implementation() {
    job_->tables.cancel();
    if (on_own_thread()) { // the sink or the hook dropped the last reference
      thread_.detach();
    } else if (thread_.joinable()) {
      thread_.join();
    }
  }

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
    phase_ = phase::failed; // until everything is done
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

  [[nodiscard]] bool on_own_thread() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }
  [[nodiscard]] interruptible_mutex::guard take_turn() {
    if (on_own_thread()) {
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
  std::thread thread_;
  interruptible_mutex turn_;
  phase phase_ = phase::open; ///< read and written in turn
};

writer::writer(const std::filesystem::path& file, std::optional<schema> fields, const write_options& options,
               progress_hook hook) {
  auto made = std::make_shared<job>(file.string(), options, std::move(fields), std::move(hook));
  made->file.emplace(file, detail::file_options{options.durable, options.replace_read_only});
  made_.reset(new implementation(std::move(made)));
}

writer::writer(byte_sink sink, std::string name, std::optional<schema> fields, const write_options& options,
               progress_hook hook) {
  auto made = std::make_shared<job>(std::move(name), options, std::move(fields), std::move(hook));
  made->sink = std::move(sink);
  made_.reset(new implementation(std::move(made)));
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
