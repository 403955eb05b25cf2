#include "saeta/column/column.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/base/required.hpp"
#include "saeta/column/row_bytes.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/memory/device_copy.hpp"
#include "saeta/memory/use_token.hpp"

#include <algorithm>
#include <cstddef>

namespace saeta {
namespace {

void require_rows(const column::parts& from) {
  if (from.length < 0 || from.offset < 0) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": length ", from.length,
                                               " and offset ", from.offset, " must not be negative"));
  }
  if (from.null_count < column::unknown_nulls || from.null_count > from.length) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": null count ",
                                               from.null_count, " is not in -1 to the length ", from.length));
  }
}

void require_buffers(const context& ctx, const column::parts& from) {
  const std::size_t expected = from.type.buffer_count();
  const bool more = from.type.has_variadic_buffers();
  if (from.buffers.size() < expected || (from.buffers.size() > expected && !more)) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": ", from.buffers.size(),
                                               " buffers, expected ", more ? "at least " : "", expected));
  }
  const std::int64_t rows =
      from.length == 0 ? 0 : checked_add(from.offset, from.length, "offset + length of a column");
  for (std::size_t i = 0; i < from.buffers.size(); ++i) {
    const buffer& bytes = from.buffers[i];
    const buffer_spec spec = from.type.buffer(i);
    const bool absent = spec.role == buffer_role::validity && !bytes.present();
    const std::size_t needed = absent ? 0 : required_bytes(from.type, i, rows);
    if (bytes.size() < needed) {
      throw error(errc::out_of_range,
                  concat("column of ", from.type.name(), ": ", spec.name, " of ", rows,
                         " rows (offset included) take ", needed, " bytes, the buffer has ", bytes.size()));
    }
    if (bytes.present() && !bytes.owner()->ctx()->shares_with(ctx)) {
      throw error(errc::invalid_argument,
                  concat("column of ", from.type.name(), ": ", spec.name, " are in another context"));
    }
  }
  if (from.type.has_validity() && !from.buffers[0].present() && from.null_count > 0) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": null count ",
                                               from.null_count, " without a validity buffer"));
  }
}

void require_dictionary(const context& ctx, const column::parts& from) {
  const bool wanted = from.type.id() == type_id::dictionary;
  if (wanted != (from.dictionary != nullptr)) {
    throw error(errc::invalid_argument,
                concat("column of ", from.type.name(),
                       wanted ? ": the dictionary is missing" : ": must not have a dictionary"));
  }
  if (!wanted) {
    return;
  }
  if (from.dictionary->type() != *from.type.value_type()) {
    throw error(errc::type_mismatch,
                concat("column of ", from.type.name(), ": the dictionary is of type ",
                       from.dictionary->type().name(), ", expected ", from.type.value_type()->name()));
  }
  if (!from.dictionary->ctx()->shares_with(ctx)) {
    throw error(errc::invalid_argument,
                concat("column of ", from.type.name(), ": the dictionary is in another context"));
  }
}

void require_child_lengths(const column::parts& from) {
  if (from.type.mapping() == row_mapping::run_ends) {
    const column& ends = from.children[0];
    const column& values = from.children[1];
    if (ends.length() != values.length() || (ends.length() == 0 && from.length != 0)) {
      throw error(errc::invalid_argument,
                  concat("column of ", from.type.name(), ": ", ends.length(), " run ends and ",
                         values.length(), " values for ", from.length, " rows"));
    }
    return;
  }
  const std::int64_t end = from.length == 0 ? 0 : from.offset + from.length;
  const auto needed = rows_of_children(from.type, 0, end);
  for (std::size_t i = 0; needed && i < from.children.size(); ++i) {
    if (from.children[i].length() < needed->count) {
      throw error(errc::out_of_range,
                  concat("column of ", from.type.name(), ": child '", from.type.children()[i].name, "' has ",
                         from.children[i].length(), " rows, but ", end,
                         " rows of its parent (offset included) need ", needed->count));
    }
  }
}

void require_children(const context& ctx, const column::parts& from) {
  const std::span<const field> expected = from.type.children();
  if (from.children.size() != expected.size()) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": ", from.children.size(),
                                               " children, expected ", expected.size()));
  }
  if (expected.empty()) {
    return;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto child = [&] {
      return concat("column of ", from.type.name(), ": child '", expected[i].name, "'");
    };
    if (from.children[i].type() != expected[i].type) {
      throw error(errc::type_mismatch, concat(child(), " is of type ", from.children[i].type().name(),
                                              ", expected ", expected[i].type.name()));
    }
    if (!from.children[i].ctx()->shares_with(ctx)) {
      throw error(errc::invalid_argument, concat(child(), " is in another context"));
    }
  }
  require_child_lengths(from);
}

/// The null count of all rows of the parts.
std::int64_t nulls_of(const column::parts& from) {
  if (from.type.id() == type_id::null) {
    return from.length;
  }
  return from.type.has_validity() && from.buffers[0].present() && from.length > 0 ? from.null_count : 0;
}

std::int64_t count_on_device(const std::shared_ptr<context>& ctx, const buffer& validity, std::int64_t offset,
                             std::int64_t length) {
  const stream_ref stream = ctx->work_stream();
  if (ctx->inherited()) { // host memory of a parent process, whose context can't allocate here
    const use_token token(stream, {reads(validity)});
    std::int64_t nulls = 0;
    ctx->kernels().count_nulls(stream.native_handle(), token.span<const std::uint8_t>(validity).data(),
                               offset, length, &nulls);
    return nulls;
  }
  const buffer result = buffer::allocate(ctx, sizeof(std::int64_t), stream, "null count");
  use_token token(stream, {reads(validity), writes(result)});
  auto* const counted = token.span<std::int64_t>(result).data();
  ctx->kernels().count_nulls(stream.native_handle(), token.span<const std::uint8_t>(validity).data(), offset,
                             length, counted);
  std::int64_t nulls = 0;
  ctx->copies().read_scalar(&nulls, counted, sizeof nulls, stream);
  token.finish();
  return nulls;
}

} // namespace

std::size_t required_bytes(const data_type& type, std::size_t index, std::int64_t rows) {
  if (rows <= 0 || index >= type.buffer_count()) {
    return 0;
  }
  const auto count = static_cast<std::size_t>(rows);
  const buffer_spec spec = type.buffer(index);
  if (spec.role == buffer_role::bytes) {
    return 0;
  }
  if (spec.is_bitmap()) {
    return count / 8 + (count % 8 != 0 ? 1 : 0);
  }
  const auto width = static_cast<std::size_t>(spec.width);
  return spec.role == buffer_role::offsets ? checked_mul(count + 1, width, "bytes of the offsets")
                                           : checked_mul(count, width, "bytes of the values");
}

std::optional<child_rows> rows_of_children(const data_type& type, std::int64_t first, std::int64_t count) {
  if (type.mapping() == row_mapping::same) {
    return child_rows{first, count};
  }
  if (type.mapping() == row_mapping::fixed_size) {
    const std::int64_t size = type.list_size();
    return child_rows{checked_mul(first, size, "rows of a fixed-size list"),
                      checked_mul(count, size, "rows of a fixed-size list")};
  }
  return std::nullopt;
}

child_rows select_child_rows(const data_type& type, std::int64_t first, std::int64_t count,
                             const child_rows& pointed, std::int64_t length) {
  if (count == 0) {
    return {};
  }
  if (const auto known = rows_of_children(type, first, count)) {
    return *known;
  }
  const bool points = type.mapping() == row_mapping::offsets || type.mapping() == row_mapping::run_ends;
  return points ? pointed : child_rows{0, length};
}

column::column(std::shared_ptr<const shared_parts> from, std::int64_t offset, std::int64_t length)
    : parts_(std::move(from)), offset_(offset), length_(length) {}

column column::make(std::shared_ptr<context> ctx, parts&& from) {
  if (ctx == nullptr) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": the context is null"));
  }
  require_rows(from);
  require_buffers(*ctx, from);
  require_dictionary(*ctx, from);
  require_children(*ctx, from);
  const std::int64_t offset = from.offset;
  const std::int64_t length = from.length;
  const std::int64_t nulls = nulls_of(from);
  return {std::make_shared<const shared_parts>(std::move(ctx), std::move(from), nulls), offset, length};
}

column column::empty(const std::shared_ptr<context>& ctx, const data_type& type) {
  require_argument(ctx, "ctx");
  parts none;
  none.type = type;
  none.null_count = 0;
  none.buffers.resize(type.buffer_count());
  if (const data_type* const values = type.value_type()) {
    none.dictionary = std::make_shared<const column>(empty(ctx, *values));
  }
  for (const field& child : type.children()) {
    none.children.push_back(empty(ctx, child.type));
  }
  return make(ctx, std::move(none));
}

const buffer& column::validity() const {
  static const buffer absent;
  return type().has_validity() ? parts_->buffers[0] : absent;
}

const buffer& column::values() const {
  const buffer_role role = type().buffer(1).role;
  const bool has_values =
      role == buffer_role::values || role == buffer_role::bits || role == buffer_role::views;
  if (!has_values) {
    throw error(errc::type_mismatch, concat("a column of ", type().name(), " has no values buffer"));
  }
  return parts_->buffers[1];
}

const buffer& column::offsets() const {
  if (type().offset_width() == 0) {
    throw error(errc::type_mismatch, concat("a column of ", type().name(), " has no offsets buffer"));
  }
  return parts_->buffers[1];
}

const buffer& column::bytes() const {
  if (type().offset_width() == 0 || !type().children().empty()) {
    throw error(errc::type_mismatch, concat("a column of ", type().name(), " has no bytes buffer"));
  }
  return parts_->buffers[2];
}

column column::child(std::size_t index) const {
  if (index >= all_rows().children.size()) {
    throw error(errc::out_of_range, concat("child ", index, " of a column of ", type().name(), " with ",
                                           all_rows().children.size(), " children"));
  }
  const auto rows = rows_of_children(type(), offset_, length_);
  const column& whole = all_rows().children[index];
  return rows ? whole.slice(length_ == 0 ? 0 : rows->first, rows->count) : whole;
}

std::int64_t column::null_count() const {
  std::int64_t count = known_null_count();
  if (count == unknown_nulls) {
    // Two threads may both count. They store the same number.
    count = count_on_device(ctx(), validity(), offset_, length_);
    facts().nulls = count;
  }
  return count;
}

std::int64_t column::known_null_count() const { return facts().nulls; }

column column::slice(std::int64_t offset, std::int64_t length) const {
  if (offset < 0 || length < 0 || offset > length_ || length > length_ - offset) {
    throw error(errc::out_of_range,
                concat("slice of ", length, " rows from row ", offset, " of a column of ", length_, " rows"));
  }
  if (length == length_) {
    return *this;
  }
  const std::int64_t known = known_null_count();
  std::int64_t count = unknown_nulls;
  if (known == 0 || length == 0) {
    count = 0;
  } else if (known == length_) {
    count = length;
  }
  column part(parts_, offset_ + offset, length);
  part.of_slice_ = std::make_shared<row_facts>(count);
  return part;
}

void append_reads(const column& of, storage_reads& to) {
  std::ranges::for_each(of.buffers(), [&](const buffer& buffer) { to.add(buffer); });
  std::ranges::for_each(of.children(), [&](const column& column) { append_reads(column, to); });
  if (of.dictionary() != nullptr) {
    append_reads(*of.dictionary(), to);
  }
}

std::int64_t total_rows(std::span<const column> pieces) noexcept {
  std::int64_t rows = 0;
  for (const column& piece : pieces) {
    rows += piece.length();
  }
  return rows;
}

bool same_memory(const column& a, const column& b) {
  if (a.type() != b.type() || a.length() != b.length() || a.offset() != b.offset() ||
      a.buffers().size() != b.buffers().size()) {
    return false;
  }
  const auto same_buffer = [](const buffer& x, const buffer& y) {
    return x.owner() == y.owner() && x.offset() == y.offset() && x.size() == y.size();
  };
  const bool dictionaries =
      a.dictionary() == b.dictionary() || (a.dictionary() != nullptr && b.dictionary() != nullptr &&
                                           same_memory(*a.dictionary(), *b.dictionary()));
  return dictionaries && std::ranges::equal(a.buffers(), b.buffers(), same_buffer) &&
         std::ranges::equal(a.children(), b.children(), same_memory);
}

std::uint64_t column::byte_size() const {
  std::uint64_t bytes = facts().bytes;
  if (bytes == row_facts::unknown_bytes) {
    const row_bytes row_bytes = bytes_of_columns(std::span(this, 1), scattered_rows::sparse);
    bytes = row_bytes.total();
    if (row_bytes.measured) {
      facts().bytes = bytes;
    }
  }
  return bytes;
}

child_rows column::share_of(std::int64_t count) const {
  const std::int64_t rows = all_rows().length;
  if (length_ == rows) { // all rows, or none
    return {0, count};
  }
  const auto place = [&](std::int64_t row) {
    return static_cast<std::int64_t>(static_cast<uint128>(row) * static_cast<uint128>(count) /
                                     static_cast<uint128>(rows));
  };
  const std::int64_t first = offset_ - parts_->offset;
  return {place(first), place(first + length_) - place(first)};
}

namespace {

void append_unknown(const column& of, std::vector<const column*>& unknown) {
  if (of.known_null_count() == column::unknown_nulls) {
    unknown.push_back(&of);
  }
  for (const column& child : of.children()) {
    append_unknown(child, unknown);
  }
  if (of.dictionary() != nullptr) {
    append_unknown(*of.dictionary(), unknown);
  }
}

} // namespace

void column::count_nulls(std::span<const column> of) {
  std::vector<const column*> unknown;
  for (const column& column : of) {
    append_unknown(column, unknown);
  }
  if (unknown.empty()) {
    return;
  }
  const std::shared_ptr<context>& ctx = unknown.front()->ctx();
  storage_reads memory(ctx->work_stream());
  for (const column* const column : unknown) {
    memory.add(column->validity());
  }
  use_token token(ctx->work_stream(), memory.uses());
  std::vector<std::int64_t> counts(unknown.size());
  const auto count = [&](std::int64_t* target) {
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      ctx->kernels().count_nulls(token.stream().native_handle(),
                                 token.span<const std::uint8_t>(unknown[i]->validity()).data(),
                                 unknown[i]->offset_, unknown[i]->length_, target + i);
    }
  };
  if (ctx->on_host()) {
    count(counts.data());
  } else {
    counts = kernel_results(ctx, counts.size(), {},
                            [&](const use_token&, std::int64_t* target) { count(target); });
  }
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    unknown[i]->facts().nulls = counts[i];
  }
  token.finish();
}

} // namespace saeta
