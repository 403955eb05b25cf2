#include "conformance/harness/backends.hpp"

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/backend/sim/sim.hpp"
#include "saeta/base/text.hpp"
#include "saeta/order/timeline.hpp"

#if SAETA_HAS_CUDA
#include "saeta/backend/cuda/cuda_backend.hpp"
#endif

#include <ostream>

namespace saeta::conformance {
namespace {

/// Returns why CUDA can't be used, or an empty string.
std::string why_no_cuda() {
#if SAETA_HAS_CUDA
  return probe_cuda().reason;
#else
  return "this build has no CUDA backend";
#endif
}

/// The simulated device of the running test. Backends that the test makes later are the same device, as used
/// by another library.
std::weak_ptr<sim::device>& current_simulation() {
  static std::weak_ptr<sim::device> current;
  return current;
}

std::shared_ptr<saeta::backend> make_simulation(std::int32_t ordinal) {
  sim::options chosen;
  chosen.seed = static_cast<std::uint64_t>(::testing::UnitTest::GetInstance()->random_seed());
  chosen.total_bytes = std::uint64_t{512} << 20;
  chosen.how = sim::pace::automatic;
  chosen.ordinal = ordinal;
  chosen.beside = current_simulation().lock();
  auto made = sim::device::create(chosen);
  if (!chosen.beside) {
    current_simulation() = made;
  }
  return made;
}

class simulated_gate final : public gate {
public:
  explicit simulated_gate(std::unique_ptr<sim::hold> held) : held_(std::move(held)) {}
  void open() override { held_->open(); }

private:
  std::unique_ptr<sim::hold> held_;
};

std::unique_ptr<gate> close_simulated_gate(saeta::backend& device, stream_handle stream) {
  return std::make_unique<simulated_gate>(dynamic_cast<sim::device&>(device).close_gate(stream));
}

std::string simulated_races(const saeta::backend& device) {
  std::string all;
  for (const sim::race& found : dynamic_cast<const sim::device&>(device).races()) {
    all += found.text + '\n';
  }
  return all;
}

std::string simulated_usage(const saeta::backend& device) {
  const sim::usage now = dynamic_cast<const sim::device&>(device).live();
  return now == sim::usage{} ? std::string{}
                             : concat(now.allocations, " allocations of ", now.bytes, " bytes, ", now.pinned,
                                      " pinned ones, ", now.streams, " streams, ", now.events, " events and ",
                                      now.imports, " imports");
}

std::vector<backend_entry> find_backends() {
  std::vector<backend_entry> found{
      {"host", make_host_backend, make_host_backend, nullptr, nullptr, nullptr},
      {"sim", [] { return make_simulation(0); }, [] { return make_simulation(1); }, close_simulated_gate,
       simulated_races, simulated_usage},
  };
#if SAETA_HAS_CUDA
  if (why_no_cuda().empty()) {
    const auto second = [] { return cuda_device_count() < 2 ? nullptr : make_cuda_backend(1); };
    const auto close = [](saeta::backend&, stream_handle stream) { return close_cuda_gate(stream); };
    found.push_back({"cuda", [] { return make_cuda_backend(0); }, second, close, nullptr, nullptr});
  }
#endif
  return found;
}

TEST(conformance, runs_on_cuda) {
  const std::string reason = why_no_cuda();
  if (!reason.empty()) {
    GTEST_SKIP() << "the suites do not run on cuda: " << reason;
  }
}

} // namespace

void PrintTo(const backend_entry& entry, std::ostream* out) { *out << entry.name; }

backend_test::~backend_test() {
  contexts_.check_gone();
  for (const auto& each : {device_, second_}) {
    if (const auto& alive = GetParam().alive; alive && each) {
      EXPECT_TRUE(comes_true([&] {
        static_cast<void>(timelines::collect_orphans()); // destroys those whose work has finished meanwhile
        return alive(*each).empty();
      })) << "left behind on "
          << to_string(each->device()) << ": " << alive(*each);
    }
  }
  if (!GetParam().races) {
    return;
  }
  const std::string found = GetParam().races(*device_);
  if (races_expected_) {
    EXPECT_NE(found, "") << "the test leaves out an edge and " << GetParam().name << " did not see it";
  } else {
    EXPECT_EQ(found, "");
  }
}

std::unique_ptr<gate> backend_test::close_gate(stream_ref stream) const {
  auto closed =
      GetParam().close_gate ? GetParam().close_gate(stream.owner(), stream.native_handle()) : nullptr;
  EXPECT_EQ(closed == nullptr, device_->device().kind == device_kind::cpu)
      << "what " << GetParam().name << " runs later is held back by a gate";
  return closed;
}

const std::shared_ptr<saeta::backend>& backend_test::second_device() {
  if (!second_) {
    second_ = GetParam().make_second();
  }
  return second_;
}

const std::vector<backend_entry>& backends() {
  static const std::vector<backend_entry> found = find_backends();
  return found;
}

std::string backend_name(const ::testing::TestParamInfo<backend_entry>& info) { return info.param.name; }

} // namespace saeta::conformance
