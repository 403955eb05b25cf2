#include "saeta/interop/arrow/owned.hpp"

#include <gtest/gtest.h>

namespace saeta {
namespace {

int releases = 0;

ArrowArray live(std::int64_t length) {
  ArrowArray made{};
  made.length = length;
  made.release = [](ArrowArray* array) {
    ++releases;
    array->release = nullptr;
  };
  return made;
}

class arrow_owner : public ::testing::Test {
protected:
  void SetUp() override { releases = 0; }
};

TEST_F(arrow_owner, releases_once_at_its_end) {
  ArrowArray source = live(1);
  {
    const arrow_array owner(source);
    EXPECT_EQ(source.release, nullptr) << "the source counts as released";
    EXPECT_FALSE(owner.empty());
    EXPECT_EQ(releases, 0);
  }
  EXPECT_EQ(releases, 1);
}

TEST_F(arrow_owner, moves_without_a_release) {
  ArrowArray source = live(1);
  arrow_array first(source);
  arrow_array second(std::move(first));
  EXPECT_EQ(releases, 0);
  ArrowArray target = second.release();
  EXPECT_TRUE(second.empty());
  EXPECT_NE(target.release, nullptr);
  EXPECT_EQ(releases, 0);
  target.release(&target);
  EXPECT_EQ(releases, 1);
}

TEST_F(arrow_owner, releases_its_struct_before_it_takes_another) {
  ArrowArray one = live(1);
  ArrowArray two = live(2);
  arrow_array owner(one);
  owner.take(two);
  EXPECT_EQ(releases, 1);
  EXPECT_EQ(owner.get().length, 2);
  static_cast<void>(owner.out());
  EXPECT_EQ(releases, 2);
  EXPECT_TRUE(owner.empty());
}

TEST_F(arrow_owner, empty_releases_nothing) {
  {
    const arrow_array none;
    const arrow_schema no_schema;
    const arrow_stream no_stream;
    EXPECT_TRUE(none.empty() && no_schema.empty() && no_stream.empty());
  }
  EXPECT_EQ(releases, 0);
}

} // namespace
} // namespace saeta
