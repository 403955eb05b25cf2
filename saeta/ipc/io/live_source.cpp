// A stream that is still being sent, as a source: a pipe, a socket, an object that can't seek.
//
// What      Reads forward and only the requested bytes: bytes behind the end of the Arrow stream stay unread.
//           The memory of a message part grows as bytes arrive, so a false length takes no memory. Bytes are
//           kept until `forget_before`, because a batch that a budget refused is decoded again.
// Owner     Owns the memory of the bytes that were read and not forgotten: one message, and the dictionaries
//           before the first batch. It is not charged to a budget, like the body of a batch while its columns
//           are copied.
// Thread    One.
// Failure   Exceptions of the function. Bytes that arrived before are kept, so a read continues after an
//           interrupt.
#include "saeta/base/error.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/io/source.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>

namespace saeta::ipc::detail {
namespace {

constexpr std::size_t most_at_once = std::size_t{1} << 20; ///< bytes per call

class live_source final : public byte_source {
public:
  using function = std::function<std::size_t(std::span<std::byte>)>;
  live_source(std::string name, function read_some)
      : byte_source(std::move(name), 0), read_some_(std::move(read_some)) {}

  [[nodiscard]] std::uint64_t size() const noexcept override { return came_; }
  [[nodiscard]] std::uint64_t available(std::uint64_t offset, std::uint64_t most, bool kept) const override;
  void read_at(std::uint64_t offset, std::span<std::byte> target) const override;
  void forget_before(std::uint64_t offset) const override;
  [[nodiscard]] bool live() const noexcept override { return true; }

private:
  struct freed {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  /// A part of a message: the bytes of one request.
  struct part {
    std::uint64_t offset;
    std::size_t filled = 0;
    std::size_t room = 0;
    std::unique_ptr<std::byte, freed> bytes = {};
  };
  void bring(part& to, std::uint64_t wanted) const;
  void drop(std::uint64_t bytes) const;
  [[nodiscard]] std::size_t read_some(std::span<std::byte> target) const;

  function read_some_;
  mutable std::deque<part> parts_;
  mutable std::uint64_t came_ = 0;
  mutable bool ended_ = false;
};

} // namespace

source live_source_of(std::string name, std::function<std::size_t(std::span<std::byte>)> read_some) {
  return std::make_shared<live_source>(std::move(name), std::move(read_some));
}

std::size_t live_source::read_some(std::span<std::byte> target) const {
  if (ended_) {
    return 0;
  }
  check_interrupt();
  const std::size_t got = read_some_(target.first(std::min(target.size(), most_at_once)));
  ended_ = got == 0;
  came_ += got;
  return got;
}

std::uint64_t live_source::available(std::uint64_t offset, std::uint64_t most, bool kept) const {
  const bool begun = !parts_.empty() && parts_.back().offset == offset;
  if (!begun && offset + most <= came_) {
    return most;
  }
  if (!kept) {
    drop(offset + most - came_);
    return std::min(most, came_ - offset);
  }
  if (!begun) {
    parts_.push_back({.offset = came_});
  }
  part& last = parts_.back();
  bring(last, most);
  return std::min<std::uint64_t>(last.filled, most);
}

void live_source::bring(part& to, std::uint64_t wanted) const {
  while (to.filled < wanted) {
    if (to.filled == to.room) {
      const auto room = static_cast<std::size_t>(
          std::min<std::uint64_t>(wanted, std::max<std::uint64_t>(most_at_once, std::uint64_t{2} * to.room)));
      void* const grown = std::realloc(to.bytes.get(), room);
      if (grown == nullptr) {
        throw error(errc::out_of_memory, concat(name(), ": no host memory for ", room, " of ", wanted,
                                                " bytes at offset ", to.offset));
      }
      static_cast<void>(to.bytes.release());
      to.bytes.reset(static_cast<std::byte*>(grown));
      to.room = room;
    }
    const std::size_t got = read_some({to.bytes.get() + to.filled, to.room - to.filled});
    if (got == 0) {
      return;
    }
    to.filled += got;
  }
}

void live_source::drop(std::uint64_t bytes) const {
  std::array<std::byte, std::size_t{64} << 10> unwanted{};
  while (bytes != 0) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, unwanted.size()));
    const std::size_t got = read_some(std::span(unwanted).first(step));
    if (got == 0) {
      return;
    }
    bytes -= got;
  }
}

void live_source::read_at(std::uint64_t offset, std::span<std::byte> target) const {
  if (target.empty()) {
    return;
  }
  const auto found = std::ranges::find_if(parts_, [&](const part& each) {
    return each.offset <= offset && offset - each.offset < each.filled &&
           target.size() <= each.filled - (offset - each.offset);
  });
  if (found == parts_.end()) {
    throw error(errc::io, concat(name(), ": ", target.size(), " bytes at offset ", offset,
                                 " were not requested, or were already dropped"));
  }
  std::copy_n(found->bytes.get() + (offset - found->offset), target.size(), target.begin());
}

void live_source::forget_before(std::uint64_t offset) const {
  while (!parts_.empty() && parts_.front().offset < offset) {
    parts_.pop_front();
  }
}

} // namespace saeta::ipc::detail
