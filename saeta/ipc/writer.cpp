#include "saeta/ipc/writer.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/codec/block_codec.hpp"
#include "saeta/ipc/codec/bounded_pool.hpp"
#include "saeta/ipc/io/atomic_file.hpp"
#include "saeta/ipc/write/batch_feed.hpp"
#include "saeta/ipc/write/message_writer.hpp"
#include "saeta/ipc/write/ordered_sink.hpp"
#include "saeta/ipc/write/piece_sink.hpp"
#include "saeta/ipc/write/streamed_buffer.hpp"
#include "saeta/ipc/write/streamed_message.hpp"
#include "saeta/ipc/write/write_team.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/memory/context.hpp"

#include <arrow/record_batch.h>

#include <memory>
#include <vector>

namespace saeta::ipc {
namespace {

/// Makes the pool for compressed bodies. It charges the budget of page-locked memory, or the own budget of a
/// host context.
detail::bounded_pool::pointer pool_for(const context& ctx) {
  auto pool = detail::bounded_pool::make();
  pool->charge_to(ctx.on_host() ? ctx.memory_budget() : ctx.pinned_budget());
  return pool;
}

/// Writes the whole table to `sink`, which stays open. @param name  begins error messages.
void encode(const table& source, arrow::io::OutputStream* sink, const std::string& name,
            const write_options& options, detail::write_team& team, const progress_hook& hook) {
  const auto pool = pool_for(*source.ctx());
  auto encoding = arrow::ipc::IpcWriteOptions::Defaults();
  encoding.allow_64bit = true;  // a device batch may have 2^31 rows or more
  encoding.use_threads = false; // the team's threads compress
  encoding.emit_dictionary_deltas = options.dictionary_deltas;
  encoding.memory_pool = pool.get();
  std::shared_ptr<detail::block_codec> codec;
  if (options.body != compression::none) {
    codec = std::make_shared<detail::block_codec>(options.body, team);
    encoding.codec = codec;
  }
  const detail::written_dictionaries dictionaries(source, options.format);
  detail::streamed_sink target(*sink);
  detail::message_writer messages(&target, dictionaries.described(), encoding, options.format, name);
  const detail::streamed_messages streamed(messages, team, codec, pool.get());
  detail::batch_feed feed(dictionaries, options.window_bytes);
  progress so_far;
  so_far.total_batches = static_cast<std::int64_t>(source.batches().size());
  for (auto window = feed.next(); !window.batches.empty(); window = feed.next()) {
    std::vector<arrow::ipc::IpcPayload> encoded(window.batches.size());
    if (encoded.size() == 1) { // all threads work on this batch
      encoded.front() = streamed.encode(*window.batches.front(), so_far.batches, window.bytes);
    } else {
      team.run(encoded.size(), [&](std::size_t i) {
        encoded[i] = messages.encode(*window.batches[i], so_far.batches + static_cast<std::int64_t>(i));
      });
    }
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      messages.write(*window.batches[i], encoded[i]);
      ++so_far.batches;
      so_far.rows += window.batches[i]->num_rows();
      so_far.bytes += static_cast<std::uint64_t>(encoded[i].body_length);
      encoded[i] = {};
      if (hook) {
        hook(so_far);
      }
    }
  }
  messages.close();
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
  detail::write_team team;
  detail::piece_sink sink(team, target.descriptor(), file);
  encode(source, &sink, file.string(), options, team, hook);
  const std::uint64_t bytes = sink.finish();
  target.commit();
  return bytes;
}

std::uint64_t write(const table& source, const byte_sink& sink, const std::string& name,
                    const write_options& options, const progress_hook& hook) {
  detail::write_team team;
  detail::ordered_sink ordered(sink);
  encode(source, &ordered, name, options, team, hook);
  return ordered.finish();
}

std::string write_bytes(const table& source, const write_options& options) {
  std::string made;
  const auto append = [&](std::span<const std::byte> bytes) {
    made.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  write(source, append, "bytes", options);
  return made;
}

} // namespace saeta::ipc
