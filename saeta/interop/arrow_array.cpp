#include "saeta/interop/detail/arrow_array.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/transfer/host_window.hpp"

#include <algorithm>
#include <cstdint>

namespace saeta {
namespace {

/// Rows of an array to look at.
struct selected_rows {
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

void require_counts(const ArrowArray& source, std::string_view label) {
  if (source.release == nullptr) {
    throw error(errc::closed, concat(label, ": the ArrowArray was released already"));
  }
  if (source.length < 0 || source.offset < 0) {
    throw error(errc::format, concat(label, ": length ", source.length, " and offset ", source.offset,
                                     " must not be negative"));
  }
  if (source.null_count < -1 || source.null_count > source.length) {
    throw error(errc::format, concat(label, ": null_count ", source.null_count,
                                     " is not in -1 to the length ", source.length));
  }
  checked_add(source.offset, source.length, concat(label, ": offset + length"));
}

void require_shape(const ArrowArray& source, std::int64_t buffers, std::int64_t children, bool dictionary,
                   std::string_view label) {
  if (source.n_buffers != buffers) {
    throw error(errc::format, concat(label, ": n_buffers is ", source.n_buffers, ", expected ", buffers));
  }
  if (source.n_buffers > 0 && source.buffers == nullptr) {
    throw error(errc::format, concat(label, ": buffers is null, n_buffers is ", source.n_buffers));
  }
  if (source.n_children != children) {
    throw error(errc::format, concat(label, ": n_children is ", source.n_children, ", expected ", children));
  }
  if (source.n_children > 0 && source.children == nullptr) {
    throw error(errc::format, concat(label, ": children is null, n_children is ", source.n_children));
  }
  if (dictionary != (source.dictionary != nullptr)) {
    throw error(errc::format, concat(label, dictionary ? ": dictionary is null" : ": has a dictionary"));
  }
}

std::span<const std::byte> bytes_at(const void* pointer, std::size_t bytes, std::string_view label,
                                    std::size_t index) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (pointer == nullptr && bytes != 0) {
    throw error(errc::format, concat(label, ": buffers[", index, "] is null, ", bytes, " bytes are needed"));
  }
  checked_add(address, bytes, concat(label, ": address + bytes of buffers[", index, "]"));
  return {static_cast<const std::byte*>(pointer), bytes};
}

/// Bytes that the offsets of an array reach to. The offsets of the window are those of its rows and of up to seven rows
/// before them, because uploads start at a whole byte of the validity.
std::size_t reached_bytes(const host_array& source, std::string_view label) {
  const std::size_t width = offset_width(source.type);
  const std::byte* const offsets = source.buffers[1].data();
  const std::int64_t start = read_offset(offsets, width, window_of(source.offset, source.length).first);
  const std::int64_t first = read_offset(offsets, width, source.offset);
  const std::int64_t last = read_offset(offsets, width, source.offset + source.length);
  if (start < 0 || first < start || last < first) {
    throw error(errc::format, concat(label, ": the offsets of its first and last value are ", first, " and ",
                                     last, start == first ? "" : concat(", after ", start)));
  }
  return static_cast<std::size_t>(last);
}

std::int64_t null_count_of(const ArrowArray& source, const selected_rows& rows) {
  if (rows.length == source.length || source.null_count == 0) {
    return source.null_count;
  }
  return source.null_count == source.length ? rows.length : column::unknown_nulls;
}

void add_buffers(const ArrowArray& source, host_array& view, std::string_view label) {
  const std::int64_t rows = view.offset + view.length;
  for (std::size_t i = 0; i < view.type.buffer_count(); ++i) {
    const void* const pointer = source.buffers[i];
    std::size_t bytes = 0;
    if (i == 2) {
      bytes = reached_bytes(view, label);
    } else if (i != 0 || pointer != nullptr) {
      bytes = required_bytes(view.type, i, rows);
    }
    view.buffers.push_back(bytes_at(pointer, bytes, label, i));
  }
}

host_array view_rows(const data_type& type, const ArrowArray& source, const selected_rows& rows,
                     std::string_view label) {
  const bool dictionary = type.id() == type_id::dictionary;
  require_shape(source, static_cast<std::int64_t>(type.buffer_count()), 0, dictionary, label);
  if (source.null_count > 0 && type.buffer_count() > 0 && source.buffers[0] == nullptr) {
    throw error(errc::format,
                concat(label, ": null_count is ", source.null_count, " but buffers[0] is null"));
  }
  host_array view;
  view.type = type;
  view.length = rows.length;
  view.null_count = null_count_of(source, rows);
  if (rows.length == 0) {
    view.buffers.resize(type.buffer_count());
  } else {
    view.offset = source.offset + rows.offset;
    add_buffers(source, view, label);
  }
  if (dictionary) {
    view.dictionary = std::make_shared<const host_array>(
        view_array(*type.value_type(), *source.dictionary, concat("dictionary of ", label)));
  }
  return view;
}

/// Rows of a record batch can't be null as a whole.
void require_no_null_rows(const ArrowArray& source) {
  if (source.null_count == 0 || source.buffers[0] == nullptr || source.length == 0) {
    if (source.null_count > 0) {
      throw error(errc::format,
                  concat("batch: null_count is ", source.null_count, " but buffers[0] is null"));
    }
    return;
  }
  std::int64_t nulls = source.null_count;
  if (nulls < 0) {
    const auto* const validity = static_cast<const std::uint8_t*>(source.buffers[0]);
    reference_kernels().count_nulls(legacy_stream, validity, source.offset, source.length, &nulls);
  }
  if (nulls > 0) {
    throw error(errc::unsupported, concat("batch: ", nulls, " of ", source.length,
                                          " rows are null as a whole, which a table can't say"));
  }
}

std::size_t element_alignment(const data_type& type, std::size_t index) {
  if (index == 1 && offset_width(type) != 0) {
    return offset_width(type);
  }
  if (index != 1 || type.layout() != layout_kind::fixed || type.id() == type_id::fixed_size_binary) {
    return 1;
  }
  return std::min(static_cast<std::size_t>(type.byte_width()), std::size_t{8});
}

} // namespace

host_array view_array(const data_type& type, const ArrowArray& source, std::string_view label) {
  require_counts(source, label);
  return view_rows(type, source, {0, source.length}, label);
}

host_batch view_batch(const schema& fields, const ArrowArray& source) {
  require_counts(source, "batch");
  require_shape(source, 1, checked_cast<std::int64_t>(fields.fields.size(), "number of columns"), false,
                "batch");
  require_no_null_rows(source);
  host_batch view;
  view.rows = source.length;
  for (std::size_t i = 0; i < fields.fields.size(); ++i) {
    const std::string label = concat("column '", fields.fields[i].name, "'");
    if (source.children[i] == nullptr) {
      throw error(errc::format, concat(label, ": children[", i, "] of the batch is null"));
    }
    const ArrowArray& child = *source.children[i];
    require_counts(child, label);
    if (child.length < source.offset + source.length) {
      throw error(errc::format, concat(label, ": length is ", child.length, ", the batch has offset ",
                                       source.offset, " and length ", source.length));
    }
    view.arrays.push_back(view_rows(fields.fields[i].type, child, {source.offset, source.length}, label));
  }
  return view;
}

bool aligned(const host_array& source) {
  for (std::size_t i = 0; i < source.buffers.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(source.buffers[i].data());
    if (address % element_alignment(source.type, i) != 0) {
      return false;
    }
  }
  return source.dictionary == nullptr || aligned(*source.dictionary);
}

} // namespace saeta
