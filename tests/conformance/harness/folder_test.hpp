// A fixture for tests with files. Each test has its own folder, and fails if buffers of its context are left.
#pragma once

#include "conformance/harness/context_test.hpp"

#include <filesystem>
#include <string>

#include <stdlib.h>

namespace saeta::conformance {

class folder_test : public context_test {
protected:
  void SetUp() override {
    context_test::SetUp();
    make_folder();
  }
  void TearDown() override {
    context_test::TearDown();
    EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
    std::filesystem::remove_all(folder_);
  }
  /// Creates the folder. Fixtures with their own context call it at the end of SetUp.
  void make_folder() {
    std::string pattern = (std::filesystem::path(::testing::TempDir()) / "saeta-folder-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  [[nodiscard]] std::filesystem::path file() const { return folder_ / "table.arrow"; }

  std::filesystem::path folder_;
};

} // namespace saeta::conformance
