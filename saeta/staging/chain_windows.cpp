#include "saeta/staging/chain_windows.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace saeta {
namespace {

std::vector<chain_begin> find_chain_begins(const chunk_cutter& cutter, chunk_cursor at) {
  std::vector<chain_begin> begins;
  cut_chunk chunk;
  while (!cutter.done(at)) {
    if (cutter.begins_chain(at)) {
      begins.push_back({at});
    }
    at = cutter.cut(at, chunk);
    begins.back().bytes += chunk.read;
  }
  return begins;
}

} // namespace

chain_windows::chain_windows(const chunk_cutter& cutter, std::size_t threads, chunk_cursor from)
    : cutter_(cutter), begins_(find_chain_begins(cutter, from)), size_(32 * threads) {}

std::size_t chain_windows::open() {
  std::erase_if(chains_, [](const chunk_chain& chain) { return chain.done; });
  while (chains_.size() < size_ && next_ < begins_.size()) {
    const chain_begin& begin = begins_[next_++];
    chains_.push_back({.at = begin.at, .bytes = begin.bytes});
  }
  std::ranges::stable_sort(chains_, std::greater(), &chunk_chain::bytes);
  last_ = clock::time_point();
  return chains_.size();
}

void chain_windows::close() noexcept {
  if (clock::now() < last_.load() && next_ < begins_.size()) { // the window ended early: too few chains
    size_ *= 2;
  }
}

std::unique_ptr<ordered_reader> chain_windows::take_idle() {
  const std::lock_guard lock(idle_mutex_);
  if (idle_.empty()) {
    return nullptr;
  }
  std::unique_ptr<ordered_reader> taken = std::move(idle_.back());
  idle_.pop_back();
  return taken;
}

void chain_windows::keep_idle(std::unique_ptr<ordered_reader> reader) {
  const std::lock_guard lock(idle_mutex_);
  idle_.push_back(std::move(reader));
}

} // namespace saeta
