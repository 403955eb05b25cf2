#include "saeta/device/backend.hpp"
#include "saeta/device/device_id.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

#include <string>

namespace saeta {
namespace {

using enum memory_kind;

TEST(memory_kind, is_written_and_read_by_its_name) {
  for (const memory_kind kind : {device, managed, pinned, host}) {
    EXPECT_EQ(parse_memory_kind(to_string(kind)), kind);
  }
  EXPECT_EQ(to_string(pinned), "pinned");
}

TEST(memory_kind, refuses_unknown_names_and_quotes_them) {
  std::string message;
  EXPECT_EQ(unit::code_raised_by([] { static_cast<void>(parse_memory_kind("page-locked")); }, &message),
            errc::invalid_argument);
  EXPECT_EQ(message.rfind("memory kind 'page-locked': ", 0), 0U) << message;
}

TEST(memory_kind, the_cpu_can_read_all_but_device_memory) {
  EXPECT_FALSE(host_accessible(device));
  EXPECT_TRUE(host_accessible(managed));
  EXPECT_TRUE(host_accessible(pinned));
  EXPECT_TRUE(host_accessible(host));
}

TEST(memory_kind, determines_the_direction_of_a_copy) {
  EXPECT_EQ(copy_between(device, device), copy_kind::device_to_device);
  EXPECT_EQ(copy_between(device, pinned), copy_kind::device_to_host);
  EXPECT_EQ(copy_between(managed, host), copy_kind::device_to_host);
  EXPECT_EQ(copy_between(pinned, managed), copy_kind::host_to_device);
  EXPECT_EQ(copy_between(host, pinned), copy_kind::host_to_host);
}

} // namespace
} // namespace saeta
