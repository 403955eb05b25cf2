#include "saeta/column/column.hpp"

#include "saeta/base/checked.hpp"
#include "saeta/column/detail/ranges.hpp"
#include "saeta/memory/use_token.hpp"

namespace saeta {
namespace {

std::string_view buffer_name(layout_kind layout, std::size_t index) {
  if (index == 0) {
    return "validity";
  }
  if (layout == layout_kind::offsets32 || layout == layout_kind::offsets64) {
    return index == 1 ? "offsets" : "bytes";
  }
  return "values";
}

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

void require_buffers(const context& home, const column::parts& from) {
  const std::size_t expected = from.type.buffer_count();
  if (from.buffers.size() != expected) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": ", from.buffers.size(),
                                               " buffers, expected ", expected));
  }
  const std::int64_t rows =
      from.length == 0 ? 0 : checked_add(from.offset, from.length, "offset + length of a column");
  for (std::size_t i = 0; i < expected; ++i) {
    const buffer& bytes = from.buffers[i];
    const std::size_t needed = i == 0 && !bytes.present() ? 0 : required_bytes(from.type, i, rows);
    if (bytes.size() < needed) {
      throw error(errc::out_of_range,
                  concat("column of ", from.type.name(), ": ", buffer_name(from.type.layout(), i), " of ",
                         rows, " rows (offset included) take ", needed, " bytes, the buffer has ",
                         bytes.size()));
    }
    if (bytes.present() && !bytes.owner()->home()->shares_with(home)) {
      throw error(errc::invalid_argument,
                  concat("column of ", from.type.name(), ": ", buffer_name(from.type.layout(), i),
                         " are in another context"));
    }
  }
  if (expected > 0 && !from.buffers[0].present() && from.null_count > 0) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": null count ",
                                               from.null_count, " without a validity buffer"));
  }
}

void require_dictionary(const context& home, const column::parts& from) {
  const bool wanted = from.type.id() == type_id::dictionary;
  if (wanted != (from.dictionary != nullptr)) {
    throw error(errc::invalid_argument,
                concat("column of ", from.type.name(),
                       wanted ? ": the dictionary is missing" : ": has a dictionary"));
  }
  if (!wanted) {
    return;
  }
  if (from.dictionary->type() != *from.type.value_type()) {
    throw error(errc::type_mismatch, concat("column of ", from.type.name(), ": the dictionary is of ",
                                            from.dictionary->type().name()));
  }
  if (!from.dictionary->home()->shares_with(home)) {
    throw error(errc::invalid_argument,
                concat("column of ", from.type.name(), ": the dictionary is in another context"));
  }
}

/// The null count of the first view of these parts.
std::int64_t nulls_of(const column::parts& from) {
  if (from.type.layout() == layout_kind::none) {
    return from.length;
  }
  return from.buffers[0].present() && from.length > 0 ? from.null_count : 0;
}

std::int64_t count_on_device(const std::shared_ptr<context>& home, const buffer& validity,
                             std::int64_t offset, std::int64_t length) {
  const stream_ref stream = home->work_stream();
  if (home->inherited()) { // host memory of a parent process, whose context allocates nothing here
    const use_token token(stream, {reads(validity)});
    std::int64_t nulls = 0;
    home->kernels().count_nulls(stream.native_handle(), token.data<std::uint8_t>(validity), offset, length,
                                &nulls);
    return nulls;
  }
  const buffer result = buffer::allocate(home, sizeof(std::int64_t), stream, "null count");
  use_token token(stream, {reads(validity), writes(result)});
  auto* const counted = token.mutable_data<std::int64_t>(result);
  home->kernels().count_nulls(stream.native_handle(), token.data<std::uint8_t>(validity), offset, length,
                              counted);
  std::int64_t nulls = 0;
  home->read_scalar(&nulls, counted, sizeof nulls, stream);
  token.finish();
  return nulls;
}

} // namespace

std::size_t required_bytes(const data_type& type, std::size_t index, std::int64_t rows) {
  if (rows <= 0 || index >= type.buffer_count()) {
    return 0;
  }
  const auto count = static_cast<std::size_t>(rows);
  if (index == 0 || type.layout() == layout_kind::bits) {
    return count / 8 + (count % 8 != 0 ? 1 : 0);
  }
  if (type.layout() == layout_kind::fixed) {
    return checked_mul(count, static_cast<std::size_t>(type.byte_width()), "bytes of the values");
  }
  if (index == 1) {
    return checked_mul(count + 1, std::size_t{type.layout() == layout_kind::offsets32 ? 4u : 8u},
                       "bytes of the offsets");
  }
  return 0;
}

column::column(std::shared_ptr<context> home, std::shared_ptr<const parts> from, std::int64_t offset,
               std::int64_t length, std::int64_t nulls)
    : home_(std::move(home)), parts_(std::move(from)), offset_(offset), length_(length),
      nulls_(std::make_shared<null_counter>()) {
  nulls_->value = nulls;
}

column column::make(std::shared_ptr<context> home, parts from) {
  if (home == nullptr) {
    throw error(errc::invalid_argument, concat("column of ", from.type.name(), ": no context"));
  }
  require_rows(from);
  require_buffers(*home, from);
  require_dictionary(*home, from);
  const std::int64_t offset = from.offset;
  const std::int64_t length = from.length;
  const std::int64_t nulls = nulls_of(from);
  return {std::move(home), std::make_shared<const parts>(std::move(from)), offset, length, nulls};
}

const buffer& column::validity() const noexcept {
  static const buffer absent;
  return parts_->buffers.empty() ? absent : parts_->buffers[0];
}

const buffer& column::values() const {
  if (type().layout() != layout_kind::fixed && type().layout() != layout_kind::bits) {
    throw error(errc::type_mismatch, concat("a column of ", type().name(), " has no values buffer"));
  }
  return parts_->buffers[1];
}

const buffer& column::offsets() const {
  if (type().layout() != layout_kind::offsets32 && type().layout() != layout_kind::offsets64) {
    throw error(errc::type_mismatch, concat("a column of ", type().name(), " has no offsets buffer"));
  }
  return parts_->buffers[1];
}

const buffer& column::bytes() const {
  if (type().layout() != layout_kind::offsets32 && type().layout() != layout_kind::offsets64) {
    throw error(errc::type_mismatch, concat("a column of ", type().name(), " has no bytes buffer"));
  }
  return parts_->buffers[2];
}

std::int64_t column::null_count() const {
  std::int64_t nulls = known_null_count();
  if (nulls == unknown_nulls) {
    // Two threads may both count: they find and store the same number.
    nulls = count_on_device(home_, validity(), offset_, length_);
    nulls_->value = nulls;
  }
  return nulls;
}

std::int64_t column::known_null_count() const noexcept { return nulls_->value; }

column column::slice(std::int64_t offset, std::int64_t length) const {
  if (offset < 0 || length < 0 || offset > length_ || length > length_ - offset) {
    throw error(errc::out_of_range,
                concat("slice of ", length, " rows from row ", offset, " of a column of ", length_, " rows"));
  }
  if (length == length_) {
    return *this;
  }
  const std::int64_t known = known_null_count();
  std::int64_t nulls = unknown_nulls;
  if (known == 0 || length == 0) {
    nulls = 0;
  } else if (known == length_) {
    nulls = length;
  }
  return {home_, parts_, offset_ + offset, length, nulls};
}

std::uint64_t column::byte_size() const noexcept {
  std::vector<address_range> ranges;
  append_ranges(*this, ranges);
  std::uint64_t total = 0;
  for (const address_range& range : ranges) {
    total += range.bytes;
  }
  return total;
}

} // namespace saeta
