#include "saeta/ipc/io/fetch_window.hpp"

#include "saeta/base/error.hpp"

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

/// 128 requests of 4 MiB (docs/decisions/stores.md).
constexpr std::uint64_t most_ahead = std::uint64_t{512} << 20;
constexpr std::uint64_t least_ahead = std::uint64_t{16} << 20;
/// Messages that are fetched together, so that small neighbours share a request.
constexpr std::uint64_t group_bytes = std::uint64_t{16} << 20;
constexpr std::size_t metadata_group = 256;

} // namespace

fetch_window::fetch_window(messages all, std::uint64_t budget_bytes)
    : all_(std::move(all)), most_bytes_(std::clamp(budget_bytes / 2, least_ahead, most_ahead)) {}

void fetch_window::go_on(std::size_t next) {
  for (auto* const list : {&metadata_, &bodies_}) {
    while (!list->empty() && list->front().end <= next) {
      bytes_ -= list->front().bytes;
      list->pop_front();
    }
  }
  bodies_in_place_.erase(bodies_in_place_.begin(), bodies_in_place_.lower_bound(next));
  known_ = std::max(known_, next);
  fetched_ = std::max(fetched_, next);
  try {
    while (fetched_ < all_.count && bytes_ < most_bytes_) {
      fetch_group();
    }
  } catch (const error& failure) {
    fetched_ = all_.count;
    if (failure.code() == errc::closed) {
      throw;
    }
  }
}

void fetch_window::fetch_metadata() {
  std::vector<byte_range> ranges;
  while (known_ < all_.count && ranges.size() < metadata_group) {
    const message message = all_.at(known_++);
    ranges.push_back({message.whole.offset, message.metadata_bytes});
  }
  metadata_.push_back({known_, 0, all_.fetch(ranges)});
}

void fetch_window::fetch_group() {
  std::vector<byte_range> ranges;
  std::uint64_t bytes = 0;
  while (fetched_ < all_.count && bytes < group_bytes) {
    if (all_.ranges == nullptr) {
      bytes += fetch_whole(fetched_, bytes_ + bytes, ranges);
    } else {
      while (known_ < all_.count && known_ < fetched_ + metadata_group) {
        fetch_metadata();
      }
      for (const byte_range& range : ranges_of(fetched_)) {
        ranges.push_back(range);
        bytes += range.bytes;
      }
    }
    ++fetched_;
  }
  bodies_.push_back({fetched_, bytes, all_.fetch(ranges)});
  bytes_ += bytes;
}

std::uint64_t fetch_window::fetch_whole(std::size_t number, std::uint64_t held,
                                        std::vector<byte_range>& ranges) {
  const auto [whole, metadata_bytes] = all_.at(number);
  const std::uint64_t body_bytes = whole.bytes - metadata_bytes;
  auto memory = all_.memory == nullptr || body_bytes == 0 ? nullptr : all_.memory(body_bytes, held);
  if (memory == nullptr) {
    ranges.push_back(whole);
    return whole.bytes;
  }
  ranges.push_back({whole.offset, metadata_bytes});
  ranges.push_back({whole.offset + metadata_bytes, body_bytes, std::move(memory)});
  bodies_in_place_.emplace(number, ranges.back());
  return whole.bytes;
}

std::shared_ptr<std::byte> fetch_window::take(std::size_t number, std::uint64_t body, std::uint64_t bytes) {
  const auto found = bodies_in_place_.extract(number);
  const bool known = !found.empty() && found.mapped().offset == body && found.mapped().bytes == bytes;
  return known ? found.mapped().memory : nullptr;
}

std::vector<byte_range> fetch_window::ranges_of(std::size_t number) {
  const auto [whole, metadata_bytes] = all_.at(number);
  const std::pair sizes(metadata_bytes, whole.bytes);
  const auto known = layouts_.find(sizes);
  if (!all_.alike || known == layouts_.end()) {
    std::vector<byte_range> ranges = all_.ranges(number);
    std::vector<byte_range>& kept = layouts_[sizes] = ranges;
    for (byte_range& range : kept) {
      range.offset -= whole.offset;
    }
    return ranges;
  }
  std::vector<byte_range> ranges = known->second;
  for (byte_range& range : ranges) {
    range.offset += whole.offset;
  }
  return ranges;
}

} // namespace saeta::ipc::detail
