// Sources in big-endian byte order. They are swapped while they are read.

#include "ipc_test.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/packed_schema.hpp"
#include "saeta/ipc/read/host_columns.hpp"
#include "saeta/ipc/read/planned_source.hpp"

#include <arrow/api.h>
#include <arrow/array/util.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace saeta::ipc {
namespace {

using bridge::check;
using bridge::take;

std::shared_ptr<arrow::RecordBatchReader> batches_in(const std::string& stream) {
  return take(arrow::ipc::RecordBatchStreamReader::Open(
                  std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(stream))),
              "stream");
}

/// Compares `swap_order` with libarrow for the buffers of an array. Returns the number of compared buffers.
std::size_t compare_swapped(const data_type& type, const arrow::ArrayData& little,
                            const arrow::ArrayData& big) {
  std::size_t compared = 0;
  const std::size_t shift = little.buffers.size() - type.buffer_count(); // libarrow gives unions a validity
  for (std::size_t i = shift; i < little.buffers.size(); ++i) {
    if (little.buffers[i] == nullptr || little.buffers[i]->size() == 0) {
      continue;
    }
    std::string swapped = little.buffers[i]->ToString();
    detail::swap_order(type, i - shift, std::as_writable_bytes(std::span(swapped)));
    EXPECT_EQ(swapped, big.buffers[i]->ToString()) << type.name() << ", buffer " << i;
    ++compared;
  }
  for (std::size_t i = 0; i < little.child_data.size(); ++i) {
    compared += compare_swapped(type.children()[i].type, *little.child_data[i], *big.child_data[i]);
  }
  return compared;
}

class byte_order : public ipc_test {
protected:
  /// Returns a stream in big-endian byte order. libarrow writes its schema.
  [[nodiscard]] static std::string big_endian(const table& source) {
    std::string little = write_bytes(source, {.format = container::stream});
    const auto sink = take(arrow::io::BufferOutputStream::Create(), "sink");
    const auto described = batches_in(little)->schema()->WithEndianness(arrow::Endianness::Big);
    check(take(arrow::ipc::MakeStreamWriter(sink, described), "writer")->Close(), "schema");
    std::string big = take(sink->Finish(), "sink")->ToString();
    big.resize(big.size() - detail::prefix_bytes); // without the end marker
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(little));
    detail::dictionary_trees dictionaries;
    std::vector<std::byte> front;
    detail::column_tree tree;
    for (std::size_t at = 0; at + detail::prefix_bytes < bytes.size();) {
      const auto flat = static_cast<std::size_t>(detail::read_prefix(bytes.subspan(at)).metadata);
      const auto metadata = bytes.subspan(at + detail::prefix_bytes, flat);
      const auto header = detail::read_header(metadata);
      const std::size_t body_at = at + detail::prefix_bytes + flat;
      const auto body = bytes.subspan(body_at, static_cast<std::size_t>(header.body_bytes));
      if (header.kind == detail::message_kind::schema) {
        front.assign(metadata.begin(), metadata.end());
        tree = detail::make_tree(source.fields(), detail::schema_table(container::stream, front),
                                 dictionaries, detail::version_5);
      } else {
        const bool values = header.kind == detail::message_kind::dictionary_batch;
        swap_body(header,
                  values ? *dictionaries.trees[dictionaries.numbers.at(detail::id_of_dictionary(header))]
                         : tree,
                  body);
        big.append(little, at, body_at - at + body.size());
      }
      at = body_at + body.size();
    }
    return big;
  }

private:
  static void swap_body(const detail::message_header& header, const detail::column_tree& tree,
                        std::span<std::byte> body) {
    const detail::batch_layout layout = detail::read_layout(header, &tree);
    detail::node_buffers buffers(layout);
    for (const detail::tree_node& node : tree.nodes) {
      const auto [first, count] = buffers.next(node);
      for (std::size_t i = 0; i < count; ++i) {
        const detail::buffer_place place = layout.buffers[first + i];
        if (place.length != 0) {
          detail::swap_order(
              *node.type, i,
              body.subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.length)));
        }
      }
    }
  }
};

bool has_views(const data_type& type) {
  return type.has_variadic_buffers() || (type.value_type() != nullptr && has_views(*type.value_type())) ||
         std::ranges::any_of(type.children(), [](const field& child) { return has_views(child.type); });
}

TEST_F(byte_order, of_every_type_is_swapped_as_libarrow_does) {
  std::size_t compared = 0;
  for (const data_type& type : support::file_types()) {
    if (has_views(type) || type.value_type() != nullptr) {
      continue;
    }
    const table source = support::random_table(ctx(), {type}, {.batch_rows = {77}});
    std::shared_ptr<arrow::RecordBatch> batch;
    check(batches_in(write_bytes(source, {.format = container::stream}))->ReadNext(&batch), "batch");
    const auto little = batch->column(0)->data();
    const auto big = arrow::internal::SwapEndianArrayData(little);
    if (big.ok()) { // libarrow does not support every type
      compared += compare_swapped(source.fields().fields[0].type, *little, **big);
    }
  }
  EXPECT_GT(compared, 80U);
}

TEST_F(byte_order, is_that_of_the_schema) {
  std::vector<data_type> types = support::file_types();
  std::erase_if(types, has_views);
  const table original = support::random_table(ctx(), types, {.one_dictionary = false});
  const std::string bytes = big_endian(original);
  for (const copy_policy copy : {copy_policy::when_needed, copy_policy::always}) {
    EXPECT_TRUE(support::same_contents(read_bytes(bytes, {.copy = copy, .combine_chunks = false}), original));
  }
  EXPECT_ERROR(read_bytes(bytes, {.copy = copy_policy::never}), exchange, "foreign byte order");
}

TEST_F(byte_order, of_views_is_refused) {
  auto views = support::plain_array(*support::random_array(data_type(type_id::string_view), {5}, 1));
  std::string bytes(views.buffers[1].size(), '\0');
  EXPECT_ERROR(detail::swap_order(views.type, 1, std::as_writable_bytes(std::span(bytes))), unsupported,
               "its views are in big-endian byte order");
  std::string text = "text";
  detail::swap_order(views.type, 2, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "text");
}

TEST_F(byte_order, of_a_packed_schema_must_be_little_endian) {
  const std::string bytes =
      big_endian(support::random_table(ctx(), {data_type(type_id::int32)}, {.batch_rows = {}}));
  const auto all = std::as_bytes(std::span(bytes));
  const auto flat =
      all.subspan(detail::prefix_bytes, static_cast<std::size_t>(detail::read_prefix(all).metadata));
  EXPECT_ERROR(detail::decode_schema(flat), unsupported, "its schema has byte order 1, expected 0 (little)");
}

} // namespace
} // namespace saeta::ipc
