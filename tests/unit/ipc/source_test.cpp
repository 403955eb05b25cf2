// Sources of bytes: range checks, recognition of the format, and release of descriptors and mappings.
#include "ipc_test.hpp"
#include "saeta/ipc/io/source.hpp"
#include "system_calls.hpp"

#include <array>
#include <cstring>

namespace saeta::ipc {
namespace {

detail::source source_of(std::span<const std::byte> bytes) { return detail::source_of(bytes, nullptr); }

TEST(source, contains_only_ranges_inside_its_bytes) {
  const std::array<std::byte, 100> memory{};
  const auto middle = std::span(memory).subspan(20, 50);
  const auto contains = [&](const std::byte* at, std::size_t size) {
    return detail::contains(middle, at, size);
  };
  for (std::size_t first = 0; first <= 100; first += 5) {
    for (std::size_t size = 0; first + size <= 100; size += 5) {
      const bool inside = size == 0 || (first >= 20 && first + size <= 70);
      EXPECT_EQ(contains(memory.data() + first, size), inside) << first << ' ' << size;
    }
  }
  EXPECT_TRUE(contains(memory.data() + 20, 50));
  EXPECT_FALSE(contains(memory.data() + 20, 51));
  EXPECT_FALSE(contains(memory.data() + 69, 2));
  EXPECT_FALSE(contains(memory.data() + 70, 1));
  EXPECT_FALSE(contains(memory.data() + 20, std::numeric_limits<std::size_t>::max()));
}

/// Returns the recognised format, or the error message.
std::string kind_of(std::string_view text) {
  try {
    return detail::recognise(*source_of(std::as_bytes(std::span(text)))) == container::file ? "file"
                                                                                            : "stream";
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::format);
    return refused.message();
  }
}

TEST(source, is_a_file_when_it_begins_and_ends_with_the_magic) {
  using ::testing::HasSubstr;
  EXPECT_EQ(kind_of("ARROW1ARROW1"), "file");
  EXPECT_EQ(kind_of("ARROW1......ARROW1"), "file");
  EXPECT_THAT(kind_of("ARROW1"), HasSubstr("truncated: 6 bytes"));
  EXPECT_THAT(kind_of("ARROW1RROW1"), HasSubstr("truncated: 11 bytes"));
  EXPECT_THAT(kind_of("ARROW1......ARROW2"), HasSubstr("truncated: 18 bytes"));
  EXPECT_THAT(kind_of(""), HasSubstr("it is empty"));
}

TEST(source, is_a_stream_when_it_begins_with_a_message) {
  const auto beginning = [](std::uint32_t first, std::size_t rest) {
    std::string text(sizeof first, '\0');
    std::memcpy(text.data(), &first, sizeof first);
    return text + std::string(rest, 'x');
  };
  EXPECT_EQ(kind_of(beginning(0xFFFFFFFF, 0)), "stream");
  EXPECT_EQ(kind_of(beginning(1, 1)), "stream");
  EXPECT_EQ(kind_of(beginning(40, 41)), "stream");
  EXPECT_EQ(kind_of(beginning(40, 40)), "stream")
      << "a length without the marker, and nothing behind the message";
  for (const std::string& none :
       {beginning(40, 39), beginning(0, 40), std::string("abc"), std::string(8, '\0')}) {
    EXPECT_THAT(kind_of(none), ::testing::HasSubstr("bytes: ")) << none.size();
  }
}

TEST(source, of_unknown_format_is_refused_with_its_first_eight_bytes) {
  const std::string expected =
      "bytes: not an Arrow file or stream: expected ARROW1 or a message, found the bytes ";
  EXPECT_EQ(kind_of(std::string_view("\0\0\0\0 and more", 13)), expected + "00 00 00 00 20 61 6e 64");
  EXPECT_EQ(kind_of(std::string_view("\x0a\0\xff", 3)), expected + "0a 00 ff");
}

TEST(source, of_another_known_format_is_refused_by_name) {
  const std::vector<std::pair<std::string, std::string>> formats{
      {"PAR1 and more", "it looks like a Parquet file: read it with read_parquet; expected ARROW1"},
      {"FEA1 and more", "a Feather V1 file"},
      {std::string("\x1f\x8b\x08\0\0\0\0\0", 8) + std::string(100'000, 'x'), "gzip"},
      {"\x28\xb5\x2f\xfd\x04", "a Zstandard frame"},
      {"\x04\x22\x4d\x18", "an LZ4 frame"},
      {"BZh91AY&", "bzip2"},
      {std::string("\xfd"
                   "7zXZ\0\0",
                   7),
       "xz"},
      {"PK\x03\x04rest", "a ZIP archive"},
      {"ORC rest", "an ORC file"},
      {"Obj\x01rest", "an Avro file"},
      {"\x89HDF\r\n\x1a\n", "an HDF5 file"},
      {"SQLite format 3", "an SQLite database"},
      {"\x93NUMPY\x01", "a NumPy file"},
      {"{\"id\": 1}", "JSON"},
      {" \n[1, 2]", "JSON"},
      {"id,name\n1,a\n", "text, such as CSV"},
      {"PARE and more", "an encrypted Parquet file: decrypt it with pyarrow.parquet"},
      {"\xef\xbb\xbf[1, 2]", "JSON"},
      {"\t\r {}", "JSON"},
      {"Name,Age\n", "text, such as CSV"},
      {"1,2\n", "text, such as CSV"},
      {"|a~|b|\n", "text, such as CSV"},
      {"  \n", "text, such as CSV"},
      {"\xef\xbb\xbfid,name\n", "text, such as CSV"},
      {"id", "text, such as CSV"}};
  for (const auto& [bytes, name] : formats) {
    EXPECT_THAT(kind_of(bytes),
                ::testing::AllOf(::testing::HasSubstr("it looks like "), ::testing::HasSubstr(name)));
  }
  for (const std::string bytes : {"text\x7f", "text\x80", "text\x1f", "\xc3\xa9"}) {
    EXPECT_THAT(kind_of(bytes), ::testing::Not(::testing::HasSubstr("it looks like"))) << "not ASCII";
  }
}

TEST(source, reads_ranges_of_memory_and_of_functions) {
  std::array<std::byte, 100> memory{};
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i] = static_cast<std::byte>(i);
  }
  const auto bytes = source_of(memory);
  std::array<std::byte, 10> piece{};
  bytes->read_at(90, piece);
  EXPECT_EQ(piece.back(), std::byte{99});
  EXPECT_EQ(bytes->view().data(), memory.data());
  EXPECT_TRUE(bytes->near_by());
  EXPECT_ERROR(bytes->read_at(91, piece), io, "10 bytes at offset 91 of 100");
  EXPECT_EQ(bytes->available(0, 100), 100U);
  EXPECT_EQ(bytes->available(1, 100), 99U);
  EXPECT_EQ(bytes->available(100, 1), 0U);
  EXPECT_EQ(bytes->available(101, 1), 0U);
  EXPECT_EQ(bytes->available(2, std::numeric_limits<std::uint64_t>::max()), 98U);

  std::size_t calls = 0;
  const auto called = detail::source_of("remote", 100, [&](std::uint64_t at, std::span<std::byte> target) {
    ++calls;
    bytes->read_at(at, target);
  });
  called->read_at(0, piece);
  EXPECT_EQ(piece.back(), std::byte{9});
  called->read_at(50, {});
  EXPECT_EQ(calls, 1U) << "nothing is asked for where nothing is wanted";
  EXPECT_TRUE(called->view().empty());
  EXPECT_FALSE(called->near_by());
  EXPECT_EQ(called->name(), "remote");
}

using files = ipc_test;

TEST_F(files, can_be_read_through_descriptor_0) {
  store(file("rows"), "rows");
  const support::without_standard_input closed;
  const auto rows = detail::open_source(file("rows"));
  EXPECT_TRUE(std::filesystem::equivalent("/proc/self/fd/0", file("rows")));
  EXPECT_EQ(rows->view().size(), 4U);
}

TEST_F(files, that_can_not_be_mapped_are_an_error) {
  const std::filesystem::path special =
      "/sys/devices/system/cpu/online"; // a regular file that can be read but not mapped
  std::error_code missing;
  if (!std::filesystem::is_regular_file(special, missing) || std::filesystem::file_size(special) == 0) {
    GTEST_SKIP() << "no " << special;
  }
  const auto opened = detail::open_source(special);
  EXPECT_ERROR(opened->view(), io, "can't map '/sys/devices/system/cpu/online'");
  EXPECT_ERROR(opened->view(), io, "can't map");
}

TEST_F(files, that_become_shorter_are_an_error_with_the_offset) {
  store(file("rows"), std::string(10'000, 'r'));
  const auto rows = detail::open_source(file("rows"));
  std::filesystem::resize_file(file("rows"), 6'000);
  std::vector<std::byte> target(2'000);
  rows->read_at(4'000, target);
  EXPECT_EQ(target.back(), std::byte{'r'});
  EXPECT_ERROR(rows->read_at(5'000, target), io, file("rows").string(), "2000 bytes at offset 5000",
               "was truncated", "ends at offset 6000");
  EXPECT_EQ(rows->size(), 10'000U) << "as it was";
}

TEST_F(files, that_are_not_kept_open_use_few_descriptors) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  constexpr int count = 300;
  const auto before = descriptors();
  std::vector<detail::source> sources;
  for (int i = 0; i < count; ++i) {
    store(file(concat(i)), concat("file ", 100 + i));
    sources.push_back(detail::open_source(file(concat(i)), false));
  }
  std::array<std::byte, 3> number{};
  for (int i = 0; i < count; ++i) {
    sources[static_cast<std::size_t>(i)]->read_at(5, number);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(number.data()), 3), concat(100 + i));
  }
  EXPECT_LE(descriptors(), before + 128);
  {
    const support::system_call_trap opening(support::system_call::open,
                                            [](std::size_t, const std::string&) { return 0; });
    for (int i = count - 128; i < count; ++i) {
      sources[static_cast<std::size_t>(i)]->read_at(5, number);
    }
    EXPECT_EQ(opening.calls(), 0U) << "those that were opened last are still open";
    sources[100]->read_at(5, number);
    EXPECT_EQ(opening.calls(), 1U);
  }
  EXPECT_EQ(sources.front()->view().size(), 8U);

  store(file("1"), "file 101, longer");
  EXPECT_ERROR(sources[1]->read_at(5, number), io, file("1").string(), "was replaced or changed");
  std::filesystem::remove(file("2"));
  EXPECT_ERROR(sources[2]->read_at(5, number), io, file("2").string());
  store(file("new"), "file 103");
  std::filesystem::rename(file("new"), file("3"));
  EXPECT_ERROR(sources[3]->read_at(5, number), io, file("3").string(), "was replaced or changed");
  sources[4]->read_at(5, number);
}

TEST_F(files, release_descriptor_and_mapping) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  const auto mapped = [&] {
    std::ifstream maps("/proc/self/maps");
    const std::string text{std::istreambuf_iterator<char>(maps), {}};
    return text.find(file("rows").string()) != std::string::npos;
  };
  store(file("rows"), std::string(10'000, 'r'));
  store(file("empty"), "");
  const auto before = descriptors();
  {
    const auto rows = detail::open_source(file("rows"));
    const auto empty = detail::open_source(file("empty"));
    EXPECT_EQ(descriptors(), before + 2);
    EXPECT_FALSE(mapped()) << "mapped before a view was requested";
    EXPECT_EQ(rows->view().size(), 10'000U);
    EXPECT_TRUE(mapped());
    EXPECT_EQ(rows->view()[9'999], std::byte{'r'});
    EXPECT_TRUE(empty->view().empty());
  }
  EXPECT_EQ(descriptors(), before);
  EXPECT_FALSE(mapped());
}

} // namespace
} // namespace saeta::ipc
