#include "saeta/ipc/write/table_encoder.hpp"

#include "saeta/base/text.hpp"
#include "saeta/compute/compact.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/ipc/codec/codecs.hpp"
#include "saeta/ipc/write/message_writer.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/transfer/column_stream.hpp"
#include "saeta/transfer/download.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

std::optional<block_codec> codec_of(const write_options& options) {
  if (options.body == compression::none) {
    return std::nullopt;
  }
  return block_codec(options.body == compression::lz4 ? body_codec::lz4 : body_codec::zstd, options.level);
}

std::uint64_t byte_size(const batch& of) {
  std::uint64_t bytes = 0;
  for (const column& part : of.columns) {
    bytes += part.byte_size();
  }
  return bytes;
}

/// The most rows of the parts that a batch is cut into.
std::int64_t rows_of_parts(const batch& of, const write_options& options) {
  if (options.batch_rows != 0) {
    return options.batch_rows;
  }
  if (options.body == compression::none && options.format == container::file) {
    return of.rows;
  }
  const auto parts =
      static_cast<std::int64_t>((byte_size(of) + options.batch_bytes - 1) / options.batch_bytes);
  constexpr std::int64_t word = 64; // bits of a bitmap that are copied without a shift
  return parts <= 1 ? of.rows : (of.rows / parts / word + 1) * word;
}

/// The table with large batches in parts of equal size, which share its memory.
table cut(const table& source, const write_options& options) {
  std::vector<batch> batches;
  for (const batch& whole : source.batches()) {
    const std::int64_t rows = rows_of_parts(whole, options);
    if (whole.rows <= rows) {
      batches.push_back(whole);
      continue;
    }
    for (std::int64_t first = 0; first < whole.rows; first += rows) {
      batch& part = batches.emplace_back(batch{std::min(rows, whole.rows - first), {}});
      for (const column& each : whole.columns) {
        part.columns.push_back(each.slice(first, part.rows));
      }
    }
  }
  return batches.size() == source.batches().size()
             ? source
             : table::make_sharing(source.ctx(), source.shared_fields(), std::move(batches));
}

/// Some columns of one batch of a table.
struct selection {
  batch rows;
  std::vector<std::size_t> numbers; ///< columns of the table

  void add(const batch& of, std::size_t number) {
    rows.columns.push_back(of.columns[number]);
    numbers.push_back(number);
  }
  void put(const host_batch& from, std::vector<host_array>& columns) const {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      columns[numbers[i]] = from.arrays[i];
    }
  }
};

/// Some batches of a table in host memory.
struct fed_window {
  std::vector<host_batch> batches;
  std::shared_ptr<const column_stream> bytes; ///< of the single batch, if they are on the device; or null
};

/// Gives the batches of a table window by window. A window has as many batches as fit into `window_bytes`, at
/// least one. From a device context it is one transfer into one allocation, which lives until its last batch
/// is dropped. A larger batch stays on the device, and its window has a column stream that downloads its
/// bytes; columns that can't be downloaded in parts are downloaded as a whole. On a host context batches are
/// views. Borrows the dictionaries and, through them, the table.
class batch_feed {
public:
  batch_feed(const written_dictionaries& dictionaries, std::uint64_t window_bytes)
      : dictionaries_(dictionaries), window_bytes_(window_bytes) {}

  /// Returns the next window; one without batches at the end.
  fed_window next() {
    const table& source = dictionaries_.indices();
    const std::size_t end = end_of_window(source.batches(), next_, window_bytes_);
    if (end - next_ == 1 && is_streamed(source.batches()[next_])) {
      return streamed(next_++);
    }
    std::vector<host_batch> window = host_batches(source.ctx(), source.batches().subspan(next_, end - next_));
    for (host_batch& batch : window) {
      dictionaries_.restore(next_++, batch);
    }
    return {std::move(window), nullptr};
  }

private:
  [[nodiscard]] bool is_streamed(const batch& batch) const {
    if (dictionaries_.indices().ctx()->on_host() || host_accessible(batch)) {
      return false;
    }
    return byte_size(batch) > window_bytes_;
  }
  [[nodiscard]] fed_window streamed(std::size_t index) const {
    const table& source = dictionaries_.indices();
    const batch& whole = source.batches()[index];
    selection in_parts;
    selection at_once;
    in_parts.rows.rows = at_once.rows.rows = whole.rows;
    for (std::size_t i = 0; i < whole.columns.size(); ++i) {
      const bool parts = column_stream::supports(whole.columns[i]) && !dictionaries_.will_rewrite(i);
      (parts ? in_parts : at_once).add(whole, i);
    }
    host_batch batch;
    batch.rows = whole.rows;
    batch.arrays.resize(whole.columns.size());
    streamed_rows rows = stream_rows(source.ctx(), in_parts.rows, static_cast<std::size_t>(window_bytes_));
    in_parts.put(rows.rows, batch.arrays);
    auto owners = std::make_shared<std::vector<std::shared_ptr<void>>>(1, rows.rows.keepalive);
    if (!at_once.numbers.empty()) {
      const host_batch there = std::move(host_batches(source.ctx(), std::span(&at_once.rows, 1)).front());
      at_once.put(there, batch.arrays);
      owners->push_back(there.keepalive);
    }
    batch.keepalive = std::move(owners);
    dictionaries_.restore(index, batch);
    fed_window window;
    window.batches.push_back(std::move(batch));
    window.bytes = std::move(rows.bytes);
    return window;
  }

  const written_dictionaries& dictionaries_;
  std::uint64_t window_bytes_;
  std::size_t next_ = 0;
};

} // namespace

void require_valid(const write_options& options) {
  const int most = options.body == compression::lz4    ? most_lz4_level
                   : options.body == compression::zstd ? most_zstd_level
                                                       : 0;
  if (options.level != 0 && most == 0) {
    throw error(errc::invalid_argument,
                concat("compression level ", options.level, " without a compression: choose lz4 or zstd"));
  }
  if (options.level < 0 || options.level > most) {
    throw error(errc::invalid_argument,
                concat("compression level ", options.level, ": ",
                       options.body == compression::lz4 ? "lz4" : "zstd", " has levels from 1 to ", most));
  }
  if (options.batch_rows < 0) {
    throw error(errc::invalid_argument,
                concat("batch_rows is ", options.batch_rows, ", expected a number of rows from 1 on"));
  }
}

table_encoder::table_encoder(byte_target& sink, std::string name, const write_options& options,
                             thread_pool& pool, progress_hook hook, std::int64_t total_batches)
    : sink_(sink), name_(std::move(name)), options_(options), pool_(pool), hook_(std::move(hook)) {
  so_far_.total_batches = total_batches;
}

void table_encoder::open(const schema& fields) {
  if (!dictionaries_) {
    dictionaries_.emplace(fields, options_.format, so_far_.total_batches < 0);
  }
}

void table_encoder::write_schema(std::shared_ptr<budget> charged) {
  if (!messages_) {
    messages_.emplace(
        sink_, dictionaries_->described(),
        message_options{options_.format, options_.dictionary_deltas, codec_of(options_), std::move(charged)},
        name_, pool_);
  }
}

void table_encoder::write(const table& source, const schema& fields) {
  open(fields);
  const table parts = cut(source, options_);
  if (so_far_.total_batches >= 0) {
    so_far_.total_batches = static_cast<std::int64_t>(parts.batches().size());
    so_far_.total_rows = source.rows();
  }
  dictionaries_->begin(compact(parts));
  const context& ctx = *source.ctx();
  write_schema(ctx.on_host() ? ctx.memory_budget()
                             : ctx.pinned_budget()); // now it is known how wide indices are
  batch_feed feed(*dictionaries_, options_.window_bytes);
  for (auto window = feed.next(); !window.batches.empty(); window = feed.next()) {
    std::vector<encoded_rows> encoded = messages_->encode(window.batches, so_far_.batches, window.bytes);
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      messages_->write(window.batches[i], encoded[i]);
      ++so_far_.batches;
      so_far_.rows += window.batches[i].rows;
      so_far_.bytes += static_cast<std::uint64_t>(encoded[i].body_bytes);
      encoded[i] = {};
      if (hook_) {
        hook_(so_far_);
      }
    }
  }
  dictionaries_->end();
}

void table_encoder::close(const schema& fields) {
  open(fields);
  write_schema(nullptr);
  messages_->close();
}

} // namespace saeta::ipc::detail
