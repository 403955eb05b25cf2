// The steps of a random program (schedules/program.hpp), and what it knows about the memory that they use.
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

/// A buffer and what it must hold once everything queued has run.
struct known {
  buffer memory;
  bytes expected;
  site* place;
  bool certain = true; ///< false after a call of the driver failed in the middle of a change
};

/// A view that somebody else has, and the stream on which he uses it.
struct lent {
  std::unique_ptr<export_hold> hold;
  const storage* of;
  bool writes;
};

/// Bytes on their way to the host, and what they must be.
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
  /// Other libraries' work never fails.
  [[nodiscard]] failure_rate others() { return {sites_, 0}; }
  void checked_step(unsigned number);
  /// Returns the name of what it did.
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
  /// Whoever uses memory that a consumer has on streams that nobody knows needs an event after all work.
  void excuse(const known& used);
  [[nodiscard]] bool is_lent(const known& asked) const;
  std::size_t any_size();
  void allocate();
  void fill(const site& of, const buffer& memory, std::size_t offset, std::size_t size, stream_ref stream,
            std::uint8_t value);
  void write();
  /// One token over two buffers or over one twice.
  void copy();
  /// A table over parts of a buffer goes to another device; one of its columns becomes a buffer there.
  void move(const known& source, site& target);
  void read();
  void read(const known& source, stream_ref stream);
  /// Memory for bytes that are copied to the host. It stays until the end of the program.
  std::shared_ptr<std::uint8_t> landing_of(const site& place, std::size_t size);
  /// More readers than a buffer remembers apart.
  void read_everywhere();
  void drop();
  void drop(known& gone);
  /// Calls of the driver fail often meanwhile: a free that fails has to leave everything as it was.
  void trim(const site& place);
  void settle();
  void share_budget();
  void fail();
  /// A refused request frees nothing, where nothing that it could free counts against the budget.
  void refuse(const site& place);
  /// A token over the per-thread default stream, which another thread ends, as a garbage collector does.
  void end_elsewhere();
  /// Work of others on a stream of their own delays nobody else: neither an allocation that gets a free
  /// block, nor a use of memory whose unknown users have finished.
  void work_apart();

  // steps_of_others.cpp
  /// A consumer gets a view and uses it on a stream that nobody announced, perhaps of another device. It
  /// gives the view back later.
  void lend();
  void take_back();
  /// Memory of somebody else, who writes it on his own stream and frees it the moment we let go.
  void import();
  /// While somebody captures a graph no event can be recorded over all work.
  void capture();
  // steps_of_tables.cpp, or no_tables.cpp in a build without IPC
  /// Keeps a table in a handle, uses one, makes one leave, or closes one.
  void spill();
  void keep();
  void use_kept(std::size_t number);
  void end_tables();

  /// While a capture runs, uses that would need an event after all work are refused.
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
  std::shared_ptr<kept_tables> tables_; ///< null before the first
  std::vector<lent> lent_;
  std::deque<std::shared_ptr<context>> shares_;
  std::vector<std::shared_ptr<std::uint8_t>> arrivals_;
  std::vector<landing> landings_;
  std::vector<std::string> found_;
  std::vector<known*> at_risk_;       ///< what the step changes
  bool excused_ = false;              ///< the step may end a capture
  std::set<const storage*> unfenced_; ///< given back by a consumer whose work nobody may have fenced yet
  bool unfenced_pending_ = false;     ///< one of them may be waiting for its release
};

} // namespace saeta::schedules
