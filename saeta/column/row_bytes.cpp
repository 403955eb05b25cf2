#include "saeta/column/row_bytes.hpp"

#include "saeta/column/referred_rows.hpp"

#include <algorithm>

namespace saeta {
namespace {

class byte_counter {
public:
  byte_counter(scattered_rows counted, bool dictionaries) : counted_(counted), dictionaries_(dictionaries) {}

  row_bytes run(std::vector<column> level) {
    while (!level.empty()) {
      const std::vector<referred_rows> found = find_referred_rows(level, counted_, made_.measured);
      std::vector<column> next;
      for (std::size_t i = 0; i < level.size(); ++i) {
        add_buffers(level[i], found[i]);
        add_children(level[i], found[i], next);
        add_dictionary(level[i], next);
      }
      level = std::move(next);
    }
    return std::move(made_);
  }

private:
  void add(const buffer& whole, const byte_window& used) {
    if (whole.present() && used.bytes != 0) {
      made_.ranges.push_back({whole.address() + used.offset, used.bytes});
    }
  }

  void add_buffers(const column& of, const referred_rows& found) {
    const data_type& type = of.type();
    const auto first = static_cast<std::size_t>(of.offset());
    const auto rows = static_cast<std::size_t>(of.length());
    for (std::size_t i = 0; i < type.buffer_count(); ++i) {
      const buffer_spec spec = type.buffer(i);
      const bool bytes = spec.role == buffer_role::bytes;
      add(of.buffers()[i], bytes ? byte_window{static_cast<std::size_t>(found.rows[0].first),
                                               static_cast<std::size_t>(found.rows[0].count)}
                                 : bytes_of_rows(spec, first, rows));
    }
    if (!type.has_variadic_buffers()) {
      return;
    }
    const std::int64_t referred = found.rows[0].count;
    if (counted_ != scattered_rows::all && referred < bytes_behind_views(of)) {
      made_.behind_views += static_cast<std::uint64_t>(referred);
      return;
    }
    for (const buffer& each : of.buffers().subspan(type.buffer_count())) {
      add(each, {0, each.size()});
    }
  }

  static void add_children(const column& of, const referred_rows& found, std::vector<column>& next) {
    for (std::size_t i = 0; i < of.children().size(); ++i) {
      const child_rows& rows = found.rows[found.rows.size() == 1 ? 0 : i];
      if (rows.count != 0) {
        next.push_back(of.children()[i].slice(rows.first, rows.count));
      }
    }
  }

  void add_dictionary(const column& of, std::vector<column>& next) const {
    if (!dictionaries_ || of.dictionary() == nullptr) {
      return;
    }
    const child_rows share = of.share_of(of.dictionary()->length());
    if (share.count != 0) {
      next.push_back(of.dictionary()->slice(share.first, share.count));
    }
  }

  scattered_rows counted_;
  bool dictionaries_;
  row_bytes made_;
};

} // namespace

std::uint64_t row_bytes::total() const {
  std::vector<address_range> sorted = ranges;
  std::ranges::sort(sorted, {}, &address_range::address);
  std::uint64_t sum = behind_views;
  std::uintptr_t counted_to = 0;
  for (const address_range& range : sorted) {
    const std::uintptr_t end = range.address + range.bytes;
    if (end > counted_to) {
      sum += end - std::max(range.address, counted_to);
      counted_to = end;
    }
  }
  return sum;
}

row_bytes bytes_of_columns(std::span<const column> columns, scattered_rows counted, bool dictionaries) {
  std::vector<column> level;
  for (const column& each : columns) {
    if (each.length() != 0 || each.dictionary() != nullptr) {
      level.push_back(each);
    }
  }
  return byte_counter(counted, dictionaries).run(std::move(level));
}

} // namespace saeta
