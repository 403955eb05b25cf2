// Chains of decoded chunks that threads process in time windows; each chain has a reader, which passes from
// one window to the next.
#include "saeta/executor/thread_pool.hpp"
#include "saeta/staging/chain_windows.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace saeta {
namespace {

constexpr std::size_t window_chunk = 4096;
constexpr std::uint64_t decoded_at = 1'000'000; // source offsets from here on are decoded
constexpr std::size_t threads = 3;

/// Makes decoded copies; each is a chain of `chunks` chunks.
std::vector<scatter_step> some_chains(std::size_t count, std::size_t chunks) {
  std::vector<scatter_step> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i].source = decoded_at + i * (chunks * window_chunk + scatter_source::ordered_gap);
    made[i].count = static_cast<std::int64_t>(chunks * window_chunk);
  }
  return made;
}

struct work_counts {
  std::atomic<std::size_t> made{0};
  std::atomic<std::size_t> finished{0};
};

class counted_reader final : public ordered_reader {
public:
  explicit counted_reader(work_counts& of) : of_(of) { ++of_.made; }
  void read(std::uint64_t, std::span<std::byte>) override {
    EXPECT_FALSE(busy_.exchange(true)) << "two chains share it";
  }
  void finish() override {
    busy_ = false;
    ++of_.finished;
  }
  void stay() noexcept { busy_ = false; }

private:
  work_counts& of_;
  std::atomic<bool> busy_{false};
};

/// Processes all windows. Returns their number. @param slow  duration of each chunk
std::size_t windows_of(const chunk_cutter& cutter, work_counts& count, std::chrono::microseconds slow) {
  thread_pool pool(threads);
  chain_windows windows(cutter, threads);
  std::size_t opened = 0;
  while (const std::size_t chains = windows.open()) {
    ++opened;
    pool.run(chains, [&](std::size_t, std::size_t task) {
      windows.process_chain(task, [&](chunk_chain& chain) {
        cut_chunk chunk;
        const chunk_cursor next = cutter.cut(chain.at, chunk);
        if (chain.decoding == nullptr) {
          chain.decoding = std::make_unique<counted_reader>(count);
        }
        auto& reader = static_cast<counted_reader&>(*chain.decoding);
        reader.read(chunk.parts.front().source, {});
        std::this_thread::sleep_for(slow);
        reader.stay();
        return next;
      });
    });
    windows.close();
  }
  return opened;
}

TEST(chain_windows, create_no_more_readers_than_threads) {
  constexpr std::size_t chains = 64;
  const std::vector<scatter_step> steps = some_chains(chains, 2);
  work_counts count;
  windows_of(chunk_cutter(steps, window_chunk, decoded_at), count, std::chrono::microseconds(0));
  EXPECT_EQ(count.finished, chains);
  EXPECT_GE(count.made, 1U);
  EXPECT_LE(count.made, threads);
}

TEST(chain_windows, keep_the_reader_of_a_chain_over_several_windows) {
  constexpr std::size_t chains = 4;
  const std::vector<scatter_step> steps = some_chains(chains, 10);
  work_counts count;
  const std::size_t opened =
      windows_of(chunk_cutter(steps, window_chunk, decoded_at), count, std::chrono::milliseconds(10));
  EXPECT_GT(opened, 1U) << "windows last 40 ms, a chain 100";
  EXPECT_EQ(count.finished, chains) << "each once";
  EXPECT_LE(count.made, chains);
}

TEST(chain_windows, process_the_longest_chains_first) {
  std::vector<scatter_step> steps = some_chains(5, 4);
  constexpr std::array<std::int64_t, 5> chunks{1, 3, 2, 4, 3};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].count = chunks.at(i) * static_cast<std::int64_t>(window_chunk);
  }
  const chunk_cutter cutter(steps, window_chunk, decoded_at);
  chain_windows windows(cutter, threads);
  std::vector<std::size_t> begun;
  while (const std::size_t chains = windows.open()) { // 1, unless the thread is delayed by more than 40 ms
    for (std::size_t number = 0; number < chains; ++number) {
      windows.process_chain(number, [&](chunk_chain& chain) {
        if (chain.at.done == 0) {
          begun.push_back(chain.at.step);
        }
        cut_chunk chunk;
        return cutter.cut(chain.at, chunk);
      });
    }
    windows.close();
  }
  EXPECT_EQ(begun, (std::vector<std::size_t>{3, 1, 4, 2, 0}))
      << "chains of equal length in the order of the source";
}

TEST(chain_windows, limit_their_time_from_the_start_of_their_first_chain) {
  const std::vector<scatter_step> steps = some_chains(4, 2);
  const chunk_cutter cutter(steps, window_chunk, decoded_at);
  chain_windows windows(cutter, threads);
  const std::size_t chains = windows.open();
  std::this_thread::sleep_for(2 * chain_windows::window_time); // as if the threads worked on another scatter
  int begun = 0;
  windows.process_chain(1, [&](chunk_chain& chain) {
    ++begun;
    cut_chunk chunk;
    return cutter.cut(chain.at, chunk);
  });
  EXPECT_EQ(chains, 4U);
  EXPECT_GT(begun, 0);
}

} // namespace
} // namespace saeta
