// A peer: an allocator to be measured, called through its own API without an adaptor in between.
//
// Contract  `peer_of` turns an allocator into a peer. An allocator has a type `block` and two functions:
//           `block allocate(bytes, stream)` and `void free(block&&, stream)`. If it has `begin(stream)`, each
//           thread calls that first.
// Thread    `run` is called by all threads at once, each with its number.
// Failure   What the allocator throws.
#pragma once

#include "allocate/pattern.hpp"
#include "allocate/thread_streams.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace saeta::bench {

/// One thread's share of a measurement.
struct assignment {
  const pattern& how;
  std::size_t batches;
  std::size_t thread;
  std::size_t threads;
  const thread_streams& streams;
};

class peer {
public:
  explicit peer(std::string name) : name_(std::move(name)) {}
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;
  virtual ~peer() = default;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Returns nanoseconds per pair: one mean for each batch. The first quarter of the batches is warm-up.
  [[nodiscard]] virtual std::vector<double> run(const assignment& work) = 0;

private:
  std::string name_;
};

/// The blocks that a thread keeps. The destructor frees them, also after a failure.
template <class Allocator>
class kept_blocks {
public:
  kept_blocks(Allocator& from, const thread_stream& on) : from_(from), on_(on) {}
  kept_blocks(const kept_blocks&) = delete;
  kept_blocks& operator=(const kept_blocks&) = delete;
  ~kept_blocks() {
    for (auto& each : blocks_) {
      try {
        from_.free(std::move(each), on_);
      } catch (...) { // a broken allocator also fails in allocate(), where the error is recorded
      }
    }
  }

  void add(typename Allocator::block what) { blocks_.push_back(std::move(what)); }
  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }
  [[nodiscard]] typename Allocator::block& at(std::size_t position) {
    return blocks_[position % blocks_.size()];
  }

private:
  Allocator& from_;
  const thread_stream& on_;
  std::vector<typename Allocator::block> blocks_;
};

template <class Allocator>
std::vector<double> run_requests(Allocator& memory, const assignment& work) {
  using clock = std::chrono::steady_clock;
  const thread_stream& own = work.streams[work.thread];
  const thread_stream& other = work.streams[(work.thread + 1) % work.threads];
  if constexpr (requires { memory.begin(own); }) {
    memory.begin(own);
  }
  const std::vector<std::size_t> sizes = request_sizes(work.how, work.thread);
  if (work.how.settled) {
    kept_blocks<Allocator> before(memory, own);
    for (std::size_t i = 0; i < settled_blocks; ++i) {
      before.add(memory.allocate(largest_request, own));
    }
  }
  std::size_t at = 0;
  kept_blocks<Allocator> kept(memory, own);
  for (std::size_t i = 0; i < work.how.held; ++i) {
    kept.add(memory.allocate(sizes[at++ % sizes.size()], own));
  }
  std::vector<double> samples;
  const std::size_t warm = work.batches / 4;
  for (std::size_t batch = 0; batch < work.batches + warm; ++batch) {
    const auto start = clock::now();
    for (std::size_t pair = 0; pair < pairs_in_batch; ++pair, ++at) {
      auto made = memory.allocate(sizes[at % sizes.size()], own);
      if (!kept.empty()) {
        std::swap(made, kept.at(at * 7));
      }
      memory.free(std::move(made), work.how.crossed && at % 4 == 0 ? other : own);
    }
    const std::chrono::duration<double, std::nano> took = clock::now() - start;
    if (batch >= warm) {
      samples.push_back(took.count() / pairs_in_batch);
    }
  }
  return samples;
}

template <class Allocator>
class peer_of final : public peer {
public:
  template <class... Arguments>
  explicit peer_of(std::string name, Arguments&&... arguments)
      : peer(std::move(name)), memory_(std::forward<Arguments>(arguments)...) {}

  [[nodiscard]] std::vector<double> run(const assignment& work) override {
    return run_requests(memory_, work);
  }

private:
  Allocator memory_;
};

} // namespace saeta::bench
