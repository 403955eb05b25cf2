// The major release of the loaded libarrow is the one that the bridge was built with.

#include "saeta/bridge/bridge.hpp"

#include <gmock/gmock.h>

namespace saeta {
namespace {

TEST(bridge, names_the_releases_of_libarrow) {
  EXPECT_THAT(built_arrow_version(), ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
  EXPECT_EQ(built_arrow_version(), loaded_arrow_version());
}

} // namespace
} // namespace saeta
