#include "saeta/ipc/format/message_source.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace saeta::ipc::detail {
namespace {

constexpr std::uint64_t word = sizeof(std::uint32_t);

constexpr std::string_view name_of(message_kind kind) {
  switch (kind) {
  case message_kind::schema:
    return "schema";
  case message_kind::dictionary_batch:
    return "dictionary";
  case message_kind::record_batch:
    break;
  }
  return "record batch";
}

/// The bytes of a message from its beginning on.
struct message_front {
  /// @param usual  bytes that the prefix and the metadata have most often. They are read with one call.
  /// @param all    the source in memory; empty: it is read
  message_front(const byte_source& source, std::uint64_t begin, std::uint64_t usual,
                std::span<const std::byte> all)
      : from(source), offset(begin), ahead(source.live() ? 0 : std::min(usual, most_ahead)), view(all) {}

  /// Reads until there are `count` bytes. Returns false if the source ends before.
  bool bring(std::uint64_t count) {
    const std::uint64_t have = bytes.size();
    if (count > have) {
      const std::uint64_t there = from.available(offset + have, std::max(count, ahead) - have);
      if (there == 0) {
        return false; // the offset may be behind the end
      }
      if (!view.empty()) { // copied, because a mapped file may change
        const auto more =
            view.subspan(static_cast<std::size_t>(offset + have), static_cast<std::size_t>(there));
        bytes.insert(bytes.end(), more.begin(), more.end());
      } else {
        bytes.resize(static_cast<std::size_t>(have + there));
        from.read_at(offset + have, std::span(bytes).subspan(static_cast<std::size_t>(have)));
      }
    }
    return bytes.size() >= count;
  }

  [[nodiscard]] std::uint32_t word_at(std::size_t at) const {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }

  [[noreturn]] void refuse_prefix() const {
    throw error(errc::format, concat("the message at offset ", offset, " is truncated in its prefix, after ",
                                     bytes.size(), " bytes"));
  }

  static constexpr std::uint64_t most_ahead = std::uint64_t{64} << 10;
  const byte_source& from;
  std::uint64_t offset;
  std::uint64_t ahead;
  std::span<const std::byte> view;
  std::vector<std::byte> bytes;
};

void require_range(std::string_view name, const batch_range& range, std::int64_t batches) {
  if (range &&
      (range->first < 0 || range->second < range->first || (batches >= 0 && range->second > batches))) {
    throw error(errc::out_of_range,
                concat(name, ": batches [", range->first, ", ", range->second, ") are not a range of ",
                       batches < 0 ? "a stream" : concat(batches, " batches")));
  }
}

} // namespace

message_source::message_source(source from, const batch_range& range)
    : from_(std::move(from)), format_(recognise(*from_)), range_(range) {
  if (format_ == container::file) {
    open_file();
  } else {
    open_stream();
  }
  require_range(from_->name(), range_,
                format_ == container::file ? static_cast<std::int64_t>(footer_.batches.size()) : -1);
  next_batch_ = format_ == container::file && range_ ? range_->first : 0;
}

void message_source::open_file() {
  const std::string label = concat(from_->name(), ": footer");
  constexpr std::uint64_t magic = 6;
  constexpr std::uint64_t front = 8; // the magic and its padding
  constexpr std::uint64_t word_bytes = sizeof(std::int32_t);
  constexpr std::uint64_t tail = word_bytes + magic;
  constexpr std::uint64_t expected = 4096; // bytes; one read gets most footers together with their size
  std::vector<std::byte> last(std::min(from_->size() - magic, expected));
  from_->read_at(from_->size() - magic - last.size(), last);
  std::int32_t size = 0;
  std::memcpy(&size, last.data() + last.size() - word_bytes, word_bytes);
  if (size <= 0 || from_->size() < front + tail ||
      static_cast<std::uint64_t>(size) > from_->size() - front - tail) {
    throw error(errc::format, concat(label, " of ", size, " bytes in a file of ", from_->size(), " bytes"));
  }
  const auto bytes = static_cast<std::size_t>(size);
  last.resize(last.size() - word_bytes);
  if (bytes <= last.size()) {
    front_.assign(last.end() - size, last.end());
  } else {
    front_.resize(bytes);
    from_->read_at(from_->size() - tail - bytes, front_);
  }
  try {
    footer_ = read_footer(front_);
  } catch (const error& failure) {
    rethrow(failure, label);
  }
}

void message_source::open_stream() {
  try {
    auto first = find(0);
    if (!first || first->header.kind != message_kind::schema) {
      throw error(errc::format, "its first message is not a schema");
    }
    if (first->header.body_bytes != 0) { // the source would skip the body
      throw error(errc::format, concat("its first message, the schema, has a body of ",
                                       first->header.body_bytes, " bytes"));
    }
    front_.assign(first->front.begin() + static_cast<std::ptrdiff_t>(first->prefix),
                  first->front.begin() + static_cast<std::ptrdiff_t>(first->body));
    at_ = first->body;
  } catch (const error& failure) {
    rethrow(failure, from_->name());
  }
}

std::int64_t message_source::end_of_range() const noexcept {
  constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();
  return range_                         ? range_->second
         : format_ == container::stream ? unknown
                                        : static_cast<std::int64_t>(footer_.batches.size());
}

std::int64_t message_source::batch_count() const noexcept {
  return format_ == container::stream ? -1 : end_of_range() - (range_ ? range_->first : 0);
}

void message_source::project(std::shared_ptr<const schema_index> described, std::vector<int> columns) {
  described_ = std::move(described);
  columns_ = std::move(columns);
  trees_ = {};
  ahead_ = nullptr;
}

const read_columns& message_source::columns(std::int16_t version) {
  auto& result = trees_[version == version_5 ? 1 : 0];
  if (result == nullptr) {
    auto fresh = std::make_unique<read_columns>();
    fresh->tree = make_tree(described_->fields(), columns_, schema_table(format_, front_),
                            fresh->dictionaries, version);
    result = std::move(fresh);
  }
  return *result;
}

std::optional<message_source::found_message> message_source::find(std::uint64_t offset,
                                                                  std::int64_t front_bytes) const {
  message_front front(*from_, offset,
                      front_bytes < 0 ? usual_front_ : static_cast<std::uint64_t>(front_bytes),
                      views_ ? from_->view() : std::span<const std::byte>());
  if (!front.bring(word)) {
    if (front.bytes.empty()) {
      return std::nullopt;
    }
    front.refuse_prefix();
  }
  const bool marked = front.word_at(0) == continuation; // messages before 0.15 have no continuation mark
  const std::size_t prefix = marked ? 2 * word : word;
  if (!front.bring(prefix)) {
    front.refuse_prefix();
  }
  const auto bytes = static_cast<std::int32_t>(front.word_at(prefix - word));
  if (bytes == 0) {
    return std::nullopt;
  }
  const std::uint64_t end = prefix + (bytes < 0 ? 0 : static_cast<std::uint64_t>(bytes));
  if (bytes < 0 || !front.bring(end)) {
    throw error(errc::format,
                concat("the message at offset ", offset, " has ", bytes, " bytes of metadata, but only ",
                       bytes < 0 ? 0 : front.bytes.size() - prefix, " are left"));
  }
  const std::uint64_t body = offset + (front_bytes < 0 ? end : static_cast<std::uint64_t>(front_bytes));
  if (front_bytes >= 0 && body > from_->size()) {
    throw error(errc::format,
                concat("the message at offset ", offset, " of ", front_bytes,
                       " bytes, as the footer says, exceeds a source of ", from_->size(), " bytes"));
  }
  if (body < offset + end) {
    throw error(errc::format, concat("the message at offset ", offset, " has ", end,
                                     " bytes before its body, the footer says ", front_bytes));
  }
  const message_header header =
      read_header(std::span(front.bytes).subspan(prefix, static_cast<std::size_t>(bytes)));
  // Moving the vector keeps the bytes where the header views them.
  return found_message{std::move(front.bytes), prefix, header, offset, body};
}

void message_source::bring_body(const found_message& at, bool kept) const {
  const auto bytes = static_cast<std::uint64_t>(at.header.body_bytes);
  if (from_->available(at.body, bytes, kept) < bytes) {
    throw error(errc::format,
                concat("the message at offset ", at.offset, " has a body of ", bytes, " bytes at offset ",
                       at.body, " of a source of ", from_->size(), " bytes"));
  }
}

std::optional<std::vector<buffer_place>> message_source::few_ranges(const batch_layout& layout,
                                                                    const column_tree& tree) const {
  if (layout.dictionary || columns_.size() == described_->fields().fields.size()) {
    return std::nullopt;
  }
  auto ranges = body_ranges(layout, tree);
  std::int64_t needed = 0;
  for (const buffer_place& range : ranges) {
    needed += range.length;
  }
  return needed < layout.body_bytes / 2 ? std::optional(std::move(ranges)) : std::nullopt;
}

void message_source::read_body(const found_message& at, const column_tree* tree, source_message& message) {
  bring_body(at, how_ != bodies::none);
  if (how_ == bodies::none) {
    return;
  }
  const auto bytes = static_cast<std::size_t>(at.header.body_bytes);
  const bool packed = message.layout.codec != body_codec::none;
  views_ = false;
  if (how_ == bodies::viewed && !packed) {
    if (const auto all = from_->view(); !all.empty()) {
      views_ = true; // a file that is cut short ends the process in any case
      message.body = all.subspan(at.body, bytes);
      message.owner = std::const_pointer_cast<byte_source>(from_);
      return;
    }
  }
  owned_bytes body;
  if (const auto ranges = tree == nullptr ? std::nullopt : few_ranges(message.layout, *tree)) {
    body = allocate_sparse(bytes);
    for (const buffer_place& range : *ranges) {
      const auto first = static_cast<std::size_t>(range.offset);
      from_->read_at(at.body + first, body.bytes.subspan(first, static_cast<std::size_t>(range.length)));
    }
    message.temporary = true;
  } else { // a compressed body may have uncompressed buffers, which columns view
    body = body_memory(at.body, bytes);
    from_->read_at(at.body, body.bytes);
  }
  message.body = body.bytes;
  message.owner = std::move(body.owner);
}

/// A dictionary of a column that is not read is skipped.
const column_tree* message_source::tree_of(const message_header& header) {
  const read_columns& read = columns(header.version);
  if (header.kind == message_kind::record_batch) {
    return &read.tree;
  }
  const std::int64_t id = id_of_dictionary(header);
  if (const auto known = read.dictionaries.numbers.find(id); known != read.dictionaries.numbers.end()) {
    return read.dictionaries.trees[known->second].get();
  }
  require_known(id, schema_table(format_, front_), known_ids_);
  return nullptr;
}

std::optional<message_source::found_message> message_source::find_in_file() const {
  const bool dictionary = next_dictionary_ < footer_.dictionaries.size();
  if (!dictionary && next_batch_ == end_of_range()) {
    return std::nullopt;
  }
  const message_block& block = dictionary ? footer_.dictionaries[next_dictionary_]
                                          : footer_.batches[static_cast<std::size_t>(next_batch_)];
  const message_kind expected = dictionary ? message_kind::dictionary_batch : message_kind::record_batch;
  std::optional<found_message> message;
  if (block.offset >= 0 && block.offset % 8 == 0 && block.metadata_bytes >= 0) {
    message = find(static_cast<std::uint64_t>(block.offset), block.metadata_bytes);
  }
  if (!message || message->header.kind != expected) {
    throw error(errc::format,
                concat("the footer names a ", name_of(expected), " at offset ", block.offset, ", found ",
                       message ? concat("a ", name_of(message->header.kind)) : "none"));
  }
  return message;
}

std::optional<message_source::found_message> message_source::find_in_stream() {
  while (!ended_ && next_batch_ < end_of_range()) {
    auto entry = find(at_);
    if (!entry) {
      ended_ = true; // bytes behind the end of the stream are not read
      break;
    }
    if (entry->header.kind == message_kind::schema) {
      throw error(errc::format, concat("the message at offset ", at_, " is a second schema"));
    }
    if (entry->header.kind != message_kind::record_batch || !range_ || next_batch_ >= range_->first) {
      return entry;
    }
    bring_body(*entry, false);
    at_ = entry->body + static_cast<std::uint64_t>(entry->header.body_bytes);
    from_->forget_before(at_);
    ++next_batch_;
  }
  return std::nullopt;
}

std::optional<message_source::found_message> message_source::find_next() {
  return format_ == container::file ? find_in_file() : find_in_stream();
}

void message_source::require_same_form(const found_message& next) {
  const std::pair form(next.header.version, next.prefix);
  if (form_.value_or(form) != form) {
    throw mixed_messages();
  }
  form_ = form;
}

void message_source::take_bodies(bodies how, const std::shared_ptr<context>& ctx) {
  if (how != how_ || ctx != ctx_) {
    ahead_ = nullptr; // it fetches into memory of the context
  }
  how_ = how;
  ctx_ = ctx;
}

std::shared_ptr<std::byte> message_source::memory_ahead(std::uint64_t bytes, std::uint64_t held) const {
  if (held + bytes > ctx_->memory_budget()->statistics().remaining) {
    return nullptr;
  }
  try {
    const owned_bytes memory = allocate_body(ctx_, static_cast<std::size_t>(bytes));
    return {memory.owner, memory.bytes.data()};
  } catch (const error& failure) {
    if (!is_lack_of_room(failure.code())) {
      throw;
    }
    return nullptr;
  }
}

owned_bytes message_source::body_memory(std::uint64_t at, std::size_t bytes) {
  if (how_ != bodies::viewed) {
    return allocate_uncharged(bytes);
  }
  auto memory = ahead_ == nullptr ? nullptr : ahead_->take(next_message(), at, bytes);
  return memory == nullptr ? allocate_body(ctx_, bytes) : owned_bytes{{memory.get(), bytes}, memory};
}

std::uint64_t message_source::fetch_ahead() {
  if (format_ != container::file || !from_->fetches_ahead()) {
    return 0;
  }
  if (ahead_ == nullptr) {
    ahead_ = std::make_unique<fetch_window>(all_messages(), ctx_->memory_budget()->statistics().limit);
  }
  ahead_->go_on(next_message());
  return ahead_->bytes();
}

std::size_t message_source::next_message() const noexcept {
  return next_dictionary_ + static_cast<std::size_t>(next_batch_ - (range_ ? range_->first : 0));
}

/// The dictionaries, and then the batches of the range.
fetch_window::messages message_source::all_messages() {
  const bool whole = columns_.size() == described_->fields().fields.size();
  fetch_window::messages all;
  all.count = footer_.dictionaries.size() + static_cast<std::size_t>(batch_count());
  all.at = [this](std::size_t number) {
    const message_block& at = block(number);
    const auto metadata = static_cast<std::uint64_t>(std::max(at.metadata_bytes, 0));
    const auto body = static_cast<std::uint64_t>(std::max<std::int64_t>(at.body_bytes, 0));
    return fetch_window::message{{static_cast<std::uint64_t>(at.offset), metadata + body}, metadata};
  };
  if (!whole) {
    all.ranges = [this](std::size_t number) { return ranges_of(number); };
  } else if (how_ == bodies::viewed) {
    all.memory = [this](std::uint64_t bytes, std::uint64_t held) { return memory_ahead(bytes, held); };
  }
  all.fetch = [this](std::span<const byte_range> ranges) { return from_->fetch_ahead(ranges); };
  return all;
}

const message_block& message_source::block(std::size_t number) const noexcept {
  const std::size_t dictionaries = footer_.dictionaries.size();
  return number < dictionaries
             ? footer_.dictionaries[number]
             : footer_.batches[number - dictionaries + static_cast<std::size_t>(range_ ? range_->first : 0)];
}

/// Returns what `read_body` reads of a message.
std::vector<byte_range> message_source::ranges_of(std::size_t number) {
  const message_block& at = block(number);
  const auto message = find(static_cast<std::uint64_t>(at.offset), at.metadata_bytes);
  if (!message) {
    return {};
  }
  const column_tree* const tree = tree_of(message->header);
  if (tree == nullptr) {
    return {};
  }
  const batch_layout layout = read_layout(message->header, tree);
  layout.require_entries(*tree);
  const auto few = few_ranges(layout, *tree);
  if (!few) {
    return {{message->body, static_cast<std::uint64_t>(layout.body_bytes)}};
  }
  std::vector<byte_range> ranges;
  for (const buffer_place& range : *few) {
    ranges.push_back(
        {message->body + static_cast<std::uint64_t>(range.offset), static_cast<std::uint64_t>(range.length)});
  }
  return ranges;
}

std::optional<source_message> message_source::next() {
  fetch_ahead();
  while (auto position = find_next()) {
    require_same_form(*position);
    given_ = position->header.kind;
    given_bytes_ = static_cast<std::uint64_t>(position->header.body_bytes);
    given_end_ = position->body + given_bytes_;
    given_front_ = position->body - position->offset;
    const column_tree* const tree = described_ == nullptr ? nullptr : tree_of(position->header);
    source_message message;
    message.layout = read_layout(position->header, tree);
    if (tree != nullptr) {
      message.layout.require_entries(*tree);
    } else if (described_ != nullptr) {
      bring_body(*position, false);
      accept();
      continue;
    }
    read_body(*position, tree, message);
    message.front = std::move(position->front); // the layout still views the same bytes
    return message;
  }
  given_ = message_kind::schema;
  return std::nullopt;
}

void message_source::accept() {
  usual_front_ = given_front_;
  if (given_ == message_kind::record_batch) {
    ++next_batch_;
    body_bytes_ += given_bytes_;
  } else if (given_ == message_kind::dictionary_batch) {
    ++next_dictionary_;
  }
  given_ = message_kind::schema;
  if (format_ == container::stream) {
    at_ = given_end_;
    from_->forget_before(at_);
  }
}

bool message_source::is_packed() const {
  std::uint64_t at = at_;
  std::int64_t front = -1;
  if (format_ == container::file) {
    if (next_batch_ == static_cast<std::int64_t>(footer_.batches.size())) {
      return false;
    }
    const message_block& block = footer_.batches[static_cast<std::size_t>(next_batch_)];
    at = static_cast<std::uint64_t>(block.offset);
    front = block.metadata_bytes;
  }
  try {
    const auto next = find(at, front);
    if (!next || next->header.kind == message_kind::schema) {
      return false;
    }
    bring_body(*next, false);
    return read_layout(next->header).codec != body_codec::none;
  } catch (const error&) {
    return false; // reading the message reports the error
  }
}

void message_source::close_range() const {
  if (format_ == container::stream && range_ && next_batch_ < range_->second) {
    throw error(errc::out_of_range, concat(from_->name(), ": batches [", range_->first, ", ", range_->second,
                                           ") of a stream that has ", next_batch_, " batches"));
  }
}

std::vector<buffer_place> body_ranges(const batch_layout& batch, const column_tree& tree,
                                      std::int64_t joined_gap) {
  std::vector<buffer_place> taken;
  node_buffers buffers(batch);
  for (const tree_node& node : tree.nodes) {
    const auto [first, count] = buffers.next(node);
    for (std::size_t i = first; i < first + count; ++i) {
      if (const buffer_place place = batch.buffers[i]; place.length != 0) {
        taken.push_back(place);
      }
    }
  }
  std::ranges::sort(taken, {}, &buffer_place::offset);
  std::vector<buffer_place> joined;
  for (const buffer_place& place : taken) {
    if (!joined.empty() && place.offset - (joined.back().offset + joined.back().length) <= joined_gap) {
      buffer_place& last = joined.back();
      last.length = std::max(last.length, place.offset + place.length - last.offset);
    } else {
      joined.push_back(place);
    }
  }
  return joined;
}
namespace {

constexpr std::align_val_t alignment{64};

owned_bytes bytes_of(const std::shared_ptr<void>& owner, std::size_t bytes) {
  return {{static_cast<std::byte*>(owner.get()), bytes}, owner};
}

} // namespace

owned_bytes allocate_body(const std::shared_ptr<context>& ctx, std::size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  if (ctx->on_host()) {
    auto own = std::make_shared<buffer>(buffer::allocate(ctx, bytes, ctx->work_stream(), tag("read_ipc")));
    return bytes_of({own, reinterpret_cast<void*>(own->address())}, bytes);
  }
  auto charge = ctx->charge_host(bytes, tag("read_ipc"));
  owned_bytes memory = allocate_uncharged(bytes);
  auto both = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      std::move(charge), std::move(memory.owner)); // freed before its charge is returned
  return bytes_of({both, memory.bytes.data()}, bytes);
}

owned_bytes allocate_uncharged(std::size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  void* const at = ::operator new(bytes, alignment, std::nothrow);
  if (at == nullptr) {
    throw error(errc::out_of_memory, concat("no host memory for a body of ", bytes, " bytes"));
  }
  return bytes_of({at, [](void* memory) { ::operator delete(memory, alignment); }}, bytes);
}

owned_bytes allocate_sparse(std::size_t bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    throw error(errc::out_of_memory,
                concat("the system has no address range for a body of ", bytes, " bytes"));
  }
  return bytes_of({at, [bytes](void* memory) { ::munmap(memory, bytes); }}, bytes);
}

} // namespace saeta::ipc::detail
