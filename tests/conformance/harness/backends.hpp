// The backends that the conformance suites run on, and what a suite needs to be run on each of them.
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
  std::string name; ///< the last part of the tests' names
  std::function<std::shared_ptr<saeta::backend>()> make;
  /// Makes a backend of another device. Returns null if the machine has only one.
  std::function<std::shared_ptr<saeta::backend>()> make_second;
  /// Holds a stream of a backend back until the gate is opened; empty if work is never pending.
  std::function<std::unique_ptr<gate>(saeta::backend&, stream_handle)> close_gate;
  /// Lists the missing edges that a backend has seen, one per line; empty if it can't see them.
  std::function<std::string(const saeta::backend&)> races;
  /// The allocations, streams and events of the device that are alive. Returns an empty text where there are
  /// none; the function is empty where the backend can't say.
  std::function<std::string(const saeta::backend&)> alive;
};

void PrintTo(const backend_entry& entry, std::ostream* out);

/// The backends of this build that work on this machine, always including `host`. The others are skipped.
const std::vector<backend_entry>& backends();

/// The entry's name, for INSTANTIATE_TEST_SUITE_P.
std::string backend_name(const ::testing::TestParamInfo<backend_entry>& info);

/// A fixture with a fresh backend. A test fails if the backend saw a missing edge, if a context's numbers do
/// not agree with what is alive afterwards, or if the test leaves something behind.
class backend_test : public ::testing::TestWithParam<backend_entry> {
protected:
  ~backend_test() override;
  /// Fixtures that override it call it before they drop their contexts.
  void TearDown() override { contexts_.check(); }

  [[nodiscard]] saeta::backend& device() const { return *device_; }
  [[nodiscard]] const std::shared_ptr<saeta::backend>& shared_device() const { return device_; }
  /// A backend of a device other than device(), the same one at each call: on sim a device of the same
  /// machine, on cuda device 1, on host one more host backend. Null where there is none; the test then skips
  /// with `one_device_alone`.
  [[nodiscard]] const std::shared_ptr<saeta::backend>& second_device();
  static constexpr const char* one_device_alone = "the machine has one such device alone";
  /// Null on the host, which has no pending work: the work that a gate would hold back has already happened
  /// there. On any other device a test without a gate would not test its subject, so it fails.
  [[nodiscard]] std::unique_ptr<gate> close_gate(stream_handle stream) const {
    return close_gate({*device_, stream});
  }
  /// The same for a stream of either device.
  [[nodiscard]] std::unique_ptr<gate> close_gate(stream_ref stream) const;
  static constexpr const char* nothing_pends = "nothing is ever pending on the host";
  /// Watches a context until the test ends. Tests pass every root context, and may pass derived ones.
  [[nodiscard]] std::shared_ptr<context> watch(std::shared_ptr<context> made) {
    return contexts_.add(std::move(made));
  }
  [[nodiscard]] std::shared_ptr<context> new_context(context_options options = {}) {
    return watch(context::create(shared_device(), std::move(options)));
  }
  /// For tests that leave out an edge on purpose. The backend must have seen it.
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
