#include "saeta/ipc/format/packed_schema.hpp"

#include "saeta/base/process.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/format/message_fields.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/format/metadata_encoder.hpp"
#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/symbols/symbol_arrays.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

namespace saeta::ipc::detail {
namespace {

const metadata_list::value_type byte_bool_mark{"saeta.bool8", "bytes"};

field described(const field& of) {
  field field = described_as(of, symbol_form::dictionary);
  if (field.type.is_byte_bool()) {
    field.type = data_type::bool8();
    field.metadata.push_back(byte_bool_mark);
  }
  return field;
}

field shown(const field& of) {
  field field = resolve_symbols(of);
  const auto mark = std::ranges::find(field.metadata, byte_bool_mark);
  if (mark != field.metadata.end() && field.type == data_type::bool8()) {
    field.type = data_type::byte_bool();
    field.metadata.erase(mark);
  }
  return field;
}

std::size_t places_of_dictionaries(const column_tree& of) {
  return static_cast<std::size_t>(
      std::ranges::count_if(of.nodes, [](const tree_node& node) { return node.dictionary != no_node; }));
}

/// Finds the places of all columns. `fields` and `flat` are known.
void place_columns(packed_schema& of) {
  of.tree = make_tree(of.fields, schema_table(container::stream, of.flat), of.dictionaries, version_5);
  std::size_t places = places_of_dictionaries(of.tree);
  for (const auto& tree : of.dictionaries.trees) {
    places += places_of_dictionaries(*tree);
  }
  of.own_dictionaries = places == of.dictionaries.trees.size();
}

std::unique_ptr<const packed_schema> encode(const schema& of) {
  require_writable(of);
  auto schema = std::make_unique<packed_schema>();
  schema->shown = of;
  schema->fields.metadata = of.metadata;
  std::ranges::transform(of.fields, std::back_inserter(schema->fields.fields), described);
  schema->flat = encode_schema(schema->fields);
  place_columns(*schema);
  return schema;
}

std::unique_ptr<const packed_schema> decode(std::span<const std::byte> flat) {
  if (const auto order = schema_table(container::stream, flat).scalar<std::int16_t>(schema_endianness, 0);
      order != 0) {
    throw error(errc::unsupported, concat("its schema has byte order ", order, ", expected 0 (little)"));
  }
  auto schema = std::make_unique<packed_schema>();
  schema->flat.assign(flat.begin(), flat.end());
  source_schema read = read_schema(container::stream, schema->flat);
  for (const auto& [number, _] : read.obstacles) {
    read.require_supported(number);
  }
  schema->fields = std::move(read.fields);
  schema->shown.metadata = schema->fields.metadata;
  std::ranges::transform(schema->fields.fields, std::back_inserter(schema->shown.fields), shown);
  place_columns(*schema);
  return schema;
}

/// The schemas that were encoded or read last, latest first. Tables that are made or arrive one after the
/// other often have the same one, and encoding a thousand fields takes longer than packing their columns.
class recent_schemas {
public:
  /// A form for an equal schema; null if there is none.
  std::shared_ptr<const packed_schema> find(const schema& shown) {
    return find_if([&](const decoded_schema& schema) {
             return schema.form->own_dictionaries && schema.form->shown == shown;
           })
        .form;
  }
  /// The schema that was decoded from the same bytes; empty if it is not kept.
  decoded_schema find(std::span<const std::byte> flat) {
    return find_if([&](const decoded_schema& schema) {
      const std::vector<std::byte>& known = schema.form->flat;
      return schema.shown != nullptr && known.size() == flat.size() &&
             std::memcmp(known.data(), flat.data(), flat.size()) == 0;
    });
  }
  /// @param schema  without `shown` if the form was encoded
  void add(decoded_schema schema) {
    const bool has_symbols = std::ranges::any_of(schema.form->shown.fields,
                                                 [](const field& field) { return field.type.is_symbol(); });
    if (schema.form->flat.size() > largest || (schema.shown == nullptr && has_symbols)) {
      return; // a remembered schema with symbols would keep their table alive
    }
    decoded_schema dropped;
    const std::lock_guard lock(mutex_);
    if (kept_.size() == most) {
      dropped = std::move(kept_.back());
      kept_.pop_back();
    }
    kept_.insert(kept_.begin(), std::move(schema));
  }

private:
  template <class Predicate>
  decoded_schema find_if(Predicate is_it) {
    const std::lock_guard lock(mutex_);
    const auto match = std::ranges::find_if(kept_, is_it);
    if (match == kept_.end()) {
      return {};
    }
    std::rotate(kept_.begin(), match, match + 1);
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
  if (decoded_schema schema = known.find(flat); schema.form != nullptr) {
    return schema;
  }
  decoded_schema result;
  result.form = decode(flat);
  result.shown = std::make_shared<const schema_index>(result.form->shown);
  if (result.form->own_dictionaries) {
    static_cast<void>(result.shown->derived<packed_schema>([&](const schema&) { return result.form; }));
  }
  known.add(result);
  return result;
}

} // namespace saeta::ipc::detail
