#include "saeta/ipc/read/batch_sizes.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/message_fields.hpp"

#include <utility>

namespace saeta::ipc::detail {
namespace {

constexpr std::size_t batches_between_checks = 1024;

batch_size size_of(const flat_table& batch, const column_tree& tree) {
  const auto places = batch.view<buffer_place>(batch_buffers);
  const auto variadic = batch.view<std::int64_t>(batch_variadic_counts);
  batch_size made{.rows = batch.scalar<std::int64_t>(batch_length, 0),
                  .compressed = batch.table(batch_compression).has_value()};
  const auto variadic_of = [&](std::size_t view) {
    if (view >= variadic.size() || !std::in_range<std::uint32_t>(variadic[view])) {
      throw error(errc::format, concat("it has ", variadic.size(),
                                       " counts of data buffers of views, and not ", "a valid count ", view));
    }
    return static_cast<std::size_t>(variadic[view]);
  };
  std::size_t before = 0; // variadic buffers before a node
  std::size_t counted = 0;
  for (const tree_node& node : tree.nodes) {
    for (; counted < node.views_before; ++counted) {
      before += variadic_of(counted);
    }
    const std::size_t first = node.buffer + before;
    const std::size_t end =
        first + node.type->buffer_count() + (node.type->has_variadic_buffers() ? variadic_of(counted) : 0);
    for (std::size_t i = first; i < end; ++i) {
      if (i >= places.size() || places[i].length < 0) {
        throw error(errc::format, concat("it has ", places.size(), " buffers, and not a valid buffer ", i));
      }
      made.bytes = checked_add(made.bytes, static_cast<std::uint64_t>(places[i].length), "bytes of a batch");
    }
  }
  if (made.rows < 0) {
    throw error(errc::format, concat("a record batch of ", made.rows, " rows"));
  }
  return made;
}

} // namespace

std::vector<batch_size> sizes_of(const planned_source& from) {
  std::vector<batch_size> sizes;
  sizes.reserve(from.batches().size());
  source_window window(from.bytes());
  for (const planned_message& each : from.batches()) {
    if (sizes.size() % batches_between_checks == 0) {
      check_interrupt();
    }
    try {
      const auto read = read_batch_message(window, each);
      if (!read) {
        throw error(errc::unsupported, "its metadata is not of version 5");
      }
      sizes.push_back(size_of(read->batch, from.tree()));
    } catch (const error& failure) {
      rethrow(failure, from.label_of(each));
    }
  }
  return sizes;
}

} // namespace saeta::ipc::detail
