#include "saeta/ipc/codec/batch_decoders.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/transfer/host_array.hpp"

#include <algorithm>
#include <array>

namespace saeta::ipc::detail {
namespace {

/// Bytes before the position that are always kept: more than an offset.
constexpr std::size_t tail_bytes = 64;
/// Bytes that are skipped between two looks for an interrupt: some milliseconds.
constexpr std::uint64_t most_skipped = 4u << 20;

} // namespace

part_decoder::part_decoder(const scatter_source& from, const packed_buffer& of,
                           std::shared_ptr<budget> charged, std::string label)
    : of_(of), label_(std::move(label)), decoder_(from), charged_to_(std::move(charged)) {
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
  if (!std::exchange(begun_, false)) {
    return; // no part has values of it
  }
  try {
    decoder_.finish();
  } catch (const error& failure) {
    rethrow(failure, label_);
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

part_decoder& batch_decoders::at(std::size_t number, const packed_buffer& of,
                                 const std::function<std::string()>& label) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<part_decoder>& buffer = buffers_[number];
  if (buffer == nullptr) {
    buffer = std::make_unique<part_decoder>(from_, of, charged_, label());
  }
  return *buffer;
}

void batch_decoders::finish() {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, buffer] : buffers_) {
    if (buffer != nullptr) {
      buffer->finish();
    }
  }
}

} // namespace saeta::ipc::detail
