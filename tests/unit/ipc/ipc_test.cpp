#include "ipc_test.hpp"

#include <algorithm>
#include <iterator>

#include <stdlib.h>

namespace saeta::ipc {

ipc_test::ipc_test() : ctx_(context::create(make_host_backend())) {
  std::string pattern = (std::filesystem::path(::testing::TempDir()) / "saeta-ipc-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw error(errc::io, concat("no folder for the test: ", pattern));
  }
  folder_ = pattern;
}

ipc_test::~ipc_test() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void ipc_test::TearDown() {
  const auto live = ctx_->reports().statistics();
  EXPECT_EQ(live.ledger.own, 0U);
  EXPECT_EQ(live.ledger.external, 0U);
  EXPECT_EQ(live.ledger.buffers, 0U);
  EXPECT_EQ(live.budget.current, 0U);
  EXPECT_THAT(names(), ::testing::Not(::testing::Contains(::testing::HasSubstr(".tmp"))));
}

std::vector<std::string> ipc_test::names() const {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void store(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  ASSERT_TRUE(out.good());
}

std::string load(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace saeta::ipc
