#include "saeta/ipc/write/message_writer.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
namespace {

using range = std::span<const std::byte>;

constexpr std::array<std::byte, 8> zeros{};

class encoder {
public:
  encoder(encoded_rows& to, const std::shared_ptr<const void>& keepalive) : to_(to), keepalive_(keepalive) {}

  void add(const host_array& of, std::int64_t offset, std::int64_t length) {
    if (of.type.mapping() == row_mapping::run_ends) {
      add_runs(of, offset, length);
      return;
    }
    const row_window rows = window_of(of.type, offset, length);
    const child_rows pointed = rows_pointed_to(of, rows);
    require_pointed(of, pointed);
    const std::int64_t nulls = nulls_of(of, offset, length);
    to_.layout.nodes.push_back({length, nulls});
    for (std::size_t i = 0; i < of.buffers.size(); ++i) {
      add_buffer(of, i, rows, pointed, nulls);
    }
    if (of.type.has_variadic_buffers()) {
      to_.layout.variadic_counts.push_back(
          static_cast<std::int64_t>(of.buffers.size() - of.type.buffer_count()));
    }
    for (const host_array& child : of.children) {
      const child_rows part = select_child_rows(of.type, rows.first, rows.rows, pointed, child.length);
      if (part.first < 0 || part.count < 0 || part.first > child.length ||
          part.count > child.length - part.first) {
        throw error(errc::format, concat("its rows refer to ", part.count, " rows from ", part.first,
                                         " of a child of ", child.length));
      }
      add(child, child.offset + part.first, part.count);
    }
  }

private:
  void push(range bytes) { to_.body.push_back({bytes, keepalive_}); }

  template <class T>
  void push_own(std::vector<T> values, std::size_t bytes) {
    auto own = std::make_shared<const std::vector<T>>(std::move(values));
    to_.body.push_back({std::as_bytes(std::span(*own)).first(bytes), own});
  }

  static void require_pointed(const host_array& of, const child_rows& pointed) {
    if (of.type.offset_width() == 0) {
      return;
    }
    static_cast<void>(pointed_by(pointed.first, pointed.first + pointed.count,
                                 of.children.empty() ? std::ssize(of.buffers[2]) : of.children[0].length,
                                 of.type));
  }

  static std::int64_t nulls_of(const host_array& of, std::int64_t offset, std::int64_t length) {
    if (!of.type.has_validity()) {
      return of.type.id() == type_id::null ? length : 0;
    }
    if (length == 0 || of.buffers[0].data() == nullptr) {
      return 0;
    }
    const std::int64_t known = nulls_of_part(of.null_count, of.length, length);
    return known >= 0 ? known : in_host_memory().count_nulls(of.buffers[0].data(), offset, length);
  }

  void add_buffer(const host_array& of, std::size_t index, const row_window& rows, const child_rows& pointed,
                  std::int64_t nulls) {
    const buffer_spec spec = of.type.buffer(index);
    const range whole = of.buffers[index];
    if (spec.role == buffer_role::validity && nulls == 0) {
      push({});
      return;
    }
    if (rows.rows == 0) { // without rows there is one offset, which some readers need
      const bool offsets = spec.role == buffer_role::offsets;
      to_.body.push_back({range(zeros).first(offsets ? static_cast<std::size_t>(spec.width) : 0)});
      return;
    }
    const byte_window window = bytes_of(of.type, index, rows, pointed, whole.size());
    if (window.bytes == 0) {
      push({});
      return;
    }
    if (window.offset > whole.size() || window.bytes > whole.size() - window.offset) {
      throw error(errc::format, concat("its ", spec.name, " take ", window.offset + window.bytes,
                                       " bytes, the buffer has ", whole.size()));
    }
    const range named = whole.subspan(window.offset, window.bytes);
    if (const int shift = bit_shift(of.type, index, rows); shift != 0) {
      push_own(shifted_bits(named, shift, rows.rows), static_cast<std::size_t>((rows.rows + 7) / 8));
    } else if (spec.role == buffer_role::offsets && pointed.first != 0) {
      push_rebased(named, static_cast<std::size_t>(spec.width), pointed.first);
    } else {
      push(named);
    }
  }

  void push_rebased(range offsets, std::size_t width, std::int64_t base) {
    std::vector<std::byte> rebased(offsets.size());
    for (std::size_t at = 0; at < offsets.size(); at += width) {
      const std::int64_t value = read_offset(offsets.data() + at, width, 0) - base;
      std::memcpy(rebased.data() + at, &value, width); // little-endian
    }
    const std::size_t bytes = rebased.size();
    push_own(std::move(rebased), bytes);
  }

  /// A message can't say that an array begins inside a run, so the run ends are made to count from its first
  /// row.
  void add_runs(const host_array& of, std::int64_t offset, std::int64_t length) {
    const host_array& ends = of.children[0];
    const child_rows runs = rows_pointed_to(of, window_of(of.type, offset, length));
    to_.layout.nodes.push_back({length, 0});
    to_.layout.nodes.push_back({runs.count, 0});
    const auto width = static_cast<std::size_t>(ends.type.byte_width());
    std::vector<std::byte> cut(static_cast<std::size_t>(runs.count) * width);
    for (std::int64_t i = 0; i < runs.count; ++i) {
      const std::int64_t end =
          read_offset(ends.buffers[1].data(), width, ends.offset + runs.first + i) - offset;
      const std::int64_t kept = std::min(end, length);
      std::memcpy(cut.data() + static_cast<std::size_t>(i) * width, &kept, width);
    }
    push({}); // the validity of the run ends
    const std::size_t bytes = cut.size();
    push_own(std::move(cut), bytes);
    const host_array& values = of.children[1];
    add(values, values.offset + runs.first, runs.count);
  }

  encoded_rows& to_;
  const std::shared_ptr<const void>& keepalive_;
};

} // namespace

void encoded_rows::place_body() {
  layout.buffers.clear();
  layout.buffers.reserve(body.size());
  body_bytes = 0;
  for (const body_buffer& buffer : body) {
    layout.buffers.push_back({body_bytes, std::ssize(buffer.bytes)});
    body_bytes = checked_add(body_bytes, static_cast<std::int64_t>(round_up(buffer.bytes.size(), body_unit)),
                             "bytes of a body");
  }
}

encoded_rows encode_rows(std::int64_t rows, std::span<const host_array> arrays,
                         const std::shared_ptr<const void>& keepalive) {
  encoded_rows result;
  result.layout.rows = rows;
  encoder to(result, keepalive);
  for (const host_array& array : arrays) {
    to.add(array, array.offset, array.length);
  }
  result.place_body();
  return result;
}

namespace {

constexpr std::string_view magic = "ARROW1";
constexpr std::string_view front_of_file{"ARROW1\0\0", 8};
constexpr std::size_t copied_bytes = 4096; ///< smaller buffers of a body are written together

/// Whether values contain dictionaries. Deltas of such values can't be read by everybody.
bool has_dictionaries_inside(const host_array& values) {
  return values.type.id() == type_id::dictionary ||
         std::ranges::any_of(values.children, has_dictionaries_inside);
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

} // namespace

message_writer::message_writer(byte_target& target, const schema& described, message_options options,
                               std::string name, thread_pool& pool)
    : target_(target), described_(schema_in_file(described)), options_(std::move(options)),
      name_(std::move(name)), pool_(pool), flat_(encode_schema(described_)) {
  columns_.tree =
      make_tree(described_, schema_table(container::stream, flat_), columns_.dictionaries, version_5);
  written_.resize(columns_.dictionaries.trees.size());
  if (options_.format == container::file) {
    target_.write(bytes_of(front_of_file), nullptr);
  }
  std::vector<std::byte> first;
  append_message(first, flat_);
  put_front(std::move(first));
}

std::vector<encoded_rows> message_writer::encode(std::span<const host_batch> batches, std::int64_t number,
                                                 const std::shared_ptr<const column_stream>& bytes) const {
  std::vector<encoded_rows> encoded(batches.size());
  pool_.run(batches.size(), [&](std::size_t, std::size_t i) {
    try {
      encoded[i] = encode_rows(batches[i].rows, batches[i].arrays, batches[i].keepalive);
    } catch (const error& failure) {
      rethrow(failure, concat(name_, ": batch ", number + static_cast<std::int64_t>(i)));
    }
  });
  if (options_.codec) {
    compress(encoded, bytes.get());
  } else if (bytes != nullptr) {
    stream(encoded.front(), bytes);
  }
  return encoded;
}

void message_writer::write(const host_batch& rows, const encoded_rows& encoded) {
  for (std::size_t i = 0; i < rows.arrays.size(); ++i) {
    write_dictionaries(columns_.tree, columns_.tree.roots[i], rows.arrays[i]);
  }
  put(encoded, {.codec = encoded.codec}, blocks_.batches);
}

void message_writer::write_dictionaries(const column_tree& tree, std::size_t node, const host_array& of) {
  const tree_node& at = tree.nodes[node];
  if (at.dictionary != no_node) {
    write_dictionaries(*columns_.dictionaries.trees[at.dictionary], 0, *of.dictionary);
    write_dictionary(at.dictionary, of.dictionary);
    return;
  }
  std::size_t child = node + 1;
  for (const host_array& array : of.children) {
    write_dictionaries(tree, child, array);
    child = tree.nodes[child].end;
  }
}

void message_writer::write_dictionary(std::size_t number, const std::shared_ptr<const host_array>& values) {
  std::shared_ptr<const host_array>& known = written_[number];
  bool grown = false;
  if (known != nullptr) {
    const host_array& before = *known;
    const bool in_file = options_.format == container::file;
    if (dictionary_cache::is_same(before, *values) || same_rows(before, *values) ||
        (in_file && values->length < before.length && same_rows(before, *values, values->length))) {
      return;
    }
    grown = (in_file || options_.deltas) && values->length > before.length &&
            !has_dictionaries_inside(*values) && same_rows(before, *values, before.length);
    if (in_file && !grown) {
      refuse_change(number);
    }
  }
  host_array rows = *values;
  if (grown) {
    rows.offset += known->length;
    rows.length -= known->length;
    rows.null_count = rows.null_count == 0 ? 0 : column::unknown_nulls;
  }
  encoded_rows encoded;
  try {
    encoded = encode_rows(rows.length, std::span(&rows, 1), values);
    if (options_.codec) {
      compress(std::span(&encoded, 1), nullptr);
    }
  } catch (const error& failure) {
    rethrow(failure, concat(name_, ": ", columns_.dictionaries.trees[number]->root_label));
  }
  put(encoded, {.dictionary = columns_.dictionaries.ids[number], .is_delta = grown, .codec = encoded.codec},
      blocks_.dictionaries);
  known = values;
}

void message_writer::refuse_change(std::size_t number) const {
  std::string column;
  for (const tree_node& node : columns_.tree.nodes) {
    if (node.dictionary == number) {
      column = concat("column '", described_.fields[node.column].name, "': ");
    }
  }
  throw error(
      errc::unsupported,
      concat(name_, ": ", column, "its dictionary changes between batches, and a file holds one, to ",
             "which values may only be added. Write one table of all batches, whose dictionaries are ",
             "united, or a stream (format=\"stream\"), which holds them all"));
}

void message_writer::put(const encoded_rows& encoded, const batch_kind& kind,
                         std::vector<message_block>& blocks) {
  const auto begin = static_cast<std::int64_t>(target_.taken());
  std::vector<std::byte> front;
  append_batch_message(front, encoded.layout, kind, encoded.body_bytes);
  blocks.push_back(
      {.offset = begin,
       .metadata_bytes = checked_cast<std::int32_t>(front.size(), "bytes of a message's metadata"),
       .body_bytes = encoded.body_bytes});
  put_front(std::move(front));
  put_body(encoded);
}

void message_writer::put_front(std::vector<std::byte> bytes) {
  const auto own = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  target_.write(*own, own);
}

void message_writer::put_body(const encoded_rows& encoded) {
  std::vector<std::byte> small;
  const auto put_small = [&] {
    if (!small.empty()) {
      put_front(std::exchange(small, {}));
    }
  };
  for (const body_buffer& buffer : encoded.body) {
    const std::size_t padding = round_up(buffer.bytes.size(), body_unit) - buffer.bytes.size();
    if (buffer.late == nullptr && buffer.bytes.size() <= copied_bytes) {
      small.insert(small.end(), buffer.bytes.begin(), buffer.bytes.end());
    } else {
      put_small();
      if (buffer.late != nullptr) {
        buffer.late->write(target_);
      } else {
        target_.write(buffer.bytes, buffer.owner);
      }
    }
    small.insert(small.end(), padding, std::byte{0});
  }
  put_small();
}

void message_writer::close() {
  std::vector<std::byte> end;
  append_end_of_stream(end);
  if (options_.format == container::file) {
    const std::vector<std::byte> footer = encode_footer(described_, blocks_);
    const auto size = checked_cast<std::int32_t>(footer.size(), "bytes of the footer");
    end.insert(end.end(), footer.begin(), footer.end());
    const auto size_bytes = std::as_bytes(std::span(&size, 1));
    end.insert(end.end(), size_bytes.begin(), size_bytes.end());
    end.insert(end.end(), bytes_of(magic).begin(), bytes_of(magic).end());
  }
  put_front(std::move(end));
}
namespace {

/// A window that is counted until its memory is freed. After that the budget has room for another window.
class counted_window {
public:
  counted_window(std::shared_ptr<std::byte> memory, std::shared_ptr<std::atomic<std::size_t>> alive)
      : memory_(std::move(memory)), alive_(std::move(alive)) {
    ++*alive_;
  }
  counted_window(const counted_window&) = delete;
  counted_window& operator=(const counted_window&) = delete;
  ~counted_window() {
    memory_.reset();
    --*alive_;
  }

  [[nodiscard]] const std::byte* data() const noexcept { return memory_.get(); }

private:
  std::shared_ptr<std::byte> memory_;
  std::shared_ptr<std::atomic<std::size_t>> alive_;
};

/// The windows of a column stream in order, a few of them in memory at a time.
class rising_windows {
public:
  /// @param alive  number of live windows, shared by all streams of one write
  rising_windows(std::shared_ptr<const column_stream> from, thread_pool& pool,
                 std::shared_ptr<std::atomic<std::size_t>> alive)
      : from_(std::move(from)), pool_(pool), alive_(std::move(alive)) {}

  /// Writes bytes of the stream from `place` on. `place` must not be before the one of the last call.
  void write(std::size_t place, std::size_t bytes, byte_target& target) {
    while (bytes != 0) {
      const std::size_t number = place / from_->window_bytes();
      const std::size_t first = place % from_->window_bytes();
      const std::size_t part = std::min(bytes, from_->window_bytes() - first);
      advance_to(number, target);
      target.write({window_->data() + first, part}, window_);
      place += part;
      bytes -= part;
    }
  }

private:
  void advance_to(std::size_t number, byte_target& target) {
    if (window_ != nullptr && number == number_) {
      return;
    }
    window_ = nullptr;
    target.flush(); // an unfinished piece would keep a window alive
    pool_.wait_until([&] { return *alive_ < message_writer::most_windows; });
    window_ = std::make_shared<counted_window>(from_->bring(number), alive_);
    number_ = number;
  }

  std::shared_ptr<const column_stream> from_;
  thread_pool& pool_;
  std::shared_ptr<std::atomic<std::size_t>> alive_;
  std::shared_ptr<counted_window> window_;
  std::size_t number_ = 0;
};

/// A buffer whose bytes are a range of a column stream.
class windowed_bytes final : public late_bytes {
public:
  windowed_bytes(std::shared_ptr<rising_windows> windows, std::size_t place, std::size_t bytes)
      : windows_(std::move(windows)), place_(place), bytes_(bytes) {}

  void write(byte_target& target) override { windows_->write(place_, bytes_, target); }

private:
  std::shared_ptr<rising_windows> windows_;
  std::size_t place_;
  std::size_t bytes_;
};

/// A compressed buffer: the number of decoded bytes, then the parts of its frames. Each part is released when
/// the target takes it.
class bytes_in_parts final : public late_bytes {
public:
  bytes_in_parts(std::int64_t decoded, std::string_view front,
                 std::vector<std::shared_ptr<const packed_memory>> blocks, std::string_view end)
      : front_(sizeof decoded), blocks_(std::move(blocks)), end_(end) {
    std::memcpy(front_.data(), &decoded, sizeof decoded); // little-endian
    const auto more = std::as_bytes(std::span(front));
    front_.insert(front_.end(), more.begin(), more.end());
  }

  [[nodiscard]] std::size_t size() const {
    std::size_t sum = front_.size() + end_.size();
    for (const auto& block : blocks_) {
      sum += block->bytes().size();
    }
    return sum;
  }
  void write(byte_target& target) override {
    const auto front = std::make_shared<const std::vector<std::byte>>(std::move(front_));
    target.write(*front, front);
    for (auto& block : std::exchange(blocks_, {})) {
      const std::span<const std::byte> bytes = block->bytes();
      target.write(bytes, std::exchange(block, nullptr));
    }
    target.write(std::as_bytes(std::span(end_)), nullptr);
  }

private:
  std::vector<std::byte> front_;
  std::vector<std::shared_ptr<const packed_memory>> blocks_;
  std::string_view end_; ///< of the codec, which lives as long as the program
};

/// A buffer that is being compressed.
struct packed_source {
  body_buffer* buffer;
  std::optional<std::size_t> place; ///< position in the stream; nullopt: the values are in memory
  std::vector<std::shared_ptr<const packed_memory>> blocks{};
  bool whole = false; ///< the only block is all of the buffer, with the number of its bytes
};

/// Values of one buffer that become one compressed block.
struct unpacked_block {
  packed_source* of;
  std::span<const std::byte> values;
};

void append_blocks(packed_source& of, std::span<const std::byte> values,
                   std::vector<unpacked_block>& blocks) {
  of.whole = values.size() == of.buffer->bytes.size() && values.size() <= block_codec::block_bytes;
  while (!values.empty()) {
    const std::size_t part = std::min(values.size(), block_codec::block_bytes);
    blocks.push_back({&of, values.first(part)});
    values = values.subspan(part);
  }
}

/// Returns the blocks of the parts of `sources` that are in window `number`. `landed` is that window in host
/// memory.
std::vector<unpacked_block> blocks_in(const column_stream& from, std::size_t number, const std::byte* landed,
                                      std::span<packed_source> sources) {
  const std::size_t begin = number * from.window_bytes();
  const std::size_t end = begin + from.window_bytes();
  std::vector<unpacked_block> blocks;
  for (packed_source& source : sources) {
    const std::size_t place = source.place.value_or(end);
    const std::size_t first = std::max(begin, place);
    const std::size_t last = std::min(end, place + source.buffer->bytes.size());
    if (first < last) {
      append_blocks(source, {landed + (first - begin), last - first}, blocks);
    }
  }
  return blocks;
}

} // namespace

void message_writer::stream(encoded_rows& of, const std::shared_ptr<const column_stream>& bytes) const {
  const auto windows = std::make_shared<rising_windows>(bytes, pool_, alive_);
  for (body_buffer& buffer : of.body) {
    if (!buffer.bytes.empty()) {
      if (const auto place = bytes->place_of(buffer.bytes.data())) {
        buffer.late = std::make_shared<windowed_bytes>(windows, *place, buffer.bytes.size());
      }
    }
  }
}

void message_writer::compress(std::span<encoded_rows> of, const column_stream* bytes) const {
  std::vector<packed_source> sources;
  for (encoded_rows& each : of) {
    for (body_buffer& buffer : each.body) {
      if (!buffer.bytes.empty()) {
        sources.push_back({&buffer, bytes == nullptr ? std::nullopt : bytes->place_of(buffer.bytes.data())});
      }
    }
  }
  std::vector<unpacked_block> blocks;
  for (packed_source& source : sources) {
    if (!source.place) {
      append_blocks(source, source.buffer->bytes, blocks);
    }
  }
  // Each round compresses the blocks in memory and downloads the next window.
  std::shared_ptr<std::byte> landed;
  const std::size_t windows = bytes == nullptr ? 0 : bytes->windows();
  for (std::size_t next = 0;; ++next) {
    const bool more = next < windows;
    const std::size_t others = more ? 1 : 0;
    std::shared_ptr<std::byte> following;
    std::vector<std::shared_ptr<const packed_memory>> packed(blocks.size());
    pool_.run(blocks.size() + others, [&](std::size_t, std::size_t task) {
      if (task < others) {
        following = bytes->bring(next);
        return;
      }
      const unpacked_block& block = blocks[task - others];
      packed[task - others] = block.of->whole ? options_.codec->whole(block.values, options_.charged)
                                              : options_.codec->block(block.values, options_.charged);
    });
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks[i].of->blocks.push_back(std::move(packed[i]));
    }
    if (!more) {
      break;
    }
    landed = std::move(following);
    blocks = blocks_in(*bytes, next, landed.get(), sources);
  }
  for (packed_source& source : sources) {
    body_buffer& buffer = *source.buffer;
    if (source.whole) {
      buffer = {source.blocks.front()->bytes(), source.blocks.front()};
      continue;
    }
    const auto parts =
        std::make_shared<bytes_in_parts>(std::ssize(buffer.bytes), options_.codec->front(),
                                         std::move(source.blocks), options_.codec->end_bytes());
    // Nothing reads these addresses: only the size counts.
    buffer = {{buffer.bytes.data(), parts->size()}, nullptr, parts};
  }
  for (encoded_rows& each : of) {
    each.codec = options_.codec->kind();
    each.place_body();
  }
}

} // namespace saeta::ipc::detail
