// Chunks that several threads fill together: which thread begins, fills and ends each, and failures.
#include "saeta/executor/thread_pool.hpp"
#include "saeta/staging/shared_chunks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <latch>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace saeta {
namespace {

constexpr std::size_t slots = 3;
constexpr std::size_t slices = 5;

constexpr auto pass = [](auto...) {};

/// Returns the slots 0, 1, ..., count - 1.
std::span<const std::size_t> in_order(std::size_t count) {
  static constexpr std::array<std::size_t, slots> all{0, 1, 2};
  return std::span(all).first(count);
}

TEST(shared_chunks, begin_in_the_given_order_of_slots) {
  constexpr std::array<std::size_t, slots> given{2, 0, 1};
  shared_chunks turns(given, 4, 1);
  std::vector<std::size_t> seen;
  for (std::size_t task = 0; task < 4; ++task) {
    turns.take_part(
        0, task, [&](std::size_t slot, std::size_t) { seen.push_back(slot); }, pass, pass);
  }
  EXPECT_EQ(seen, (std::vector<std::size_t>{2, 0, 1, 2})) << "the slot that is free again is the next one's";
}

TEST(shared_chunks, are_begun_filled_and_ended_once_without_sharing_a_slot) {
  thread_pool pool(4);
  for (int round = 0; round < 200; ++round) {
    constexpr std::size_t chunks = 20;
    shared_chunks turns(in_order(slots), chunks, slices);
    std::array<std::size_t, slots> open{}; // not atomic, so that ThreadSanitizer finds races
    std::array<std::size_t, chunks> begun{};
    std::array<std::array<std::size_t, slices>, chunks> filled{};
    std::array<std::size_t, chunks> ended{};
    pool.run(chunks * slices, [&](std::size_t member, std::size_t task) {
      turns.take_part(
          member, task,
          [&](std::size_t slot, std::size_t chunk) {
            ASSERT_LT(slot, slots);
            EXPECT_EQ(open[slot]++, 0U) << "the chunk before has not ended";
            ++begun[chunk];
          },
          [&](std::size_t slot, std::size_t chunk, std::size_t slice) {
            EXPECT_EQ(open[slot], 1U);
            ++filled[chunk][slice];
          },
          [&](std::size_t slot, std::size_t chunk, std::size_t) {
            for (const std::size_t each : filled[chunk]) {
              EXPECT_EQ(each, 1U) << "ended before it was full";
            }
            --open[slot];
            ++ended[chunk];
          });
    });
    EXPECT_EQ(turns.begun(), chunks);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      EXPECT_EQ(begun[chunk], 1U);
      EXPECT_EQ(ended[chunk], 1U);
    }
  }
}

TEST(shared_chunks, are_filled_by_several_threads_at_once) {
  thread_pool pool(slices);
  shared_chunks turns(in_order(1), 1, slices);
  std::latch together(slices); // needs as many threads as slices
  pool.run(slices, [&](std::size_t member, std::size_t task) {
    turns.take_part(
        member, task, pass, [&](std::size_t, std::size_t, std::size_t) { together.arrive_and_wait(); }, pass);
  });
}

TEST(shared_chunks, give_each_thread_the_slice_with_its_number) {
  thread_pool pool(slices);
  constexpr std::size_t chunks = 30;
  shared_chunks turns(in_order(slots), chunks, slices);
  std::deque<std::latch> together; // so that each thread fills one slice of a chunk
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    together.emplace_back(slices);
  }
  pool.run(chunks * slices, [&](std::size_t member, std::size_t task) {
    turns.take_part(
        member, task, pass,
        [&](std::size_t, std::size_t chunk, std::size_t slice) {
          EXPECT_EQ(slice, member);
          together[chunk].arrive_and_wait();
        },
        pass);
  });
}

TEST(shared_chunks, do_not_wait_for_threads_that_never_arrive) {
  for (std::size_t member = 0; member < 2 * slices; ++member) {
    shared_chunks turns(in_order(slots), 1, slices);
    std::array<int, slices> filled{};
    for (std::size_t task = 0; task < slices; ++task) {
      turns.take_part(
          member, task, pass, [&](std::size_t, std::size_t, std::size_t slice) { ++filled[slice]; }, pass);
    }
    EXPECT_EQ(filled, (std::array<int, slices>{1, 1, 1, 1, 1}));
  }
}

TEST(shared_chunks, are_begun_while_the_one_before_is_filled_in_another_slot) {
  thread_pool pool(2);
  shared_chunks turns(in_order(2), 2, 1);
  std::latch both(2);
  pool.run(2, [&](std::size_t member, std::size_t task) {
    turns.take_part(
        member, task, pass, [&](std::size_t, std::size_t, std::size_t) { both.arrive_and_wait(); }, pass);
  });
}

TEST(shared_chunks, are_not_begun_after_a_deadline_except_the_first) {
  thread_pool pool(4);
  for (int round = 0; round < 50; ++round) {
    shared_chunks turns(in_order(slots), 10, slices, shared_chunks::clock::now());
    std::atomic<std::size_t> filled{0};
    pool.run(10 * slices, [&](std::size_t member, std::size_t task) {
      turns.take_part(
          member, task, pass, [&](std::size_t, std::size_t, std::size_t) { ++filled; }, pass);
    });
    EXPECT_EQ(turns.begun(), 1U);
    EXPECT_EQ(filled, slices);
  }
}

TEST(shared_chunks, that_were_begun_are_a_complete_prefix) {
  thread_pool pool(4);
  for (int round = 0; round < 50; ++round) {
    constexpr std::size_t chunks = 200;
    shared_chunks turns(in_order(slots), chunks, slices,
                        shared_chunks::clock::now() + std::chrono::microseconds(20 * round));
    std::array<std::atomic<std::size_t>, chunks> filled{};
    std::array<std::atomic<bool>, chunks> ended{};
    pool.run(chunks * slices, [&](std::size_t member, std::size_t task) {
      turns.take_part(
          member, task, pass, [&](std::size_t, std::size_t chunk, std::size_t) { ++filled[chunk]; },
          [&](std::size_t, std::size_t chunk, std::size_t) { ended[chunk] = true; });
    });
    ASSERT_GE(turns.begun(), 1U);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      EXPECT_EQ(filled[chunk], chunk < turns.begun() ? slices : 0U);
      EXPECT_EQ(ended[chunk], chunk < turns.begun());
    }
  }
}

TEST(shared_chunks, end_at_the_first_missing_chunk) {
  thread_pool pool(4);
  constexpr std::size_t most = 40;
  for (std::size_t there = 1; there < most; ++there) {
    SCOPED_TRACE(there);
    shared_chunks turns(in_order(slots), most, slices);
    for (std::size_t chunk = there; chunk < slots; ++chunk) {
      turns.shorten(chunk);
    }
    std::array<std::atomic<std::size_t>, most> filled{};
    std::array<std::atomic<bool>, most> ended{};
    pool.run(most * slices, [&](std::size_t member,
                                std::size_t task) { // would never end if a thread waited for a missing chunk
      turns.take_part(
          member, task, [&](std::size_t, std::size_t chunk) { EXPECT_LT(chunk, there); },
          [&](std::size_t, std::size_t chunk, std::size_t) {
            if (++filled[chunk] == slices && chunk + slots >= there) { // the slot's next chunk is missing
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
          },
          [&](std::size_t, std::size_t chunk, std::size_t next) {
            ended[chunk] = true;
            if (next >= there) {
              turns.shorten(next);
            }
          });
    });
    EXPECT_EQ(turns.begun(), there);
    for (std::size_t chunk = 0; chunk < most; ++chunk) {
      EXPECT_EQ(filled[chunk], chunk < there ? slices : 0U);
      EXPECT_EQ(ended[chunk], chunk < there);
    }
  }
}

TEST(shared_chunks, wake_all_threads_after_any_failure) {
  thread_pool pool(4);
  for (const std::string where : {"begin", "fill", "end"}) {
    for (std::size_t at = 0; at < 12; ++at) {
      SCOPED_TRACE(where + " of chunk " + std::to_string(at));
      shared_chunks turns(in_order(slots), 12, slices);
      const auto step = [&](const char* name, std::size_t chunk) {
        if (where == name && chunk == at) {
          throw std::runtime_error(where);
        }
      };
      EXPECT_THROW(pool.run(12 * slices,
                            [&](std::size_t member, std::size_t task) {
                              turns.take_part(
                                  member, task, [&](std::size_t, std::size_t chunk) { step("begin", chunk); },
                                  [&](std::size_t, std::size_t chunk, std::size_t) { step("fill", chunk); },
                                  [&](std::size_t, std::size_t chunk, std::size_t) { step("end", chunk); });
                            }),
                   std::runtime_error);
    }
  }
}

TEST(shared_chunks, wait_for_a_slow_slice_of_the_chunk_before_in_their_slot) {
  thread_pool pool(3);
  shared_chunks turns(in_order(1), 2, 2);
  std::atomic<bool> slow_done{false};
  pool.run(4, [&](std::size_t member, std::size_t task) {
    turns.take_part(
        member, task, [&](std::size_t, std::size_t chunk) { EXPECT_TRUE(chunk == 0 || slow_done); },
        [&](std::size_t, std::size_t chunk, std::size_t slice) {
          if (chunk == 0 && slice == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            slow_done = true;
          }
        },
        pass);
  });
  EXPECT_EQ(turns.begun(), 2U);
}

TEST(shared_chunks, reuse_slots_in_the_order_of_their_release) {
  thread_pool pool(3);
  for (int round = 0; round < 50; ++round) {
    constexpr std::size_t chunks = 40;
    shared_chunks turns(in_order(slots), chunks, 1);
    std::array<std::atomic<std::size_t>, chunks> promised{}; // slot + 1 of each chunk
    std::atomic<std::size_t> ended{0};
    std::array<std::atomic<int>, chunks> next_of{};
    pool.run(chunks, [&](std::size_t member, std::size_t task) {
      turns.take_part(
          member, task,
          [&](std::size_t slot, std::size_t chunk) {
            EXPECT_EQ(chunk < slots ? chunk + 1 : promised[chunk].load(), slot + 1);
          },
          [](std::size_t, std::size_t, std::size_t) {},
          [&](std::size_t slot, std::size_t, std::size_t next) {
            ++ended;
            if (next < chunks) {
              promised[next] = slot + 1;
              ++next_of[next];
            }
          });
    });
    EXPECT_EQ(ended, chunks);
    for (std::size_t chunk = slots; chunk < chunks; ++chunk) {
      EXPECT_EQ(next_of[chunk], 1) << chunk;
    }
  }
}

TEST(shared_chunks, continue_beside_a_chunk_that_is_delayed) {
  thread_pool pool(2);
  constexpr std::size_t chunks = 20;
  shared_chunks turns(in_order(2), chunks, 1);
  std::atomic<std::size_t> others{0};
  pool.run(chunks, [&](std::size_t member, std::size_t task) {
    turns.take_part(
        member, task, pass,
        [&](std::size_t, std::size_t chunk, std::size_t) {
          while (chunk == 0 &&
                 others != chunks - 1) { // would never end if the second slot waited for the first
            std::this_thread::yield();
          }
        },
        [&](std::size_t, std::size_t chunk, std::size_t) { others += chunk == 0 ? 0 : 1; });
  });
  EXPECT_EQ(turns.begun(), chunks);
}

} // namespace
} // namespace saeta
