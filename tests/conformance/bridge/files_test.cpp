// Reading and writing a buffer through arrow::io files.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/buffer_io.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace saeta::conformance {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t size = 1000;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

class buffer_files : public bridge_test {
protected:
  [[nodiscard]] buffer_ptr zeros() const {
    buffer_ptr made = take(manager()->AllocateBuffer(size));
    check(buffer_writer(made).Write(std::string(size, '0').data(), size));
    return made;
  }
  static void expect_range(const arrow::Status& status, std::int64_t position, std::int64_t bytes) {
    EXPECT_TRUE(status.IsIndexError()) << status.ToString();
    EXPECT_THAT(status.message(), AllOf(HasSubstr(concat("position ", position)),
                                        HasSubstr(concat(bytes, " bytes")), HasSubstr(concat(size))));
  }
};

TEST_P(buffer_files, can_be_read_as_slices_and_as_copies) {
  const buffer_ptr whole = there(text(size));
  buffer_reader file(whole);
  EXPECT_EQ(take(file.GetSize()), size);
  const buffer_ptr part = take(file.Read(100));
  EXPECT_EQ(part->address(), whole->address());
  EXPECT_TRUE(own_bytes(*part));
  EXPECT_EQ(take(file.Tell()), 100);
  std::string copied(50, ' ');
  EXPECT_EQ(take(file.Read(50, copied.data())), 50);
  EXPECT_EQ(copied, text(size).substr(100, 50));
  EXPECT_EQ(take(file.ReadAt(990, 50, copied.data())), 10);
  EXPECT_EQ(copied.substr(0, 10), text(size).substr(990));
  EXPECT_EQ(take(file.ReadAt(990, 50))->size(), 10);
  EXPECT_EQ(take(file.Tell()), 150);
  check(file.Seek(size));
  EXPECT_EQ(take(file.Read(50))->size(), 0);
  EXPECT_EQ(take(file.Read(50, copied.data())), 0);
}

TEST_P(buffer_files, refuse_reads_outside_of_their_bytes) {
  buffer_reader file(there(text(size)));
  char out = 0;
  EXPECT_TRUE(file.Read(-1).status().IsInvalid());
  EXPECT_TRUE(file.Read(-1, &out).status().IsInvalid());
  EXPECT_TRUE(file.ReadAt(-1, 1).status().IsInvalid());
  EXPECT_TRUE(file.Seek(-1).IsInvalid());
  expect_range(file.Seek(size + 1), size + 1, 0);
  expect_range(file.ReadAt(size + 1, 1).status(), size + 1, 1);
  expect_range(file.ReadAt(995, 6, false).status(), 995, 6);
  expect_range(file.ReadAt(995, largest, false, &out).status(), 995, largest);
  EXPECT_EQ(take(file.ReadAt(999, largest))->size(), 1);
  check(file.Close());
  EXPECT_TRUE(file.closed());
  EXPECT_TRUE(file.Read(1).status().IsInvalid());
  EXPECT_TRUE(file.Tell().status().IsInvalid());
}

TEST_P(buffer_files, copy_the_written_bytes_before_the_caller_can_change_them) {
  const buffer_ptr target = zeros();
  buffer_writer file(target);
  check(file.SetBufferSize(64));
  check(file.Write("abc", 3));
  EXPECT_EQ(file.num_bytes_buffered(), 3);
  check(file.SetBufferSize(2));
  EXPECT_EQ(file.num_bytes_buffered(), 0);
  EXPECT_EQ(here(target).substr(0, 4), "abc0");
}

TEST_P(buffer_files, are_written_immediately_or_when_flushed) {
  for (const std::int64_t buffered : {0, 1, 64, 5000}) {
    const buffer_ptr target = zeros();
    buffer_writer file(target);
    check(file.SetBufferSize(buffered));
    EXPECT_EQ(file.buffer_size(), buffered);
    std::string expected(size, '0');
    const auto write = [&](std::size_t bytes) {
      const auto at = static_cast<std::size_t>(take(file.Tell()));
      check(file.Write(text(bytes).data(), static_cast<std::int64_t>(bytes)));
      expected.replace(at, bytes, text(bytes));
    };
    for (const std::size_t bytes : {1U, 0U, 40U, 30U, 64U, 100U}) {
      write(bytes);
      EXPECT_LE(file.num_bytes_buffered(), buffered);
    }
    check(file.Seek(500));
    EXPECT_EQ(file.num_bytes_buffered(), 0);
    write(10);
    check(file.WriteAt(900, "0123456789", 10));
    expected.replace(900, 10, "0123456789");
    EXPECT_EQ(take(file.Tell()), 910);
    check(file.Flush());
    EXPECT_EQ(file.num_bytes_buffered(), 0);
    EXPECT_EQ(here(target), expected);
    check(file.Seek(990));
    write(10);
    write(0);
    EXPECT_EQ(take(file.Tell()), size);
    check(file.WriteAt(size, nullptr, 0));
    check(file.Seek(size));
    check(file.Close());
    EXPECT_EQ(here(target), expected);
    EXPECT_TRUE(file.closed());
    EXPECT_TRUE(file.Write("x", 1).IsInvalid());
    EXPECT_TRUE(file.Flush().IsInvalid());
    check(file.Close());
  }
}

TEST_P(buffer_files, finish_writes_before_the_call_returns) {
  const buffer_ptr target = zeros();
  const buffer sink = make(size);
  const stream_lease reader = ctx()->borrow_stream();
  const stream_lease theirs = ctx()->borrow_stream(); // a user of the address without a use token
  const std::unique_ptr<gate> held = close_gate(reader.ref().native_handle());
  {
    use_token token(reader.ref(), {reads(*own_bytes(*target)), writes(sink)});
    device().copy(token.span<char>(sink).data(), reinterpret_cast<const void*>(target->address()), size,
                  within(), reader.ref().native_handle());
    token.finish();
  }
  buffer_writer file(target);
  open_while_the_host_waits(held, [&] { check(file.Write(text(size).data(), size)); });
  const buffer second = make(size);
  {
    use_token token(theirs.ref(), {writes(second)});
    device().copy(token.span<char>(second).data(), reinterpret_cast<const void*>(target->address()), size,
                  within(), theirs.ref().native_handle());
    token.finish();
  }
  if (held) {
    held->open(); // still closed if the call did not wait
  }
  const std::string expected = text(size);
  EXPECT_EQ(read(second), std::vector<std::uint8_t>(expected.begin(), expected.end()));
  EXPECT_EQ(read(sink), std::vector<std::uint8_t>(size, '0'));
}

TEST_P(buffer_files, are_flushed_when_they_are_dropped) {
  const buffer_ptr target = zeros();
  {
    buffer_writer file(target);
    check(file.SetBufferSize(100));
    check(file.Write("abc", 3));
    EXPECT_EQ(file.num_bytes_buffered(), 3);
    EXPECT_EQ(here(target).substr(0, 3), "000");
  }
  EXPECT_EQ(here(target).substr(0, 3), "abc");
}

TEST_P(buffer_files, refuse_writes_outside_of_their_bytes) {
  const buffer_ptr target = zeros();
  for (const std::int64_t buffered : {0, 64, 5000}) {
    buffer_writer file(target);
    check(file.SetBufferSize(buffered));
    const std::string more(size + 1, 'x');
    expect_range(file.Write(more.data(), size + 1), 0, size + 1);
    expect_range(file.WriteAt(995, more.data(), 6), 995, 6);
    expect_range(file.WriteAt(995, more.data(), largest), 995, largest);
    expect_range(file.Seek(size + 1), size + 1, 0);
    EXPECT_TRUE(file.WriteAt(-1, more.data(), 1).IsInvalid());
    EXPECT_TRUE(file.Write(more.data(), -1).IsInvalid());
    EXPECT_TRUE(file.Seek(-1).IsInvalid());
    EXPECT_TRUE(file.SetBufferSize(-1).IsInvalid());
    EXPECT_EQ(take(file.Tell()), 0);
    check(file.Close());
    EXPECT_EQ(here(target), std::string(size, '0'));
  }
}

TEST_P(buffer_files, are_opened_only_over_buffers_of_a_context) {
  EXPECT_THROW(buffer_writer(there("immutable")), error);
  EXPECT_THROW(buffer_writer(buffer_ptr(arrow::Buffer::FromString("of libarrow"))), error);
  EXPECT_THROW(buffer_reader(buffer_ptr(arrow::Buffer::FromString("of libarrow"))), error);
  EXPECT_TRUE(arrow::Buffer::GetWriter(there("immutable")).status().IsInvalid());
  EXPECT_TRUE(arrow::Buffer::GetWriter(zeros()).ok());
  EXPECT_TRUE(arrow::Buffer::GetReader(zeros()).ok());
}

SAETA_CONFORMANCE_SUITE(buffer_files);

} // namespace
} // namespace saeta::conformance
