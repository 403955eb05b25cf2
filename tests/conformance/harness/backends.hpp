// The backends that the conformance suites run on, and the fixture that runs a suite on each of them.
//
//   class copies : public saeta::conformance::backend_test {};
//   TEST_P(copies, keep_every_byte) { device().copy(...); }   // conformance/copies.keep_every_byte/host
//   SAETA_CONFORMANCE_SUITE(copies);
#pragma once

#include "conformance/harness/context_watch.hpp"
#include "conformance/harness/gate.hpp"
#include "saeta/device/backend.hpp"
#include "saeta/device/stream.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace saeta::conformance {

struct backend_entry {
  std::string name; ///< the last part of the names of tests on this backend
  std::function<std::shared_ptr<saeta::backend>()> make;
  /// Makes a backend of a second device. Returns null if the machine has only one.
  std::function<std::shared_ptr<saeta::backend>()> make_second;
  /// Blocks a stream until the gate is opened. Empty for a backend whose work is never pending.
  std::function<std::unique_ptr<gate>(saeta::backend&, stream_handle)> close_gate;
  /// Lists the races (unordered accesses) that a backend has detected, one per line. Empty if it can't detect
  /// them.
  std::function<std::string(const saeta::backend&)> races;
  /// Lists the live allocations, streams and events of a device, or returns an empty string if there are
  /// none. The function is empty for a backend that can't tell.
  std::function<std::string(const saeta::backend&)> alive;
};

void PrintTo(const backend_entry& entry, std::ostream* out);

/// Returns the backends of this build that work on this machine, always including `host`.
const std::vector<backend_entry>& backends();

/// Returns the name of an entry, for INSTANTIATE_TEST_SUITE_P.
std::string backend_name(const ::testing::TestParamInfo<backend_entry>& info);

/// A fixture with a new backend. Afterwards it fails the test if the backend has detected a race, if the
/// statistics of a context are inconsistent, or if memory, streams or events have leaked.
class backend_test : public ::testing::TestWithParam<backend_entry> {
protected:
  ~backend_test() override;
  /// Fixtures that override TearDown must call this one before they drop their contexts.
  void TearDown() override { contexts_.check(); }

  [[nodiscard]] saeta::backend& device() const { return *device_; }
  [[nodiscard]] const std::shared_ptr<saeta::backend>& shared_device() const { return device_; }
  /// Returns the backend of a second device, the same one at each call: on sim a device of the same machine,
  /// on cuda device 1, on host another host backend. Null if there is none; the test then skips with
  /// `one_device_alone`.
  [[nodiscard]] const std::shared_ptr<saeta::backend>& second_device();
  static constexpr const char* one_device_alone = "the machine has one such device alone";
  /// Closes a gate on a stream. Returns null on the host, where work is never pending. On other devices the
  /// test fails if the gate can't be closed.
  [[nodiscard]] std::unique_ptr<gate> close_gate(stream_handle stream) const {
    return close_gate({*device_, stream});
  }
  /// Closes a gate on a stream of either device.
  [[nodiscard]] std::unique_ptr<gate> close_gate(stream_ref stream) const;
  static constexpr const char* nothing_pends = "nothing is ever pending on the host";
  /// Checks a context at the end of the test. Tests must pass every root context, and may pass derived ones.
  [[nodiscard]] std::shared_ptr<context> watch(std::shared_ptr<context> made) {
    return contexts_.add(std::move(made));
  }
  [[nodiscard]] std::shared_ptr<context> new_context(context_options options = {}) {
    if (!options.memory.caching.wait_above) {
      options.memory.caching.wait_above = 0; // memory is soon used again, by other streams as well
    }
    return watch(context::create(shared_device(), std::move(options)));
  }
  /// For tests that provoke a race on purpose, which the backend must then detect.
  void expect_races() { races_expected_ = true; }

private:
  std::shared_ptr<saeta::backend> device_ = GetParam().make();
  std::shared_ptr<saeta::backend> second_;
  context_watch contexts_;
  bool races_expected_ = false;
};

} // namespace saeta::conformance

/// Runs a fixture derived from TestWithParam<backend_entry> on every backend.
#define SAETA_CONFORMANCE_SUITE(fixture)                                                                     \
  INSTANTIATE_TEST_SUITE_P(conformance, fixture, ::testing::ValuesIn(::saeta::conformance::backends()),      \
                           ::saeta::conformance::backend_name)
