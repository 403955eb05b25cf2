// Tokens of shared tables as bytes, and files in memory.
#include "saeta/share/sealed_file.hpp"
#include "saeta/share/share_token.hpp"
#include "share_test.hpp"

#include <filesystem>
#include <fstream>
#include <random>

#include <fcntl.h>
#include <sys/mman.h>

namespace saeta::sharing {
namespace {

using support::error_of;
using ::testing::HasSubstr;

share_token example() {
  share_token made;
  made.machine[0] = std::byte{1};
  made.key[15] = std::byte{2};
  made.device = share_token::id{std::byte{3}};
  made.nbytes = std::uint64_t{1} << 40;
  made.broker = "saeta-123-0123456789abcdef0123456789abcdef";
  made.posted = true;
  return made;
}

TEST(share_token_test, bytes_make_the_same_token) {
  share_token token = example();
  EXPECT_EQ(share_token::from_bytes(token.to_bytes()), token);
  EXPECT_LT(token.to_bytes().size(), 200U);
  token.device.reset();
  token.posted = false;
  EXPECT_EQ(share_token::from_bytes(token.to_bytes()), token);
}

TEST(share_token_test, broken_bytes_are_refused) {
  const std::vector<std::byte> good = example().to_bytes();
  for (std::size_t size = 0; size < good.size(); ++size) {
    const error refused =
        error_of([&] { static_cast<void>(share_token::from_bytes(std::span(good).first(size))); });
    EXPECT_EQ(refused.code(), errc::format) << size;
    EXPECT_THAT(refused.message(), HasSubstr("the token of a shared table is broken"));
  }
  std::vector<std::byte> changed = good;
  changed[8] = std::byte{9};
  EXPECT_THAT(error_of([&] { static_cast<void>(share_token::from_bytes(changed)); }).message(),
              HasSubstr("version 9"));
  std::mt19937 chance(3); // NOLINT: the same each time
  for (int turn = 0; turn < 1000; ++turn) {
    changed = good;
    changed[chance() % changed.size()] ^= static_cast<std::byte>(1U << chance() % 8);
    try {
      EXPECT_TRUE(is_broker_name(share_token::from_bytes(changed).broker));
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::format);
    }
  }
}

TEST(share_token_test, names_of_brokers_are_checked) {
  const std::string digits = "0123456789abcdef0123456789abcdef";
  EXPECT_TRUE(is_broker_name("saeta-1-" + digits));
  EXPECT_TRUE(is_broker_name("saeta-1234567890-" + digits));
  for (const std::string& wrong :
       {std::string(), "saeta-" + digits, "saeta--" + digits, "saeta-12345678901-" + digits,
        "saeta-1a-" + digits, "saeta-1-" + digits + "0", "saeta-1-" + digits.substr(1),
        "saeta-1-" + digits.substr(1) + "F", "aeta-1-" + digits,
        "saeta-1-" + digits.substr(1) + std::string(1, '\0')}) {
    EXPECT_FALSE(is_broker_name(wrong)) << wrong;
  }
}

TEST(share_token_test, the_machine_has_an_id) {
  EXPECT_EQ(machine_id(), machine_id());
  EXPECT_NE(machine_id(), share_token::id{});
  const scoped_limits limits({.machine_id = "/nowhere/boot_id"});
  const error refused = error_of([] { static_cast<void>(machine_id()); });
  EXPECT_EQ(refused.code(), errc::io);
  EXPECT_EQ(refused.error_number(), ENOENT);
  EXPECT_EQ(refused.message(),
            "/nowhere/boot_id, by which processes of one machine know each other, can't be "
            "read: No such file or directory (errno 2)");
}

TEST(sealed_file, can_not_change) {
  const std::string content = "some bytes";
  const descriptor file = make_sealed_file(
      "saeta table", {std::as_bytes(std::span(content)), {}, std::as_bytes(std::span(content))});
  EXPECT_EQ(::pwrite(file.number(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(file.number(), 1), -1);
  EXPECT_EQ(::ftruncate(file.number(), 1 << 20), -1);
  bool dropped = false;
  {
    const file_mapping mapped(file.number(), 20, {&dropped, [](bool* flag) { *flag = true; }});
    EXPECT_EQ(text_of(mapped.bytes()), content + content);
    EXPECT_FALSE(dropped);
  }
  EXPECT_TRUE(dropped);
}

TEST(sealed_file, others_are_refused) {
  const std::string content(4096, 'x');
  const auto expect_refused = [](int number, std::uint64_t bytes) {
    const error refused = error_of([&] { file_mapping(number, bytes, nullptr); });
    EXPECT_EQ(refused.code(), errc::format);
    EXPECT_THAT(refused.message(), HasSubstr("seals"));
  };
  const descriptor sealed = make_sealed_file("saeta table", {std::as_bytes(std::span(content))});
  expect_refused(sealed.number(), 4097);
  expect_refused(sealed.number(), 0);
  expect_refused(sealed.number(), std::uint64_t(-1));
  const descriptor open =
      descriptor::opened([] { return ::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING); });
  ASSERT_EQ(::ftruncate(open.number(), 4096), 0);
  expect_refused(open.number(), 4096);
  const descriptor other = descriptor::opened([] { return ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC); });
  expect_refused(other.number(), 4096);
}

} // namespace
} // namespace saeta::sharing
