#include "conformance/backends.hpp"

#include "saeta/backend/host/host_backend.hpp"

#if SAETA_HAS_CUDA
#include "saeta/backend/cuda/cuda_backend.hpp"
#endif

#include <ostream>

namespace saeta::conformance {
namespace {

/// Empty when the backend can be run.
std::string why_no_cuda() {
#if SAETA_HAS_CUDA
  return probe_cuda().reason;
#else
  return "this build has no CUDA backend";
#endif
}

std::vector<backend_entry> find_backends() {
  std::vector<backend_entry> found{{"host", make_host_backend, nullptr}};
#if SAETA_HAS_CUDA
  if (why_no_cuda().empty()) {
    found.push_back({"cuda", [] { return make_cuda_backend(0); }, close_cuda_gate});
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

const std::vector<backend_entry>& backends() {
  static const std::vector<backend_entry> found = find_backends();
  return found;
}

std::string backend_name(const ::testing::TestParamInfo<backend_entry>& info) { return info.param.name; }

} // namespace saeta::conformance
