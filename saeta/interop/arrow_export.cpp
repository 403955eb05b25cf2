#include "saeta/interop/detail/arrow_export.hpp"

#include "saeta/base/text.hpp"
#include "saeta/interop/arrow_c.hpp"
#include "saeta/interop/detail/arrow_bools.hpp"
#include "saeta/interop/detail/arrow_symbols.hpp"
#include "saeta/interop/detail/own_memory.hpp"
#include "saeta/transfer/download.hpp"

#include <array>

namespace saeta {
namespace {

alignas(64) constexpr std::array<std::byte, 64> zeros{};

/// Private data of one exported array. Each node of a tree owns its children, and each one with memory keeps that on its
/// own, so that a consumer may move a child away and release the rest.
struct exported_array {
  std::vector<const void*> buffers;
  std::vector<std::int64_t>
      variadic_sizes; ///< of the buffers behind views; the last of `buffers` is this list
  std::vector<owned_array> children;
  std::vector<ArrowArray*> child_pointers;
  owned_array dictionary;
  std::shared_ptr<void> keepalive;
};

void release_array(ArrowArray* array) noexcept {
  delete static_cast<exported_array*>(array->private_data);
  array->release = nullptr;
}

/// Points the struct at the node's lists and gives the node to it.
owned_array owned_by_struct(std::unique_ptr<exported_array> node, std::int64_t length, std::int64_t offset,
                            std::int64_t null_count) {
  for (owned_array& child : node->children) {
    node->child_pointers.push_back(&child.get());
  }
  ArrowArray made{};
  made.length = length;
  made.offset = offset;
  made.null_count = null_count;
  made.n_buffers = static_cast<std::int64_t>(node->buffers.size());
  made.buffers = node->buffers.data();
  made.n_children = static_cast<std::int64_t>(node->children.size());
  made.children = node->child_pointers.empty() ? nullptr : node->child_pointers.data();
  made.dictionary = node->dictionary.empty() ? nullptr : &node->dictionary.get();
  made.release = release_array;
  made.private_data = node.release();
  return owned_array(made);
}

std::int64_t null_count_of(const host_array& source) {
  if (source.type.layout() == layout_kind::none) {
    return source.length;
  }
  const bool may_have_nulls =
      source.type.has_validity() && source.length != 0 && source.buffers[0].data() != nullptr;
  return may_have_nulls ? source.null_count : 0;
}

void add_buffers(const host_array& source, const void* nothing, exported_array& node) {
  for (std::size_t i = 0; i < source.buffers.size(); ++i) {
    const void* const pointer = source.length == 0 ? nullptr : source.buffers[i].data();
    const bool optional = source.type.buffer(i).role == buffer_role::validity;
    node.buffers.push_back(pointer == nullptr && !optional ? nothing : pointer);
  }
  if (source.type.layout() == layout_kind::views) {
    for (std::size_t i = source.type.buffer_count(); i < source.buffers.size(); ++i) {
      node.variadic_sizes.push_back(source.length == 0 ? 0
                                                       : static_cast<std::int64_t>(source.buffers[i].size()));
    }
    node.buffers.push_back(node.variadic_sizes.empty() ? no_bytes() : node.variadic_sizes.data());
  }
}

} // namespace

const void* no_bytes() noexcept { return zeros.data(); }

owned_array exported(const host_array& source, const std::shared_ptr<void>& keepalive, const void* nothing) {
  auto node = std::make_unique<exported_array>();
  node->keepalive = keepalive;
  add_buffers(source, nothing, *node);
  node->children.reserve(source.children.size());
  for (const host_array& child : source.children) {
    node->children.push_back(exported(child, keepalive, nothing));
  }
  if (source.dictionary != nullptr) {
    node->dictionary = exported(*source.dictionary, keepalive, nothing);
  }
  return owned_by_struct(std::move(node), source.length, source.length == 0 ? 0 : source.offset,
                         null_count_of(source));
}

owned_array exported_struct(const host_batch& source, const void* nothing) {
  auto node = std::make_unique<exported_array>();
  node->buffers.push_back(nullptr);
  node->children.reserve(source.arrays.size());
  for (const host_array& child : source.arrays) {
    node->children.push_back(exported(child, source.keepalive, nothing));
  }
  return owned_by_struct(std::move(node), source.rows, 0, 0);
}

void append_buffers(const column& from, std::vector<buffer>& views) {
  views.insert(views.end(), from.buffers().begin(), from.buffers().end());
  for (const column& child : from.children()) {
    append_buffers(child, views);
  }
  if (from.dictionary() != nullptr) {
    append_buffers(*from.dictionary(), views);
  }
}

namespace {

/// The batch in host memory, with dictionaries in the place of symbols. Where the CPU can read ours, that is a hand-out of it:
/// the hold comes first, so that whoever writes later waits for the consumer.
host_batch in_host_memory(const std::shared_ptr<context>& home, const batch& source, symbol_names& names) {
  host_batch view;
  if (host_accessible(source)) {
    std::vector<buffer> views;
    for (const column& part : source.columns) {
      append_buffers(part, views);
    }
    auto hold = std::make_shared<known_export>(views);
    view = view_in_place(source);
    view.keepalive = std::move(hold);
    synchronize_handover(views);
  } else {
    view = download(home, source);
  }
  names.replace(home, view);
  return view;
}

} // namespace

void export_batch(const table& source, std::size_t batch_index, symbol_names& names, ArrowArray& target) {
  if (batch_index >= source.batches().size()) {
    throw error(errc::out_of_range,
                concat("batch ", batch_index, " of a table with ", source.batches().size(), " batches"));
  }
  const host_batch view = in_host_memory(source.home(), as_arrow(source.batches()[batch_index]), names);
  exported_struct(view, no_bytes()).move_to(target);
}

void export_batch(const table& source, std::size_t batch_index, ArrowArray& target) {
  symbol_names names(source.fields());
  export_batch(source, batch_index, names, target);
}

void export_column(const column& source, symbol_names& names, ArrowArray& target) {
  const host_batch view = in_host_memory(source.home(), {source.length(), {as_arrow(source)}}, names);
  exported(view.arrays.front(), view.keepalive, no_bytes()).move_to(target);
}

void export_column(const column& source, ArrowArray& target, std::string_view name) {
  symbol_names names({{{std::string(name), source.type(), true, {}}}, {}});
  export_column(source, names, target);
}

} // namespace saeta
