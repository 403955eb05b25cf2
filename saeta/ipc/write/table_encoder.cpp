#include "saeta/ipc/write/table_encoder.hpp"

#include "saeta/compute/compact.hpp"
#include "saeta/ipc/codec/block_codec.hpp"
#include "saeta/ipc/write/batch_feed.hpp"
#include "saeta/ipc/write/message_writer.hpp"
#include "saeta/ipc/write/streamed_message.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/memory/context.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

std::shared_ptr<const block_codec> codec_of(const write_options& options, write_team& team) {
  if (options.body == compression::none) {
    return nullptr;
  }
  return std::make_shared<const block_codec>(
      options.body == compression::lz4 ? body_codec::lz4 : body_codec::zstd, team);
}

} // namespace

struct table_encoder::opened {
  /// What exists once the schema is written.
  struct messages_of {
    messages_of(const opened& of, const std::string& name, const write_options& options, write_team& team)
        : plain(of.sink, of.dictionaries.described(),
                {options.format, options.dictionary_deltas, of.codec, of.charged}, name),
          streamed(plain, team, of.codec, of.charged) {}

    message_writer plain;
    streamed_messages streamed;
  };

  opened(const schema& fields, byte_target& target, const write_options& options, write_team& team,
         bool several)
      : codec(codec_of(options, team)), dictionaries(fields, options.format, several), sink(target) {}

  std::shared_ptr<budget> charged;
  std::shared_ptr<const block_codec> codec;
  written_dictionaries dictionaries;
  byte_target& sink;
  std::optional<messages_of> messages;
};

table_encoder::table_encoder(byte_target& sink, std::string name, const write_options& options,
                             write_team& team, progress_hook hook, std::int64_t total_batches)
    : sink_(sink), name_(std::move(name)), options_(options), team_(team), hook_(std::move(hook)) {
  so_far_.total_batches = total_batches;
}

table_encoder::~table_encoder() = default;

void table_encoder::write(const table& source, const schema& fields) {
  if (opened_ == nullptr) {
    opened_ = std::make_unique<opened>(fields, sink_, options_, team_, so_far_.total_batches < 0);
    const context& ctx = *source.ctx();
    opened_->charged = ctx.on_host() ? ctx.memory_budget() : ctx.pinned_budget();
  }
  opened_->dictionaries.begin(compact(source));
  if (!opened_->messages) { // the first table says how wide indices are
    opened_->messages.emplace(*opened_, name_, options_, team_);
  }
  message_writer& messages = opened_->messages->plain;
  const streamed_messages& streamed = opened_->messages->streamed;
  batch_feed feed(opened_->dictionaries, options_.window_bytes);
  for (auto window = feed.next(); !window.batches.empty(); window = feed.next()) {
    std::vector<encoded_rows> encoded(window.batches.size());
    if (encoded.size() == 1) { // all threads work on this batch
      encoded.front() = streamed.encode(window.batches.front(), so_far_.batches, window.bytes);
    } else {
      team_.run(encoded.size(), [&](std::size_t i) {
        encoded[i] = messages.encode(window.batches[i], so_far_.batches + static_cast<std::int64_t>(i));
      });
    }
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      messages.write(window.batches[i], encoded[i]);
      ++so_far_.batches;
      so_far_.rows += window.batches[i].rows;
      so_far_.bytes += static_cast<std::uint64_t>(encoded[i].body_bytes);
      encoded[i] = {};
      if (hook_) {
        hook_(so_far_);
      }
    }
  }
  opened_->dictionaries.end();
}

void table_encoder::close(const schema& fields) {
  if (opened_ == nullptr) {
    opened_ = std::make_unique<opened>(fields, sink_, options_, team_, so_far_.total_batches < 0);
    opened_->messages.emplace(*opened_, name_, options_, team_);
  }
  opened_->messages->plain.close();
}

} // namespace saeta::ipc::detail
