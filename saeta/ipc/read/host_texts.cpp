#include "saeta/base/text.hpp"
#include "saeta/column/value_reason.hpp"
#include "saeta/device/value_check.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/ipc/read/host_columns.hpp"
#include "saeta/transfer/host_window.hpp"

namespace saeta::ipc::detail {
namespace {

/// The strings of an array, for the message about one that is not UTF-8.
class strings_of final : public checked_values {
public:
  explicit strings_of(const host_array& of) : of_(of) {}

  std::int64_t number(std::size_t buffer, std::int64_t row, std::int32_t width) override {
    return read_offset(of_.buffers[buffer].data(), static_cast<std::size_t>(width), row);
  }
  std::int64_t child_rows(std::size_t) override { return 0; }
  std::int64_t variadic_bytes(std::size_t) override { return 0; }
  std::span<const std::byte> text(std::int64_t row) override { return bytes_of_value(of_, row); }

private:
  const host_array& of_;
};

/// The sizes of the buffers of views, then their addresses.
std::vector<std::int64_t> table_of(const host_array& of) {
  const auto variadic = std::span(of.buffers).subspan(of.type.buffer_count());
  std::vector<std::int64_t> table;
  for (const auto& each : variadic) {
    table.push_back(std::ssize(each));
  }
  for (const auto& each : variadic) {
    table.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(each.data())));
  }
  return table;
}

void require_texts(const host_array& of, const array_place& place) {
  const type_id id = of.type.id();
  const bool views = id == type_id::string_view;
  if (of.length != 0 && (views || id == type_id::string || id == type_id::large_string)) {
    value_check check;
    check.kind = views ? check_kind::text_views : check_kind::texts;
    check.width = of.type.buffer(1).width;
    check.values = of.buffers[1].data();
    check.validity = reinterpret_cast<const std::uint8_t*>(of.buffers[0].data());
    check.count = of.length;
    std::vector<std::int64_t> table;
    if (views) {
      table = table_of(of);
      check.table = table.data();
      check.limit = std::ssize(table) / 2;
    } else {
      check.second = of.buffers[2].data();
      check.limit = std::ssize(of.buffers[2]);
    }
    std::int64_t bad = no_bad_row;
    check_values_now(std::span(&check, 1), &bad);
    if (bad != no_bad_row) {
      strings_of strings(of);
      throw error(errc::format,
                  concat(place, ": ", reason_of(of.type, {check.kind, check.width, 0, bad}, strings)));
    }
  }
  for (std::size_t i = 0; i < of.children.size(); ++i) {
    require_texts(of.children[i], place.child(of.type.children()[i].name));
  }
  if (of.dictionary != nullptr) {
    require_texts(*of.dictionary, place.dictionary());
  }
}

} // namespace

void require_texts(std::span<const host_array> arrays, std::span<const field> fields) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    require_texts(arrays[i], array_place::column(fields[i].name));
  }
}

} // namespace saeta::ipc::detail
