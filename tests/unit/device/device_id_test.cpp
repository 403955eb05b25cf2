#include "saeta/device/device_id.hpp"
#include "unit/base/raises.hpp"

#include <gtest/gtest.h>

namespace saeta {
namespace {

using unit::code_raised_by;

TEST(device_id, is_the_host_by_default) {
  EXPECT_EQ(device_id{}, (device_id{device_kind::cpu, 0}));
  EXPECT_NE((device_id{device_kind::cuda, 0}), (device_id{device_kind::cuda, 1}));
}

TEST(device_id, kinds_are_numbered_as_in_dlpack_and_arrow) {
  EXPECT_EQ(static_cast<int>(device_kind::cpu), 1);
  EXPECT_EQ(static_cast<int>(device_kind::cuda), 2);
  EXPECT_EQ(static_cast<int>(device_kind::sim), 12);
}

TEST(device_id, is_written_with_its_ordinal_except_for_the_host) {
  EXPECT_EQ(to_string({device_kind::cpu, 0}), "host");
  EXPECT_EQ(to_string({device_kind::cuda, 0}), "cuda:0");
  EXPECT_EQ(to_string({device_kind::cuda, 3}), "cuda:3");
  EXPECT_EQ(to_string({device_kind::sim, 2}), "sim:2");
}

TEST(device_id, is_parsed_from_common_names) {
  EXPECT_EQ(parse_device("host"), (device_id{device_kind::cpu, 0}));
  EXPECT_EQ(parse_device("cpu"), (device_id{device_kind::cpu, 0}));
  EXPECT_EQ(parse_device("cpu:0"), (device_id{device_kind::cpu, 0}));
  EXPECT_EQ(parse_device("cuda"), (device_id{device_kind::cuda, 0}));
  EXPECT_EQ(parse_device("cuda:0"), (device_id{device_kind::cuda, 0}));
  EXPECT_EQ(parse_device("cuda:15"), (device_id{device_kind::cuda, 15}));
}

TEST(device_id, refuses_unknown_names_and_quotes_them) {
  for (const char* const text : {"", "gpu", "CUDA", "cuda ", "host:1", "cuda:", "cuda:-1", "cuda:+1",
                                 "cuda:1x", "cuda:0:0", "cuda:99999999999", "sim", "cuda_host"}) {
    std::string message;
    EXPECT_EQ(code_raised_by([&] { static_cast<void>(parse_device(text)); }, &message),
              errc::invalid_argument)
        << text;
    EXPECT_EQ(message.rfind("device '" + std::string(text) + "': ", 0), 0u) << message;
  }
}

} // namespace
} // namespace saeta
