// The steps of a random program (schedules/program.hpp), and the expected bytes of the memory that they use.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "schedules/program.hpp"
#include "schedules/site.hpp"
#include "support/foreign_capture.hpp"

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace saeta::schedules {

using bytes = std::vector<std::uint8_t>;

/// A buffer and the bytes that it must have once all queued work has run.
struct known {
  buffer memory;
  bytes expected;
  site* place;
  bool certain = true; ///< false if the bytes are unknown, because a backend call failed during a change
};

/// A view of a buffer that was exported to another library.
struct lent {
  std::unique_ptr<export_hold> hold;
  const storage* of;
  bool writes;
};

/// A copy to the host that may be pending, and the bytes that must arrive.
struct landing {
  std::shared_ptr<std::uint8_t> arrived;
  bytes expected;
};

class random_program {
public:
  random_program(std::uint64_t seed, const program_options& chosen);
  void run();
  [[nodiscard]] std::string findings() const;
  [[nodiscard]] std::string device_report() const { return sites_.front().device->report(); }

private:
  static constexpr std::uint64_t budget_bytes = 1U << 20U;
  static constexpr std::size_t most_buffers = 12;

  // program.cpp
  /// Suspends failures of the backend, for work of other libraries.
  [[nodiscard]] failure_rate others() { return {sites_, 0}; }
  void checked_step(unsigned number);
  /// Runs a random step and returns its name.
  const char* step();
  void expect_code(const error& e, errc code);
  void check_counters();
  void end();
  void end(site& last);
  void check_nothing_left(site& last);
  void check_landing(const landing& one);

  // steps_of_ours.cpp
  site& any_site() { return sites_.size() == 1 ? sites_.front() : sites_[draw_.below(sites_.size())]; }
  stream_ref any_stream(const site& of);
  known& any_buffer();
  /// Notes that this step may invalidate a capture if it uses memory that a consumer has on unknown streams,
  /// which needs an event over all work of the device.
  void excuse(const known& used);
  [[nodiscard]] bool is_lent(const known& asked) const;
  std::size_t any_size();
  void allocate();
  void fill(const site& of, const buffer& memory, std::size_t offset, std::size_t size, stream_ref stream,
            std::uint8_t value);
  void write();
  /// Copies one buffer to another under one token, or moves it to another device.
  void copy();
  /// Copies a table over parts of a buffer to another device, and keeps one of the columns as a buffer.
  void move(const known& source, site& target);
  void read();
  void read(const known& source, stream_ref stream);
  /// Allocates memory for a copy to the host. It lives until the end of the program.
  std::shared_ptr<std::uint8_t> landing_of(const site& place, std::size_t size);
  /// Reads a buffer on more streams than its ordering state tracks separately.
  void read_everywhere();
  void drop();
  void drop(known& gone);
  /// Trims while calls of the backend fail often: a failed free must not change any state.
  void trim(const site& place);
  void settle();
  void share_budget();
  void fail();
  /// Requests more than the budget. The refusal must not free cached blocks, which are not charged to the
  /// budget.
  void refuse(const site& place);
  /// Uses a buffer on the per-thread default stream and ends the token on another thread, as a garbage
  /// collector may do.
  void end_elsewhere();
  /// Checks that pending work on a stream of another library delays neither an allocation of a free block nor
  /// a use of memory whose users on unknown streams have finished.
  void work_apart();

  // steps_of_others.cpp
  /// Exports a view to a consumer that uses it on a stream unknown to Saeta, perhaps of another device. A
  /// later step releases it.
  void lend();
  void take_back();
  /// Imports memory of a producer that writes it on its own stream and frees it as soon as Saeta releases it.
  void import();
  /// Begins a graph capture of another library, or ends it. During a capture no event over all work can be
  /// recorded.
  void capture();
  // steps_of_tables.cpp, or no_tables.cpp in a build without IPC
  /// Creates a spillable table, or uses, spills or drops one.
  void spill();
  void keep();
  void use_kept(std::size_t number);
  void end_tables();

  /// Runs `use`. Returns false if a capture is active and `use` was refused with errc::busy, because it needs
  /// an event over all work.
  template <class Use>
  bool guarded(Use use) {
    try {
      use();
      return true;
    } catch (const error& e) {
      if (!capture_ || e.code() != errc::busy) {
        throw;
      }
      return false;
    }
  }

  draw draw_;
  program_options chosen_;
  std::vector<site> sites_;
  std::unique_ptr<testing::foreign_capture> capture_;
  std::vector<known> buffers_;
  struct kept_tables;
  std::shared_ptr<kept_tables> tables_; ///< null until the first spillable table is created
  std::vector<lent> lent_;
  std::deque<std::shared_ptr<context>> shares_;
  std::vector<std::shared_ptr<std::uint8_t>> arrivals_;
  std::vector<landing> landings_;
  std::vector<std::string> found_;
  std::vector<known*> at_risk_;       ///< buffers that the current step changes
  bool excused_ = false;              ///< the current step may invalidate a capture
  std::set<const storage*> unfenced_; ///< released on unknown streams; their event may not be recorded yet
  bool unfenced_pending_ = false;     ///< the release of one of them may be pending
};

} // namespace saeta::schedules
