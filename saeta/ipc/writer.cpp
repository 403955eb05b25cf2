#include "saeta/ipc/writer.hpp"

#include "saeta/base/text.hpp"
#include "saeta/executor/thread_pool.hpp"
#include "saeta/ipc/io/atomic_file.hpp"
#include "saeta/ipc/write/sinks.hpp"
#include "saeta/ipc/write/table_encoder.hpp"

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
  detail::atomic_file target(file, {options.durable, options.replace_read_only});
  thread_pool pool;
  detail::piece_sink sink(pool, target.descriptor(), file);
  const std::uint64_t bytes = encode(source, sink, file.string(), options, pool, hook);
  target.commit();
  return bytes;
}

std::uint64_t write(const table& source, const byte_sink& sink, const std::string& name,
                    const write_options& options, const progress_hook& hook) {
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

} // namespace saeta::ipc
