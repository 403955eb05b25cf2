#include "saeta/backend/cuda/version.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saeta::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(cuda_version, a_driver_without_context_events_is_refused_with_both_versions) {
  EXPECT_THAT(driver_too_old(12040),
              AllOf(HasSubstr("CUDA 12.4"), HasSubstr("CUDA 12.5"), HasSubstr("update")));
  EXPECT_THAT(driver_too_old(11080), HasSubstr("CUDA 11.8"));
  EXPECT_EQ(driver_too_old(12050), "");
  EXPECT_EQ(driver_too_old(13000), "");
}

} // namespace
} // namespace saeta::cuda
