#include "saeta/ipc/codec/packed_bodies.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/ipc/input_error.hpp"

#include <algorithm>
#include <utility>

namespace saeta::ipc::detail {

/// The reader of one thread. It keeps its position in the buffer that it read last.
class packed_bodies::reader final : public ordered_reader {
public:
  explicit reader(const packed_bodies& of) : of_(of), decoder_(of.from_) {}

  void read(std::uint64_t position, std::span<std::byte> target) override {
    named([&] {
      if (current_ == nullptr || position < current_->at || position - current_->at >= current_->bytes) {
        finish_current();
        current_ = &next(position);
        begin();
      }
      if (position - current_->at < decoder_.position()) {
        begin();
      }
      decoder_.skip(position - current_->at - decoder_.position());
      if (target.size() > current_->bytes - decoder_.position()) {
        throw error(errc::format, concat(target.size(), " bytes from byte ", decoder_.position(),
                                         " exceed the ", current_->bytes, " decoded bytes"));
      }
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

  void begin() {
    decoder_.begin(*current_, &of_.seen_[static_cast<std::size_t>(current_ - of_.buffers_.data())]);
  }

  void finish_current() {
    if (current_ != nullptr) {
      decoder_.finish();
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
      rethrow(failure, of_.label_(std::exchange(current_, nullptr)->at));
    }
  }

  const packed_bodies& of_;
  buffer_decoder decoder_;
  const packed_buffer* current_ = nullptr;
  std::size_t last_ = 0; ///< index of the buffer that was begun last
};

packed_bodies::packed_bodies(const scatter_source& from, labels label)
    : from_(from), label_(std::move(label)), all_(from) {
  all_.ordered_from = from.bytes;
  all_.in_order = [this]() -> std::unique_ptr<ordered_reader> { return std::make_unique<reader>(*this); };
  all_.read = [this](std::uint64_t position, std::span<std::byte> target) {
    if (position < from_.bytes) {
      return from_.read(position, target);
    }
    reader(*this).read(position, target);
  };
}

std::size_t packed_bodies::find(std::uint64_t position) const {
  const auto after = std::ranges::upper_bound(buffers_, position, {}, &packed_buffer::at);
  if (after == buffers_.begin() || position - std::prev(after)->at >= std::prev(after)->bytes) {
    throw error(errc::format, concat("no decoded buffer contains byte ", position));
  }
  return static_cast<std::size_t>(after - buffers_.begin()) - 1;
}

bool packed_bodies::matches_assumption() const noexcept {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const packed_buffer& each = buffers_[i];
    if (each.assumed >= 0 && (seen_[i].first != 0 || seen_[i].last != each.assumed)) {
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
    for (packed_buffer& each : packed) {
      each.at = checked_add(each.at, base, "decoded bytes");
      buffers_.push_back(each);
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

} // namespace saeta::ipc::detail
