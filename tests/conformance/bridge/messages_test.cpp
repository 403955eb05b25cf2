// Record batch messages in device memory, valid and broken.
#include "conformance/bridge/bridge_test.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/message.hpp"
#include "unit/base/raises.hpp"

#include <arrow/ipc/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace saeta::conformance {
namespace {

using ::testing::HasSubstr;

class bridge_messages : public bridge_test {
protected:
  void TearDown() override {
    EXPECT_TRUE(ctx()->wait_for_releases(std::chrono::seconds(20)));
    EXPECT_EQ(ctx()->reports().statistics().ledger.buffers, 0U);
    context_test::TearDown();
  }

  [[nodiscard]] buffer_ptr sent(const batch_ptr& batch) const {
    return arrow_buffer(serialize_batch(ctx(), batch));
  }
  /// Reads a message. Its dictionaries, which the message does not contain, are those of `like`.
  [[nodiscard]] batch_ptr read(const batch_ptr& like, const buffer_ptr& message) const {
    arrow::ipc::DictionaryMemo memo;
    check(memo.fields().AddSchemaFields(*like->schema()));
    for (const auto& [id, values] : take(arrow::ipc::CollectDictionaries(*like, memo.fields()))) {
      check(memo.AddDictionary(id, values->data()));
    }
    return read_batch(ctx(), like->schema(), &memo, message, arrow::default_memory_pool());
  }
  static batch_ptr one(const array_ptr& values) {
    return arrow::RecordBatch::Make(arrow::schema({arrow::field("x", values->type())}), values->length(),
                                    {values});
  }
  static std::string encoded(const batch_ptr& batch, arrow::ipc::IpcWriteOptions options = {}) {
    return take(arrow::ipc::SerializeRecordBatch(*batch, options))->ToString();
  }
  [[nodiscard]] error refusal(const batch_ptr& like, const std::string& message) const {
    try {
      static_cast<void>(read(like, there(message)));
    } catch (const error& thrown) {
      return thrown;
    }
    return {errc::closed, "nothing was thrown"};
  }
};

TEST_P(bridge_messages, hold_batches_of_every_type) {
  const batch_ptr original = all_types();
  const buffer_ptr message = sent(original);
  const batch_ptr seen = read(original, message);
  EXPECT_EQ(seen->device_type(), manager()->device()->device_type());
  const auto dictionary = seen->GetColumnByName("dictionary")->data()->dictionary;
  for_each_buffer(*seen, [&](const buffer_ptr& each) {
    EXPECT_EQ(each->is_cpu(), ctx()->on_host());
    const bool of_dictionary = std::ranges::find(dictionary->buffers, each) != dictionary->buffers.end();
    if (each->size() != 0 && !of_dictionary) {
      EXPECT_GE(each->address(), message->address());
      EXPECT_LE(each->address() + static_cast<std::size_t>(each->size()),
                message->address() + static_cast<std::size_t>(message->size()));
    }
  });
  EXPECT_TRUE(on_cpu(seen)->Equals(*original));
}

TEST_P(bridge_messages, are_made_of_batches_on_the_device_and_of_slices) {
  const batch_ptr original = all_types();
  const batch_ptr there = take(original->CopyTo(manager()));
  EXPECT_TRUE(on_cpu(read(original, sent(there)))->Equals(*original));
  const batch_ptr part = original->Slice(1, 3);
  EXPECT_TRUE(on_cpu(read(original, sent(part)))->Equals(*part));
  EXPECT_TRUE(on_cpu(read(original, sent(there->Slice(1, 3))))->Equals(*part));
  EXPECT_EQ(ctx()->copies().read_counters().exports > 0, true);
}

TEST_P(bridge_messages, are_one_transfer) {
  const batch_ptr original = all_types();
  ctx()->copies().reset_counters();
  const buffer message = serialize_batch(ctx(), original);
  const counter_values now = ctx()->copies().read_counters();
  EXPECT_EQ((ctx()->on_host() ? now.host_to_host : now.host_to_device).transfers, 1U);
  EXPECT_EQ(now.allocations, 1U);
}

TEST_P(bridge_messages, in_foreign_host_memory_are_read_in_place) {
  const batch_ptr original = all_types();
  const buffer_ptr message = arrow::Buffer::FromString(encoded(original));
  const batch_ptr seen = read(original, message);
  for_each_buffer(*seen, [&](const buffer_ptr& each) { EXPECT_TRUE(each->is_cpu()); });
  check(seen->ValidateFull());
  EXPECT_TRUE(seen->Equals(*original));
}

TEST_P(bridge_messages, keep_empty_buffers) {
  const batch_ptr original = one(array(arrow::StringBuilder(), "", "", ""));
  const batch_ptr seen = read(original, sent(original));
  const buffer_ptr letters = seen->column_data(0)->buffers[2];
  EXPECT_EQ(letters->size(), 0);
  EXPECT_EQ(letters->is_cpu(), ctx()->on_host());
  EXPECT_TRUE(on_cpu(seen)->Equals(*original));
}

TEST_P(bridge_messages, may_be_empty) {
  const batch_ptr original = all_types()->Slice(0, 0);
  EXPECT_TRUE(on_cpu(read(original, sent(original)))->Equals(*original));
  const batch_ptr bare = arrow::RecordBatch::Make(arrow::schema({}), 7, arrow::ArrayVector{});
  EXPECT_EQ(read(bare, sent(bare))->num_rows(), 7);
  EXPECT_EQ(read_message(there(""), arrow::default_memory_pool()), nullptr);
  EXPECT_EQ(read_message(there(std::string("\xff\xff\xff\xff\0\0\0\0", 8)), arrow::default_memory_pool()),
            nullptr);
}

TEST_P(bridge_messages, are_decompressed) {
  const batch_ptr original = all_types();
  for (const auto codec : {arrow::Compression::LZ4_FRAME, arrow::Compression::ZSTD}) {
    arrow::ipc::IpcWriteOptions options;
    options.codec = take(arrow::util::Codec::Create(codec));
    const batch_ptr seen = read(original, there(encoded(original, options)));
    EXPECT_EQ(seen->device_type(), manager()->device()->device_type());
    EXPECT_TRUE(on_cpu(seen)->Equals(*original));
  }
}

TEST_P(bridge_messages, in_page_locked_memory_are_read_in_place) {
  const batch_ptr original = all_types();
  const auto pinned = memory_manager_of(ctx(), memory_kind::pinned);
  const buffer_ptr message = take(arrow::Buffer::Copy(arrow::Buffer::FromString(encoded(original)), pinned));
  const batch_ptr seen = read(original, message);
  EXPECT_EQ(seen->device_type(), pinned->device()->device_type());
  for_each_buffer(*seen,
                  [&](const buffer_ptr& each) { EXPECT_EQ(each->device_type(), seen->device_type()); });
  EXPECT_TRUE(on_cpu(seen)->Equals(*original));
}

TEST_P(bridge_messages, of_old_versions_are_read) {
  const batch_ptr original = one(array(arrow::Int64Builder(), 1, nullptr, 3));
  arrow::ipc::IpcWriteOptions options;
  options.write_legacy_ipc_format = true;
  const std::string old = encoded(original, options);
  EXPECT_NE(old.substr(0, 4), "\xff\xff\xff\xff") << "no mark in front";
  EXPECT_TRUE(on_cpu(read(original, there(old)))->Equals(*original));
}

TEST_P(bridge_messages, have_recounted_null_counts) {
  const batch_ptr original = one(array(arrow::Int64Builder(), 1, nullptr, 3, nullptr));
  std::string message = encoded(original);
  // The metadata of the only field node: 4 rows with 2 nulls.
  const std::int64_t node[] = {4, 2};
  const std::size_t at = message.find(std::string_view(reinterpret_cast<const char*>(node), sizeof(node)));
  ASSERT_NE(at, std::string::npos);
  const std::int64_t unknown = -1;
  std::memcpy(message.data() + at + 8, &unknown, 8);
  const batch_ptr seen = read(original, there(message));
  EXPECT_EQ(seen->column(0)->null_count(), 2);
  EXPECT_TRUE(on_cpu(seen)->Equals(*original));
  for (const std::int64_t nulls : {std::int64_t{5}, std::int64_t{-2}}) {
    std::memcpy(message.data() + at + 8, &nulls, 8);
    EXPECT_THAT(refusal(original, message).message(), HasSubstr(saeta::concat(nulls, " nulls")));
  }
}

TEST_P(bridge_messages, with_wrong_lengths_are_refused_with_the_number) {
  const batch_ptr original = one(array(arrow::Int64Builder(), 1, 2, 3));
  const std::string whole = encoded(original);
  const auto with = [&](std::size_t at, std::int32_t value) {
    std::string changed = whole;
    std::memcpy(changed.data() + at, &value, sizeof(value));
    return changed;
  };
  EXPECT_THAT(refusal(original, with(4, 1 << 30)).message(), HasSubstr("1073741824"));
  EXPECT_THAT(refusal(original, with(4, -7)).message(), HasSubstr("-7"));
  EXPECT_THAT(refusal(original, whole.substr(0, 6)).message(), HasSubstr("6 bytes"));
  EXPECT_THAT(refusal(original, whole.substr(0, whole.size() - 8)).message(), HasSubstr("a body of"));
  EXPECT_EQ(refusal(original, take(arrow::ipc::SerializeSchema(*original->schema()))->ToString()).code(),
            errc::format);
  // The metadata of a buffer: 24 bytes at offset 0 of the body.
  const std::int64_t place[] = {0, 24};
  const std::size_t at = whole.find(std::string_view(reinterpret_cast<const char*>(place), sizeof(place)));
  ASSERT_NE(at, std::string::npos);
  EXPECT_THAT(refusal(original, with(at + 8, 1 << 20)).message(), HasSubstr("1048576 bytes at offset 0"));
  EXPECT_THAT(refusal(original, with(at, 3)).message(), HasSubstr("offset 3"));
  EXPECT_THAT(refusal(original, with(at + 8, 8)).code(), errc::format) << "24 bytes are needed";
}

TEST_P(bridge_messages, that_are_truncated_in_their_prefix_are_refused) {
  const std::string mark("\xff\xff\xff\xff\x10\0\0\0", 8);
  const std::string old_end(7, '\0'); // the end of a stream before Arrow 0.15, without a continuation marker
  for (const std::size_t size : {1U, 3U, 4U, 5U, 7U}) {
    std::string message;
    EXPECT_EQ(unit::code_raised_by(
                  [&] {
                    static_cast<void>(
                        read_message(there(mark.substr(0, size)), arrow::default_memory_pool()));
                  },
                  &message),
              errc::format);
    EXPECT_EQ(message, saeta::concat("IPC message: truncated in its prefix, after ", size, " bytes"));
    if (size >= 4) {
      EXPECT_EQ(read_message(there(old_end.substr(0, size)), arrow::default_memory_pool()), nullptr) << size;
    }
  }
}

TEST_P(bridge_messages, whose_body_is_not_aligned_are_refused) {
  const batch_ptr original = one(array(arrow::Int64Builder(), 1, 2, 3));
  const std::string whole = encoded(original);
  const buffer_ptr shifted =
      arrow::SliceBuffer(there("x" + whole), 1, static_cast<std::int64_t>(whole.size()));
  const auto attempt = [&] { return read(original, shifted); };
  if (ctx()->on_host()) {
    EXPECT_TRUE(attempt()->Equals(*original)) << "the CPU can read unaligned values";
    return;
  }
  std::string message;
  EXPECT_EQ(unit::code_raised_by([&] { static_cast<void>(attempt()); }, &message), errc::format);
  EXPECT_THAT(message, HasSubstr("not a multiple of 8"));
}

/// Saeta swaps the bytes, because libarrow does not do it for a single message.
TEST_P(bridge_messages, of_another_byte_order_are_swapped) {
  const auto foreign = [](const batch_ptr& of) {
    return of->schema()->WithEndianness(arrow::Endianness::Native == arrow::Endianness::Little
                                            ? arrow::Endianness::Big
                                            : arrow::Endianness::Little);
  };
  const array_ptr numbers = array(arrow::Int32Builder(), 0x01000000, nullptr, 0x02000000);
  const batch_ptr plain = one(numbers);
  const batch_ptr seen =
      read_batch(ctx(), foreign(plain), nullptr, there(encoded(plain)), arrow::default_memory_pool());
  EXPECT_TRUE(seen->schema()->is_native_endian());
  EXPECT_TRUE(on_cpu(seen)->column(0)->Equals(*array(arrow::Int32Builder(), 1, nullptr, 2)));
  // Offsets are swapped, too: unswapped, they would refer to 2^24 bytes and be refused.
  const batch_ptr strings = one(array(arrow::StringBuilder(), "one", nullptr, "three"));
  std::string bytes = encoded(strings);
  const std::array<std::int32_t, 4> offsets{0, 3, 3, 8};
  const std::array<std::int32_t, 4> turned{0, 3 << 24, 3 << 24, 8 << 24};
  const auto at = bytes.find(std::string_view(reinterpret_cast<const char*>(offsets.data()), sizeof offsets));
  ASSERT_NE(at, std::string::npos);
  std::memcpy(bytes.data() + at, turned.data(), sizeof turned);
  EXPECT_TRUE(on_cpu(read_batch(ctx(), foreign(strings), nullptr, there(bytes), arrow::default_memory_pool()))
                  ->Equals(*strings));
}

TEST_P(bridge_messages, can_be_made_of_batches_whose_children_are_on_the_device) {
  const array_ptr words = array(arrow::StringBuilder(), "one", "two", "three");
  const auto there_of = [&](const array_ptr& of) { return take(of->CopyTo(manager()))->data(); };
  const auto structs = take(arrow::StructArray::Make({words}, std::vector<std::string>{"s"}))->data()->Copy();
  structs->child_data = {there_of(words)};
  const auto codes = take(arrow::DictionaryArray::FromArrays(arrow::dictionary(arrow::int32(), arrow::utf8()),
                                                             array(arrow::Int32Builder(), 2, 0, 1), words))
                         ->data()
                         ->Copy();
  const batch_ptr coded = one(arrow::MakeArray(codes->Copy()));
  codes->dictionary = there_of(words);
  const batch_ptr pair = one(arrow::MakeArray(structs));
  const batch_ptr whole = one(take(arrow::StructArray::Make({words}, std::vector<std::string>{"s"})));
  EXPECT_TRUE(on_cpu(read(whole, sent(pair)))->Equals(*whole));
  EXPECT_TRUE(on_cpu(read(coded, sent(one(arrow::MakeArray(codes)))))->Equals(*coded));
}

/// libarrow does not check whether the buffers of a body in device memory are long enough.
TEST_P(bridge_messages, whose_buffers_or_children_are_too_short_are_refused) {
  const auto refused = [&](const batch_ptr& original, const std::vector<std::int64_t>& from,
                           const std::vector<std::int64_t>& to) {
    std::string bytes = encoded(original);
    const std::string_view wanted(reinterpret_cast<const char*>(from.data()), from.size() * 8);
    const std::size_t at = bytes.find(wanted);
    ASSERT_NE(at, std::string::npos);
    ASSERT_EQ(bytes.find(wanted, at + 1), std::string::npos);
    std::memcpy(bytes.data() + at, to.data(), to.size() * 8);
    EXPECT_EQ(name_of(refusal(original, bytes).code()), name_of(errc::format))
        << original->schema()->ToString() << refusal(original, bytes).message();
  };
  using namespace arrow;
  const array_ptr nine = array(Int64Builder(), 1, nullptr, 3, 4, 5, 6, 7, 8, 9);
  refused(one(nine), {0, 2, 8, 72}, {0, 1, 8, 72}); // the validity of nine rows needs two bytes
  Int8Builder many;
  check(many.AppendNulls(72));
  refused(one(take(many.Finish())), {0, 9, 16, 72}, {0, 8, 16, 72}); // that of 72 rows needs nine
  refused(one(array(StringBuilder(), "a", "b", "c")), {0, 0, 0, 16}, {0, 0, 0, 12}); // three of four offsets
  const array_ptr tags = array(Int8Builder(), 0, 1, 0, 1, 0);
  const array_ptr five = array(Int64Builder(), 1, 2, 3, 4, 5);
  refused(one(take(SparseUnionArray::Make(*tags, {five, five}))), {5, 0, 5, 0, 5, 0}, {5, 0, 5, 0, 4, 0});
  refused(one(take(StructArray::Make({five, five}, std::vector<std::string>{"a", "b"}))), {5, 0, 5, 0, 5, 0},
          {5, 0, 5, 0, 4, 0});
  refused(one(take(FixedSizeListArray::FromArrays(array(Int8Builder(), 1, 2, 3, 4, 5, 6), 2))), {3, 0, 6, 0},
          {3, 0, 5, 0});
}

TEST_P(bridge_messages, with_invalid_offsets_are_refused_with_the_reason) {
  if (ctx()->on_host()) {
    GTEST_SKIP() << "there libarrow's own check of the structure is what it is";
  }
  const array_ptr fine = array(arrow::StringBuilder(), "a", "b", "c");
  const array_ptr texts = array(arrow::StringBuilder(), "one", "two", "three");
  const batch_ptr original = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("fine", fine->type()), arrow::field("x", texts->type())}), 3,
      std::vector<array_ptr>{fine, texts});
  const std::string whole = encoded(original);
  const std::int32_t offsets[] = {0, 3, 6, 11};
  const std::size_t at =
      whole.find(std::string_view(reinterpret_cast<const char*>(offsets), sizeof(offsets)));
  ASSERT_NE(at, std::string::npos);
  for (const auto& [first, last] : {std::pair{-4, 11}, {7, 5}, {0, 12}}) {
    std::string changed = whole;
    std::memcpy(changed.data() + at, &first, 4);
    std::memcpy(changed.data() + at + 12, &last, 4);
    EXPECT_THAT(refusal(original, changed).message(),
                HasSubstr(saeta::concat("offsets of string run from ", first, " to ", last,
                                        ", expected to rise from 0 to at most 11")));
  }
}

TEST_P(bridge_messages, with_values_out_of_range_are_refused) {
  const batch_ptr original = one(array(arrow::StringBuilder(), "one", "two", "three"));
  const std::string whole = encoded(original);
  const std::int32_t offsets[] = {0, 3, 6, 11};
  const std::size_t at =
      whole.find(std::string_view(reinterpret_cast<const char*>(offsets), sizeof(offsets)));
  ASSERT_NE(at, std::string::npos);
  for (const auto& [which, value] : {std::pair{3, 1 << 20}, {1, 100}, {0, -1}, {2, -5}}) {
    std::string changed = whole;
    std::memcpy(changed.data() + at + static_cast<std::size_t>(which) * 4, &value, 4);
    if (ctx()->on_host() && which != 3 && which != 0) {
      continue; // libarrow checks the structure of these types itself
    }
    EXPECT_EQ(refusal(original, changed).code(), errc::format) << which << ": " << value;
  }
}

TEST_P(bridge_messages, that_are_truncated_or_damaged_are_refused_or_valid) {
  const array_ptr strings = array(arrow::StringBuilder(), "one", nullptr, "three");
  const array_ptr views = array(arrow::StringViewBuilder(), "one", nullptr, "longer than twelve bytes");
  for (const batch_ptr& original :
       {one(strings), one(views),
        one(take(arrow::ListArray::FromArrays(*array(arrow::Int32Builder(), 0, 2, 3), *strings)))}) {
    const std::string whole = encoded(original);
    std::int32_t metadata = 0;
    std::memcpy(&metadata, whole.data() + 4, 4);
    const auto attempt = [&](const std::string& bytes) {
      try {
        static_cast<void>(on_cpu(read(original, there(bytes))));
      } catch (const error&) {
      }
    };
    for (std::size_t size = 0; size < whole.size(); size += 3) {
      attempt(whole.substr(0, size));
    }
    for (std::size_t at = 0; at < 8 + static_cast<std::size_t>(metadata); ++at) {
      for (const int mask : {0x01, 0x80, 0xff}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ mask);
        attempt(changed);
      }
    }
  }
}

TEST_P(bridge_messages, are_read_after_their_pending_writer) {
  const batch_ptr original = one(array(arrow::StringBuilder(), "one", "two", "three"));
  const std::string whole = encoded(original);
  const buffer_ptr target = take(manager()->AllocateBuffer(static_cast<std::int64_t>(whole.size())));
  const stream_lease theirs = ctx()->borrow_stream();
  const std::unique_ptr<gate> held = close_gate(theirs.ref().native_handle());
  device().copy(reinterpret_cast<void*>(target->address()), whole.data(), whole.size(),
                ctx()->on_host() ? copy_kind::host_to_host : copy_kind::host_to_device,
                theirs.ref().native_handle());
  batch_ptr seen;
  open_while_the_host_waits(held, [&] { seen = read(original, target); });
  EXPECT_TRUE(on_cpu(seen)->Equals(*original));
}

SAETA_CONFORMANCE_SUITE(bridge_messages);

} // namespace
} // namespace saeta::conformance
