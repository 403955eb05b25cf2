#include "saeta/column/counted_table.hpp"

#include "saeta/base/text.hpp"
#include "saeta/memory/use_token.hpp"

#include <cstring>

namespace saeta {
namespace {

/// Wide enough for every count: a u64 above the range of i64 exceeds every capacity instead of being
/// negative.
__extension__ using wide_count = __int128;

template <class T>
wide_count value_at(const std::byte* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

wide_count decode(const std::byte* bytes, const data_type& type) {
  switch (type.id()) {
  case type_id::uint32:
    return value_at<std::uint32_t>(bytes);
  case type_id::int32:
    return value_at<std::int32_t>(bytes);
  case type_id::uint64:
    return value_at<std::uint64_t>(bytes);
  default:
    return value_at<std::int64_t>(bytes);
  }
}

std::int64_t require_room(wide_count count, std::int64_t capacity) {
  if (count < 0 || count > capacity) {
    throw error(errc::out_of_range, concat("the row count is ", count < 0 ? "-" : "",
                                           static_cast<std::uint64_t>(count < 0 ? -count : count),
                                           ", the table has room for ", capacity, " rows"));
  }
  return static_cast<std::int64_t>(count);
}

std::int64_t read_count(const column& count, std::int64_t capacity) {
  const std::shared_ptr<context>& ctx = count.ctx();
  const stream_ref stream = ctx->work_stream();
  const auto width = static_cast<std::size_t>(count.type().byte_width());
  std::byte bytes[sizeof(std::uint64_t)];
  use_token token(stream, {reads(count.values())});
  ctx->copies().read_scalar(
      bytes, token.data<std::byte>(count.values()) + static_cast<std::size_t>(count.offset()) * width, width,
      stream, count.values().kind());
  token.finish();
  return require_room(decode(bytes, count.type()), capacity);
}

} // namespace

counted_table::counted_table(table capacity, column count)
    : capacity_(std::move(capacity)), count_(std::move(count)),
      known_(std::make_shared<std::atomic<std::int64_t>>(unread)) {}

counted_table counted_table::make(table capacity, column count, std::optional<std::int64_t> known) {
  const data_type& type = count.type();
  if (!type.is_integer() || type.byte_width() < 4 || !type.extension_name().empty()) {
    throw error(errc::type_mismatch, concat("the row count is of type ", type.name(),
                                            ", expected uint32, uint64, int32 or int64"));
  }
  if (count.length() != 1 || count.null_count() != 0) {
    throw error(errc::invalid_argument, concat("a row count is one number, not ", count.length(),
                                               " rows with ", count.null_count(), " nulls"));
  }
  if (!count.ctx()->shares_with(*capacity.ctx())) {
    throw error(errc::invalid_argument, "the row count is in another context than the table");
  }
  counted_table made(std::move(capacity), std::move(count));
  if (known) {
    made.known_->store(require_room(*known, made.capacity_.rows()), std::memory_order_relaxed);
  }
  return made;
}

std::int64_t counted_table::rows() const {
  std::int64_t rows = known_->load(std::memory_order_relaxed);
  if (rows == unread) {
    rows = read_count(count_, capacity_.rows());
    known_->store(rows, std::memory_order_relaxed);
  }
  return rows;
}

std::optional<std::int64_t> counted_table::known_rows() const noexcept {
  const std::int64_t rows = known_->load(std::memory_order_relaxed);
  return rows == unread ? std::nullopt : std::optional(rows);
}

} // namespace saeta
