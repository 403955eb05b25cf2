// Reads of uncompressed bodies into a host context are views, which keep the source alive.

#include "ipc_test.hpp"
#include "saeta/column/schema.hpp"
#include "unit/staging/pread_trap.hpp"

#include <arrow/memory_pool.h>

#include <cstring>
#include <memory>

namespace saeta::ipc {
namespace {

using support::same_contents;

class view : public ipc_test {
protected:
  /// Bytes in 64-byte aligned memory, as in a mapped file, with shared ownership.
  struct placed {
    std::shared_ptr<std::byte> memory;
    std::span<const std::byte> bytes;
  };
  static placed place(std::string_view from, std::size_t shift = 0) {
    constexpr std::align_val_t alignment{64};
    const std::shared_ptr<std::byte> memory(
        static_cast<std::byte*>(::operator new(from.size() + shift, alignment)),
        [](std::byte* p) { ::operator delete (p, std::align_val_t{64}); });
    std::memcpy(memory.get() + shift, from.data(), from.size());
    return {memory, {memory.get() + shift, from.size()}};
  }

  static bool inside(const buffer& part, std::span<const std::byte> bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
    return part.size() == 0 ||
           (part.address() >= first && part.address() + part.size() <= first + bytes.size());
  }

  static bool all_inside(const table& seen, std::span<const std::byte> bytes) {
    for (const batch& part : seen.batches()) {
      for (const column& column : part.columns) {
        for (const buffer& buffer : column.buffers()) {
          if (!inside(buffer, bytes)) {
            return false;
          }
        }
      }
    }
    return true;
  }
};

TEST_F(view, an_uncompressed_body_is_not_copied) {
  const table original = every_type();
  for (const auto format : {container::file, container::stream}) {
    const auto source = place(write_bytes(original, {format}));
    ctx()->copies().reset_counters();
    const table seen = reader::open(source.bytes, source.memory)->read_all(ctx());
    const auto counted = ctx()->copies().read_counters();
    EXPECT_EQ(counted.host_to_host, traffic{});
    EXPECT_EQ(counted.host_to_device, traffic{});
    EXPECT_GT(counted.imports, 0U);
    EXPECT_TRUE(all_inside(seen, source.bytes));
    EXPECT_TRUE(same_contents(seen, original));
  }
}

TEST_F(view, the_metadata_of_a_mapped_file_is_read_from_the_mapping) {
  for (const auto format : {container::file, container::stream}) {
    write(every_type(), file("a"), {format});
    const auto reading = reader::open(file("a"));
    EXPECT_EQ(reading->next(ctx())->rows, 200);
    const support::pread_trap trap([](std::size_t) { return support::pread_trap::verdict{}; });
    std::int64_t rows = 0;
    while (const auto batch = reading->next(ctx())) {
      rows += batch->rows;
    }
    EXPECT_EQ(rows, 78);
    EXPECT_EQ(trap.calls(), 0U);
  }
}

TEST_F(view, a_selection_of_columns_is_not_copied_either) {
  const table original = every_type();
  const auto source = place(write_bytes(original));
  const auto names = std::vector{original.fields().fields[7].name, original.fields().fields[2].name};
  ctx()->copies().reset_counters();
  const table seen = reader::open(source.bytes, source.memory, {.columns = names})->read_all(ctx());
  EXPECT_EQ(ctx()->copies().read_counters().host_to_host, traffic{});
  EXPECT_TRUE(all_inside(seen, source.bytes));
}

TEST_F(view, the_bytes_live_as_long_as_a_column_that_views_them) {
  const table original = every_type();
  auto source = place(write_bytes(original));
  const std::weak_ptr<std::byte> alive = source.memory;
  auto reading = reader::open(source.bytes, std::move(source.memory));
  std::optional<table> seen = reading->read_all(ctx());
  reading.reset();
  EXPECT_FALSE(alive.expired());
  std::optional<column> last = seen->batches()[3].columns[8];
  seen.reset();
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(support::cells(*last), support::cells(original.batches()[3].columns[8]));
  last.reset();
  EXPECT_TRUE(alive.expired());
}

TEST_F(view, a_file_may_be_removed_while_columns_view_it) {
  const table original = every_type();
  for (const auto body : {compression::none, compression::lz4}) {
    write(original, file("gone.arrow"), {.body = body});
    const table seen = read(file("gone.arrow"));
    std::filesystem::remove(file("gone.arrow"));
    EXPECT_TRUE(same_contents(seen, original));
  }
}

TEST_F(view, a_decoded_body_is_used_without_another_copy) {
  const table original = every_type();
  for (const auto body : {compression::lz4, compression::zstd}) {
    const auto source = place(write_bytes(original, {.body = body}));
    ctx()->copies().reset_counters();
    const auto reading = reader::open(source.bytes, source.memory);
    std::vector<batch> batches;
    while (auto each = reading->next(ctx())) {
      batches.push_back(std::move(*each));
    }
    const table seen = table::make(ctx(), reading->fields(), std::move(batches));
    EXPECT_TRUE(same_contents(seen, original));
    EXPECT_EQ(ctx()->copies().read_counters().host_to_host, traffic{});
    EXPECT_FALSE(all_inside(seen, source.bytes));
  }
}

TEST_F(view, copies_can_be_forbidden) {
  const table original = every_type();
  const auto plain = place(write_bytes(original));
  const table seen = reader::open(plain.bytes, plain.memory, {.copy = copy_policy::never})->read_all(ctx());
  EXPECT_TRUE(same_contents(seen, original));

  const auto packed = place(write_bytes(original, {.body = compression::zstd}));
  const auto reading = reader::open(packed.bytes, packed.memory, {.copy = copy_policy::never});
  EXPECT_ERROR(reading->next(ctx()), exchange, "column '", "compressed");
}

TEST_F(view, forbidden_copies_include_the_first_column) {
  const auto decoded_bytes = [] { return arrow::default_memory_pool()->bytes_allocated(); };
  const auto before = decoded_bytes();
  const table original = support::random_table(ctx(), {data_type(type_id::int64)}, {.batch_rows = {500}});
  const auto packed = place(write_bytes(original, {.body = compression::lz4}));
  const auto reading = reader::open(packed.bytes, packed.memory, {.copy = copy_policy::never});
  EXPECT_ERROR(reading->next(ctx()), exchange, "column '0:int64'", "compressed");
  EXPECT_EQ(decoded_bytes(), before) << "a refused buffer is not kept";

  const auto shifted = place(write_bytes(original), 1);
  EXPECT_ERROR(reader::open(shifted.bytes, shifted.memory, {.copy = copy_policy::never})->next(ctx()),
               exchange, "can't be a view of the source");
}

TEST_F(view, forbidden_copies_include_children) {
  const data_type rows = data_type::nested("+s", {{"a", data_type(type_id::int64), true, {}}});
  const auto source = support::random_array(rows, {500, 0, support::nulls::absent, true}, 1);
  const table original = support::table_of(ctx(), {{{"s", rows, true, {}}}, {}}, {{source}});
  const auto packed = place(write_bytes(original, {.body = compression::lz4}));
  EXPECT_ERROR(reader::open(packed.bytes, packed.memory, {.copy = copy_policy::never})->next(ctx()), exchange,
               "column 's'", "compressed");
}

TEST_F(view, unaligned_bytes_are_copied) {
  const table original = every_type();
  for (const auto format : {container::file, container::stream}) {
    const auto source = place(write_bytes(original, {format}), 1);
    EXPECT_TRUE(same_contents(reader::open(source.bytes, source.memory)->read_all(ctx()), original));
  }
}

TEST_F(view, a_table_can_be_written_to_the_file_that_it_views) {
  const table original = every_type();
  write(original, file("same.arrow"));
  const table seen = read(file("same.arrow"));
  const std::string before = load(file("same.arrow"));
  write(seen.slice(0, 100), file("same.arrow"), {container::stream, compression::lz4});
  EXPECT_TRUE(same_contents(seen, original)) << "the mapping keeps the replaced file";
  EXPECT_NE(load(file("same.arrow")), before);
  EXPECT_EQ(read(file("same.arrow")).rows(), 100);
}

} // namespace
} // namespace saeta::ipc
