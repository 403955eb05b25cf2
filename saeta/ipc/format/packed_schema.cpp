#include "saeta/ipc/format/packed_schema.hpp"

#include "saeta/base/process.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/ipc/format/schema_metadata.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/symbols/symbol_arrays.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

namespace saeta::ipc::detail {
namespace {

const metadata_list::value_type byte_bool_mark{"saeta.bool8", "bytes"};

field described(const field& of) {
  field made = described_as(of, symbol_form::dictionary);
  if (made.type.is_byte_bool()) {
    made.type = data_type::bool8();
    made.metadata.push_back(byte_bool_mark);
  }
  return made;
}

field shown(const field& of) {
  field made = resolve_symbols(of);
  const auto mark = std::ranges::find(made.metadata, byte_bool_mark);
  if (mark != made.metadata.end() && made.type == data_type::bool8()) {
    made.type = data_type::byte_bool();
    made.metadata.erase(mark);
  }
  return made;
}

std::size_t places_of_dictionaries(const column_tree& of) {
  return static_cast<std::size_t>(
      std::ranges::count_if(of.nodes, [](const tree_node& each) { return each.dictionary != no_node; }));
}

/// Finds the places of all columns. `fields` and `flat` are known.
void place_columns(packed_schema& of) {
  std::vector<int> all(of.fields.fields.size());
  std::iota(all.begin(), all.end(), 0);
  of.tree = make_tree(of.fields, all, schema_table(container::stream, of.flat), of.dictionaries, version_5);
  std::size_t places = places_of_dictionaries(of.tree);
  for (const auto& each : of.dictionaries.trees) {
    places += places_of_dictionaries(*each);
  }
  of.own_dictionaries = places == of.dictionaries.trees.size();
}

std::unique_ptr<const packed_schema> encode(const schema& of) {
  require_writable(of);
  auto made = std::make_unique<packed_schema>();
  made->shown = of;
  made->fields.metadata = of.metadata;
  std::ranges::transform(of.fields, std::back_inserter(made->fields.fields), described);
  made->flat = encode_schema(made->fields);
  place_columns(*made);
  return made;
}

std::unique_ptr<const packed_schema> decode(std::span<const std::byte> flat) {
  if (const auto order = schema_table(container::stream, flat).scalar<std::int16_t>(schema_endianness, 0);
      order != 0) {
    throw error(errc::unsupported, concat("its schema has byte order ", order, ", expected 0 (little)"));
  }
  auto made = std::make_unique<packed_schema>();
  made->flat.assign(flat.begin(), flat.end());
  source_schema read = read_schema(container::stream, made->flat);
  for (const auto& [number, _] : read.obstacles) {
    read.require_supported(number);
  }
  made->fields = std::move(read.fields);
  made->shown.metadata = made->fields.metadata;
  std::ranges::transform(made->fields.fields, std::back_inserter(made->shown.fields), shown);
  place_columns(*made);
  return made;
}

/// The schemas that were encoded or read last, latest first. Tables that are made or arrive one after the
/// other often have the same one, and encoding a thousand fields takes longer than packing their columns.
class recent_schemas {
public:
  /// A form for an equal schema; null if there is none.
  std::shared_ptr<const packed_schema> find(const schema& shown) {
    return find_if([&](const decoded_schema& each) {
             return each.form->own_dictionaries && each.form->shown == shown;
           })
        .form;
  }
  /// What was read from the same bytes; empty if there is nothing.
  decoded_schema find(std::span<const std::byte> flat) {
    return find_if([&](const decoded_schema& each) {
      const std::vector<std::byte>& known = each.form->flat;
      return each.shown != nullptr && known.size() == flat.size() &&
             std::memcmp(known.data(), flat.data(), flat.size()) == 0;
    });
  }
  /// @param made  without `shown` if the form was encoded
  void add(decoded_schema made) {
    const bool has_symbols =
        std::ranges::any_of(made.form->shown.fields, [](const field& each) { return each.type.is_symbol(); });
    if (made.form->flat.size() > largest || (made.shown == nullptr && has_symbols)) {
      return; // symbols would keep their table
    }
    decoded_schema dropped;
    const std::lock_guard lock(mutex_);
    if (kept_.size() == most) {
      dropped = std::move(kept_.back());
      kept_.pop_back();
    }
    kept_.insert(kept_.begin(), std::move(made));
  }

private:
  template <class Predicate>
  decoded_schema find_if(Predicate is_it) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(kept_, is_it);
    if (found == kept_.end()) {
      return {};
    }
    std::rotate(kept_.begin(), found, found + 1);
    return kept_.front();
  }

  static constexpr std::size_t most = 8;
  /// Wider schemas are encoded and read each time, and so need no memory.
  static constexpr std::size_t largest = std::size_t{256} << 10;
  std::mutex mutex_;
  std::vector<decoded_schema> kept_;
};

constinit per_process<recent_schemas> recent;

} // namespace

std::shared_ptr<const packed_schema> packed_form(const schema_index& of) {
  return of.derived<packed_schema>([](const schema& shown) {
    auto form = recent.get().find(shown);
    if (form == nullptr) {
      form = encode(shown);
      recent.get().add({form, nullptr});
    }
    return form;
  });
}

decoded_schema decode_schema(std::span<const std::byte> flat) {
  recent_schemas& known = recent.get();
  if (decoded_schema found = known.find(flat); found.form != nullptr) {
    return found;
  }
  decoded_schema made;
  made.form = decode(flat);
  made.shown = std::make_shared<const schema_index>(made.form->shown);
  if (made.form->own_dictionaries) {
    static_cast<void>(made.shown->derived<packed_schema>([&](const schema&) { return made.form; }));
  }
  known.add(made);
  return made;
}

} // namespace saeta::ipc::detail
