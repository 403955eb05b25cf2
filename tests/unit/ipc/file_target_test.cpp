// Files of any format that appear when they are complete.

#include "ipc_test.hpp"
#include "saeta/ipc/writer.hpp"
#include "support/child_process.hpp"

#include <span>

namespace saeta::ipc {
namespace {

using ::testing::ElementsAre;

class file_targets : public ipc_test {};

TEST_F(file_targets, a_file_appears_when_it_is_committed) {
  const auto bytes = std::as_bytes(std::span("bytes", 5));
  store(file("old"), "the old one");
  file_target target(file("old"));
  target.put(bytes);
  target.put(bytes.first(2));
  EXPECT_EQ(load(file("old")), "the old one");
  target.commit();
  EXPECT_EQ(load(file("old")), "bytesby");
  EXPECT_ERROR(target.commit(), closed, "old", "complete or was discarded");
  EXPECT_ERROR(target.put(bytes), closed, "old");
  target.discard();
  EXPECT_THAT(names(), ElementsAre("old"));
}

TEST_F(file_targets, a_file_without_commit_leaves_the_old_one) {
  const auto bytes = std::as_bytes(std::span("bytes", 5));
  store(file("old"), "the old one");
  {
    file_target dropped(file("old"));
    dropped.put(bytes);
    file_target discarded(file("none"));
    discarded.put(bytes);
    discarded.discard();
    EXPECT_ERROR(discarded.commit(), closed, "none");
  }
  EXPECT_EQ(load(file("old")), "the old one");
  EXPECT_THAT(names(), ElementsAre("old"));
  EXPECT_ERROR(file_target(file("no/such/folder")), io, "No such file or directory");
}

TEST_F(file_targets, can_not_be_used_by_a_forked_child) {
  if (!support::allocator_forks) {
    GTEST_SKIP() << "the child may deadlock in the allocator";
  }
  const auto bytes = std::as_bytes(std::span("bytes", 5));
  file_target target(file("new"));
  support::expect_in_a_child([&] {
    EXPECT_ERROR(target.put(bytes), closed, "belongs to the parent of this forked process");
    EXPECT_ERROR(target.commit(), closed, "belongs to the parent of this forked process");
  });
  target.put(bytes);
  target.commit();
  EXPECT_EQ(load(file("new")), "bytes");
}

} // namespace
} // namespace saeta::ipc
