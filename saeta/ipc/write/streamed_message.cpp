#include "saeta/ipc/write/streamed_message.hpp"

#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/message_metadata.hpp"
#include "saeta/ipc/write/streamed_buffer.hpp"
#include "saeta/ipc/write/writer_codec.hpp"

#include <arrow/buffer.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>

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

constexpr std::int64_t body_alignment = 8;

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

/// A part of a window. It keeps the window alive.
class window_part final : public arrow::Buffer {
public:
  window_part(std::shared_ptr<counted_window> window, std::size_t first, std::int64_t bytes)
      : arrow::Buffer(reinterpret_cast<const std::uint8_t*>(window->data()) + first, bytes),
        window_(std::move(window)) {}

private:
  std::shared_ptr<counted_window> window_;
};

/// The windows of a column stream in order, a few of them in memory at a time.
class rising_windows {
public:
  /// @param alive  number of live windows, shared by all streams of one write
  rising_windows(std::shared_ptr<const column_stream> from, write_team& team,
                 std::shared_ptr<std::atomic<std::size_t>> alive)
      : from_(std::move(from)), team_(team), alive_(std::move(alive)) {}

  /// Writes bytes of the stream from `place` on. `place` must not be before the one of the last call.
  void write(std::size_t place, std::size_t bytes, arrow::io::OutputStream& target) {
    while (bytes != 0) {
      const std::size_t number = place / from_->window_bytes();
      const std::size_t first = place % from_->window_bytes();
      const std::size_t part = std::min(bytes, from_->window_bytes() - first);
      advance_to(number, target);
      const std::shared_ptr<arrow::Buffer> made =
          std::make_shared<window_part>(window_, first, static_cast<std::int64_t>(part));
      check(target.Write(made), "window");
      place += part;
      bytes -= part;
    }
  }

private:
  void advance_to(std::size_t number, arrow::io::OutputStream& target) {
    if (window_ != nullptr && number == number_) {
      return;
    }
    window_ = nullptr;
    check(target.Flush(), "window"); // an unfinished piece would keep a window alive
    team_.wait_until([&] { return *alive_ < streamed_messages::most_windows; });
    window_ = std::make_shared<counted_window>(from_->bring(number), alive_);
    number_ = number;
  }

  std::shared_ptr<const column_stream> from_;
  write_team& team_;
  std::shared_ptr<std::atomic<std::size_t>> alive_;
  std::shared_ptr<counted_window> window_;
  std::size_t number_ = 0;
};

/// A buffer whose bytes are a range of a column stream.
class windowed_buffer final : public streamed_buffer {
public:
  windowed_buffer(std::shared_ptr<rising_windows> windows, std::size_t place, std::int64_t bytes)
      : streamed_buffer(bytes), windows_(std::move(windows)), place_(place) {}

  arrow::Status pass_to(arrow::io::OutputStream& target) override {
    return run_guarded([&] { windows_->write(place_, static_cast<std::size_t>(size()), target); });
  }

private:
  std::shared_ptr<rising_windows> windows_;
  std::size_t place_;
};

/// A compressed buffer in parts. Each part is released when the target takes it.
class buffer_in_parts final : public streamed_buffer {
public:
  explicit buffer_in_parts(std::vector<std::shared_ptr<arrow::Buffer>> parts)
      : streamed_buffer(bytes_of(parts)), parts_(std::move(parts)) {}

  arrow::Status pass_to(arrow::io::OutputStream& target) override {
    for (auto& each : std::exchange(parts_, {})) {
      ARROW_RETURN_NOT_OK(target.Write(std::exchange(each, nullptr)));
    }
    return arrow::Status::OK();
  }

private:
  static std::int64_t bytes_of(const std::vector<std::shared_ptr<arrow::Buffer>>& parts) {
    std::int64_t sum = 0;
    for (const auto& each : parts) {
      sum += each->size();
    }
    return sum;
  }

  std::vector<std::shared_ptr<arrow::Buffer>> parts_;
};

/// A buffer that is being compressed.
struct packed_source {
  std::span<const std::byte> values;
  std::optional<std::size_t> place; ///< position in the stream; nullopt: the values are in memory
  std::vector<std::shared_ptr<arrow::Buffer>> blocks{};
};

/// Values of one buffer that become one compressed block.
struct unpacked_block {
  packed_source* of;
  std::span<const std::byte> values;
};

void compress_blocks(packed_source& of, std::span<const std::byte> values,
                     std::vector<unpacked_block>& blocks) {
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
  for (packed_source& each : sources) {
    if (each.place && *each.place<end&& * each.place + each.values.size()> begin) {
      const std::size_t first = std::max(begin, *each.place);
      const std::size_t last = std::min(end, *each.place + each.values.size());
      compress_blocks(each, {landed + (first - begin), last - first}, blocks);
    }
  }
  return blocks;
}

std::shared_ptr<arrow::Buffer> buffer_of_text(std::string text) {
  return arrow::Buffer::FromString(std::move(text));
}

/// Makes a compressed buffer in the IPC format: the number of decoded bytes, then the frames.
std::shared_ptr<arrow::Buffer> join_parts(packed_source& of, const block_codec& codec) {
  const auto bytes = static_cast<std::int64_t>(of.values.size());
  std::string front(sizeof bytes, '\0');
  std::memcpy(front.data(), &bytes, sizeof bytes); // little-endian
  front.append(codec.front());
  auto parts = std::move(of.blocks);
  parts.insert(parts.begin(), buffer_of_text(std::move(front)));
  if (!codec.end_bytes().empty()) {
    parts.push_back(buffer_of_text(std::string(codec.end_bytes())));
  }
  return std::make_shared<buffer_in_parts>(std::move(parts));
}

} // namespace

arrow::ipc::IpcPayload streamed_messages::encode(const arrow::RecordBatch& rows, std::int64_t number,
                                                 const std::shared_ptr<const column_stream>& bytes) const {
  return codec_ == nullptr ? encode_plain(rows, number, bytes) : encode_compressed(rows, number, bytes.get());
}

arrow::ipc::IpcPayload
streamed_messages::encode_plain(const arrow::RecordBatch& rows, std::int64_t number,
                                const std::shared_ptr<const column_stream>& bytes) const {
  auto made = messages_.encode(rows, number);
  if (bytes == nullptr) {
    return made;
  }
  const auto windows = std::make_shared<rising_windows>(bytes, team_, alive_);
  for (auto& each : made.body_buffers) {
    if (each != nullptr && each->size() != 0) {
      if (const auto place = bytes->place_of(each->data())) {
        each = std::make_shared<windowed_buffer>(windows, *place, each->size());
      }
    }
  }
  return made;
}

arrow::ipc::IpcPayload streamed_messages::encode_compressed(const arrow::RecordBatch& rows,
                                                            std::int64_t number,
                                                            const column_stream* bytes) const {
  const auto plain = messages_.encode(rows, number, nullptr);
  std::vector<packed_source> sources;
  std::vector<unpacked_block> blocks;
  for (const auto& each : plain.body_buffers) {
    if (each != nullptr && each->size() != 0) {
      sources.push_back({std::as_bytes(std::span(each->data(), static_cast<std::size_t>(each->size()))),
                         bytes == nullptr ? std::nullopt : bytes->place_of(each->data())});
    }
  }
  for (packed_source& each : sources) {
    if (!each.place) {
      compress_blocks(each, each.values, blocks);
    }
  }
  // Each round compresses the blocks in memory and downloads the next window.
  std::shared_ptr<std::byte> landed;
  const std::size_t windows = bytes == nullptr ? 0 : bytes->windows();
  for (std::size_t next = 0;; ++next) {
    const bool more = next < windows;
    const std::size_t others = more ? 1 : 0;
    std::shared_ptr<std::byte> following;
    std::vector<std::shared_ptr<arrow::Buffer>> packed(blocks.size());
    team_.run(blocks.size() + others, [&](std::size_t task) {
      if (task < others) {
        following = bytes->bring(next);
      } else {
        packed[task - others] = codec_->block(blocks[task - others].values, pool_);
      }
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
  auto made =
      messages_.encode(rows, number, std::make_shared<writer_codec>(codec_, writer_codec::output::empty));
  std::vector<buffer_place> places;
  std::int64_t body_bytes = 0;
  auto source = sources.begin();
  for (auto& each : made.body_buffers) {
    if (each != nullptr && each->size() != 0) {
      each = join_parts(*source++, *codec_);
    }
    const std::int64_t size = each == nullptr ? 0 : each->size();
    places.push_back({body_bytes, size});
    body_bytes += (size + body_alignment - 1) / body_alignment * body_alignment;
  }
  if (body_bytes != 0) {
    auto metadata = take(arrow::Buffer::Copy(made.metadata, arrow::default_cpu_memory_manager()), "metadata");
    place_buffers(
        {reinterpret_cast<std::byte*>(metadata->mutable_data()), static_cast<std::size_t>(metadata->size())},
        places, body_bytes);
    made.metadata = std::move(metadata);
    made.body_length = body_bytes;
  }
  return made;
}

} // namespace saeta::ipc::detail
