#include "saeta/ipc/read/batch_sizes.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/ipc/input_error.hpp"

namespace saeta::ipc::detail {
namespace {

constexpr std::size_t batches_between_checks = 1024;

batch_size size_of(const batch_layout& batch, const column_tree& tree) {
  batch_size made{.rows = batch.rows, .compressed = batch.codec != body_codec::none};
  node_buffers buffers(batch);
  for (const tree_node& node : tree.nodes) {
    const auto [first, count] = buffers.next(node);
    for (std::size_t i = first; i < first + count; ++i) {
      made.bytes =
          checked_add(made.bytes, static_cast<std::uint64_t>(batch.buffers[i].length), "bytes of a batch");
    }
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
      const auto read = read_batch_message(window, each, from.tree());
      if (!read) {
        throw error(errc::unsupported, "its metadata is not of version 5");
      }
      sizes.push_back(size_of(*read, from.tree()));
    } catch (const error& failure) {
      rethrow_input(failure, from.label_of(each));
    }
  }
  return sizes;
}

} // namespace saeta::ipc::detail
