#include "saeta/ipc/codec/decoded_buffers.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/read/piece_table.hpp"
#include "saeta/observe/read_clock.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace saeta::ipc::detail {
namespace {

/// Compressed bytes per read: few enough that they are still in the processor's cache when they are decoded.
/// Reading whole buffers first made LZ4 a third slower. It made ZSTD no faster, although ZSTD then needs no
/// window of its own.
constexpr std::size_t most_input = 128u << 10;
constexpr std::size_t least_input = 64u << 10;
constexpr std::size_t passed_bytes = 64u << 10;

} // namespace

const std::uint64_t buffer_decoder::most_input_memory = most_input + passed_bytes;

buffer_decoder::buffer_decoder(const scatter_source& from) : from_(from) {}
buffer_decoder::~buffer_decoder() = default;

void buffer_decoder::begin(const packed_buffer& of, seen_borders* seen) {
  of_ = of;
  seen_ = of.width == 0 ? nullptr : seen;
  position_ = 0;
  fetched_ = 0;
  left_ = {};
  decoder_ = nullptr;
  if (of.codec == body_codec::none) {
    return;
  }
  const bool lz4 = of.codec == body_codec::lz4;
  auto& kept = decoders_[lz4 ? 0 : 1];
  if (kept == nullptr) {
    kept = lz4 ? make_lz4_decoder() : make_zstd_decoder();
  } else {
    kept->reset();
  }
  decoder_ = kept.get();
}

/// Small buffers lie side by side, so the bytes that follow are read as well.
void buffer_decoder::refill() {
  const auto bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(of_.packed_bytes - fetched_, most_input));
  const std::uint64_t at = of_.source + fetched_;
  if (at < held_at_ || at - held_at_ > held_ || bytes > held_ - (at - held_at_)) {
    const auto ahead = static_cast<std::size_t>(
        std::max<std::uint64_t>(bytes, std::min<std::uint64_t>(least_input, from_.bytes - at)));
    if (room_ < ahead) {
      input_ = std::make_unique_for_overwrite<std::byte[]>(ahead);
      room_ = ahead;
    }
    held_ = 0; // the read may fail
    from_.read(at, {input_.get(), ahead});
    held_at_ = at;
    held_ = ahead;
  }
  fetched_ += bytes;
  left_ = {input_.get() + (at - held_at_), bytes};
}

/// Returns the number of decoded bytes. It may be 0 while input is consumed.
std::size_t buffer_decoder::decode(std::span<std::byte> target) {
  if (left_.empty() && fetched_ != of_.packed_bytes) {
    refill();
  }
  const frame_decoder::part done = [&] {
    const timed_part timed(read_part::decode);
    return decoder_->decode(left_, target);
  }();
  if (done.read == 0 && done.made == 0) {
    throw error(errc::format, concat("its ", of_.packed_bytes, " bytes of ", name_of(of_.codec),
                                     " decode to ", position_, " bytes, the buffer claims ", of_.bytes));
  }
  left_ = left_.subspan(done.read);
  return done.made;
}

void buffer_decoder::note(std::span<const std::byte> bytes) const {
  const auto take_number = [&](std::uint64_t at, std::int64_t& number) {
    // A number may be split between two calls.
    for (std::uint64_t i = 0; i < of_.width; ++i) {
      if (at + i >= position_ && at + i - position_ < bytes.size()) {
        std::memcpy(reinterpret_cast<std::byte*>(&number) + i, &bytes[at + i - position_], 1);
      }
    }
  };
  if (seen_ != nullptr) {
    take_number(of_.first_at, seen_->first);
    take_number(of_.last_at, seen_->last);
  }
}

void buffer_decoder::read(std::span<std::byte> target) {
  if (decoder_ == nullptr) {
    from_.read(of_.source + position_, target);
    note(target);
    position_ += target.size();
    return;
  }
  while (!target.empty()) {
    const std::size_t bytes = decode(target);
    note(target.first(bytes));
    position_ += bytes;
    target = target.subspan(bytes);
  }
}

void buffer_decoder::skip(std::uint64_t bytes) {
  if (decoder_ == nullptr && seen_ == nullptr) {
    position_ += bytes;
    return;
  }
  if (passed_ == nullptr && bytes != 0) {
    passed_ = std::make_unique_for_overwrite<std::byte[]>(passed_bytes);
  }
  while (bytes != 0) {
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, passed_bytes));
    read({passed_.get(), some});
    bytes -= some;
  }
}

void buffer_decoder::finish() {
  skip(of_.bytes - position_);
  // The remaining input may only end the frames. It must not decode to further bytes.
  while (decoder_ != nullptr && (!decoder_->finished() || !left_.empty() || fetched_ != of_.packed_bytes)) {
    std::byte more{};
    if (decode({&more, 1}) != 0) {
      throw error(errc::format,
                  concat("its ", of_.packed_bytes, " bytes of ", name_of(of_.codec),
                         " decode to more than the ", of_.bytes, " bytes that the buffer claims"));
    }
  }
}

std::uint64_t buffer_decoder::memory() const {
  return room_ + (passed_ == nullptr ? 0 : passed_bytes) + (decoder_ == nullptr ? 0 : decoder_->memory());
}

/// The reader of one thread. It keeps its position in the buffer that it read last.
class packed_bodies::reader final : public ordered_reader {
public:
  /// @param forward  whether reads go forward, so that those of parts go on where the part before it ended
  explicit reader(const packed_bodies& of, bool forward) : of_(of), forward_(forward), decoder_(of.from_) {}

  void read(std::uint64_t position, std::span<std::byte> target) override {
    named([&] {
      if (current_ == nullptr || position < current_->at || position - current_->at >= current_->bytes) {
        finish_current();
        current_ = &next(position);
        begin();
      }
      const std::uint64_t first = position - current_->at;
      if (target.size() > current_->bytes - first) {
        throw error(errc::format, concat(target.size(), " bytes from byte ", first, " exceed the ",
                                         current_->bytes, " decoded bytes"));
      }
      if (in_parts()) {
        return current_->part->read(first, target);
      }
      if (first < decoder_.position()) {
        begin();
      }
      decoder_.skip(first - decoder_.position());
      decoder_.read(target);
    });
  }

  void finish() override {
    named([&] { finish_current(); });
  }

private:
  /// Returns the buffer that contains the position. Most often it is the one after the last.
  const packed_buffer& next(std::uint64_t position) {
    const auto holds = [&](std::size_t i) {
      return i < of_.buffers_.size() && position >= of_.buffers_[i].at &&
             position - of_.buffers_[i].at < of_.buffers_[i].bytes;
    };
    const std::size_t found = holds(last_ + 1) ? last_ + 1 : of_.find(position);
    last_ = found;
    return of_.buffers_[found];
  }

  [[nodiscard]] bool in_parts() const noexcept { return forward_ && current_->part != nullptr; }
  void begin() {
    if (in_parts()) {
      return;
    }
    decoder_.begin(*current_, &of_.seen_[last_]);
  }

  void finish_current() {
    if (current_ != nullptr) {
      if (!in_parts()) {
        decoder_.finish();
      }
      current_ = nullptr;
    }
  }

  template <class Action>
  void named(Action action) {
    try {
      action();
    } catch (const error& failure) {
      if (current_ == nullptr) {
        throw;
      }
      current_ = nullptr;
      rethrow(failure, of_.label(last_));
    }
  }

  const packed_bodies& of_;
  bool forward_;
  buffer_decoder decoder_;
  const packed_buffer* current_ = nullptr;
  std::size_t last_ = 0; ///< index of the buffer that was begun last
};

packed_bodies::packed_bodies(const scatter_source& from) : from_(from), all_(from) {
  all_.ordered_from = from.bytes;
  all_.in_order = [this]() -> std::unique_ptr<ordered_reader> {
    return std::make_unique<reader>(*this, true);
  };
  all_.read = [this](std::uint64_t position, std::span<std::byte> target) {
    if (position < from_.bytes) {
      return from_.read(position, target);
    }
    reader(*this, false).read(position, target);
  };
}

std::size_t packed_bodies::find(std::uint64_t position) const {
  const auto after = std::ranges::upper_bound(buffers_, position, {}, &packed_buffer::at);
  if (after == buffers_.begin() || position - std::prev(after)->at >= std::prev(after)->bytes) {
    throw error(errc::format, concat("no decoded buffer contains byte ", position));
  }
  return static_cast<std::size_t>(after - buffers_.begin()) - 1;
}

std::string packed_bodies::label(std::size_t index) const {
  const auto& [table, piece] = pieces_[index];
  return concat(table->place(piece), ": ", table->tree->label(buffers_[index].node));
}

bool packed_bodies::matches_assumption() const noexcept {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const packed_buffer& buffer = buffers_[i];
    if (buffer.assumed >= 0 && (seen_[i].first != 0 || seen_[i].last != buffer.assumed)) {
      return false;
    }
  }
  return true;
}

void packed_bodies::place(piece_table& pieces) {
  constexpr std::uint64_t alignment = 64; // of positions in a message
  for (std::size_t piece = 0; piece < pieces.messages.size(); ++piece) {
    auto& packed = pieces.packed[piece];
    if (packed.empty()) {
      continue;
    }
    const std::uint64_t base =
        checked_add(round_up(all_.bytes, alignment), scatter_source::ordered_gap, "decoded bytes");
    for (packed_buffer& buffer : packed) {
      buffer.at = checked_add(buffer.at, base, "decoded bytes");
      buffers_.push_back(buffer);
      pieces_.emplace_back(&pieces, piece);
    }
    all_.bytes = checked_add(packed.back().at, packed.back().bytes, "decoded bytes");
    for (std::size_t node = 0; node < pieces.tree->nodes.size(); ++node) {
      for (std::uint64_t& at : pieces.span(piece, node).at) {
        at += base;
      }
    }
    for (std::size_t i = 0; !pieces.variadic.empty() && i < pieces.variadic[piece].size(); ++i) {
      pieces.variadic[piece][i].at += base;
    }
    packed = {};
  }
  seen_.resize(buffers_.size());
}
namespace {

/// Bytes before the position that are always kept: more than an offset.
constexpr std::size_t tail_bytes = 64;
/// Bytes that are skipped between two looks for an interrupt: some milliseconds.
constexpr std::uint64_t most_skipped = 4u << 20;

} // namespace

part_decoder::part_decoder(const scatter_source& from, const packed_buffer& of,
                           std::shared_ptr<budget> charged)
    : of_(of), decoder_(from), charged_to_(std::move(charged)) {
  if (of.codec == body_codec::none) {
    return;
  }
  std::array<std::byte, sizeof(std::uint64_t)> bytes{};
  expected_ = buffer_decoder::most_input_memory +
              decoder_memory(of.codec, of.packed_bytes, [&](std::uint64_t at, std::size_t count) {
                from.read(of.source + at, std::span(bytes).first(count));
                return std::span<const std::byte>(bytes).first(count);
              });
  charge(memory_of_decoder());
}

/// A codec allocates for its largest blocks, and touches what the values of the buffer need.
std::uint64_t part_decoder::memory_of_decoder() {
  constexpr std::uint64_t besides = 512u << 10;
  const std::uint64_t touched = of_.codec == body_codec::none ? 0 : 2 * of_.bytes + besides;
  return std::min(std::max(expected_, decoder_.memory()), touched);
}

part_decoder::~part_decoder() { charged_to_->refund(charged_); }

void part_decoder::charge(std::uint64_t bytes) {
  if (bytes > charged_) {
    if (auto refused = charged_to_->charge_or_refuse(bytes - charged_)) {
      throw error(*std::move(refused));
    }
  } else {
    charged_to_->refund(charged_ - bytes);
  }
  charged_ = bytes;
}

/// Runs an action on the decoder. If it fails, the next one begins anew.
template <class Action>
void part_decoder::run(const Action& action) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(begun_, false)) {
    begin();
  }
  action();
  charge(memory_of_decoder() + kept_.capacity());
  begun_ = true;
}

seen_borders part_decoder::borders(const packed_buffer& of) {
  seen_borders offsets;
  run([&] {
    go_to(of.first_at);
    keep_to(of.last_at + of.width);
    const auto number = [&](std::uint64_t at) {
      return read_offset(&kept_[static_cast<std::size_t>(at - kept_from())], of.width, 0);
    };
    offsets = {number(of.first_at), number(of.last_at)};
  });
  return offsets;
}

void part_decoder::read(std::uint64_t position, std::span<std::byte> target) {
  run([&] {
    go_to(position);
    const auto kept = std::span(kept_).subspan(static_cast<std::size_t>(position - kept_from()));
    const std::size_t known = std::min(kept.size(), target.size());
    std::ranges::copy(kept.first(known), target.begin());
    const std::span<std::byte> rest = target.subspan(known);
    decoder_.read(rest);
    if (rest.size() >= tail_bytes) {
      kept_.assign(rest.end() - tail_bytes, rest.end());
    } else {
      kept_.insert(kept_.end(), rest.begin(), rest.end());
      drop_before(position + target.size());
    }
  });
}

void part_decoder::finish() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(begun_, false)) { // else no part has values of it
    decoder_.finish();
  }
}

void part_decoder::begin() {
  decoder_.begin(of_);
  kept_.clear();
}

/// Afterwards the byte at the position is kept, or is the next one that is decoded.
void part_decoder::go_to(std::uint64_t position) {
  if (position < kept_from()) {
    begin();
  }
  while (position > decoder_.position()) {
    check_interrupt(); // the whole batch may be decoded again
    kept_.clear();
    decoder_.skip(std::min(position - decoder_.position(), most_skipped));
  }
}

/// Decodes up to `end`, and keeps these bytes.
void part_decoder::keep_to(std::uint64_t end) {
  if (end <= decoder_.position()) {
    return;
  }
  const std::size_t known = kept_.size();
  const std::size_t all = known + static_cast<std::size_t>(end - decoder_.position());
  charge(memory_of_decoder() + std::max(all, kept_.capacity()));
  kept_.reserve(all);
  kept_.resize(all);
  decoder_.read(std::span(kept_).subspan(known));
}

/// Forgets bytes that were read, except for the tail. Moving the others is worthwhile only for many of them.
void part_decoder::drop_before(std::uint64_t end) {
  const std::size_t read = kept_.size() - static_cast<std::size_t>(decoder_.position() - end);
  if (read > tail_bytes && read - tail_bytes > kept_.size() / 2) {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(read - tail_bytes));
  }
}

packed_claim batch_decoders::claim(std::size_t number, const std::function<packed_claim()>& read) {
  const std::lock_guard lock(mutex_);
  const auto known = claims_.find(number);
  return known != claims_.end() ? known->second : claims_.emplace(number, read()).first->second;
}

part_decoder& batch_decoders::at(std::size_t number, const packed_buffer& of) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<part_decoder>& buffer = buffers_[number];
  if (buffer == nullptr) {
    buffer = std::make_unique<part_decoder>(from_, of, charged_);
  }
  return *buffer;
}

void batch_decoders::finish(const std::function<std::string(std::size_t node)>& label) {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, buffer] : buffers_) {
    try {
      if (buffer != nullptr) {
        buffer->finish();
      }
    } catch (const error& failure) {
      rethrow(failure, label(buffer->node()));
    }
  }
}

} // namespace saeta::ipc::detail
