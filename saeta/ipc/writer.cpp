#include "saeta/ipc/writer.hpp"

#include "saeta/base/os_error.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/io/atomic_file.hpp"
#include "saeta/ipc/write/sinks.hpp"
#include "saeta/ipc/write/table_encoder.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

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

} // namespace saeta::ipc
