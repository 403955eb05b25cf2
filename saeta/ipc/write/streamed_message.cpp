#include "saeta/ipc/write/message_writer.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace saeta::ipc::detail {
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
