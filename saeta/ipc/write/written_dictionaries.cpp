#include "saeta/ipc/write/written_dictionaries.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/arrow_bridge.hpp"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <optional>

namespace saeta::ipc::detail {
namespace {

table with_plain_indices(const table& source) {
  schema fields = source.fields();
  std::vector<batch> batches(source.batches().begin(), source.batches().end());
  for (std::size_t number = 0; number < fields.fields.size(); ++number) {
    auto& type = fields.fields[number].type;
    if (const data_type* const codes = code_type(type)) {
      for (auto& part : batches) {
        part.columns[number] = codes_of(part.columns[number]);
      }
      type = data_type(*codes);
    }
  }
  return table::make(source.ctx(), std::move(fields), std::move(batches));
}

/// Returns why the dictionaries of a type can't be read back; nullopt if they can.
std::optional<std::string> obstacle(const data_type& type) {
  if (const data_type* const values = type.value_type()) {
    if (values->id() == type_id::dictionary) {
      return "the values of the dictionary are indices of another dictionary";
    }
    if (!values->extension_name().empty()) {
      return concat("a file records the extension type of a dictionary, but not that of its values: they "
                    "would be read without '",
                    values->extension_name(), "', or not at all. Write the values ",
                    "themselves (in pyarrow: column.dictionary_decode()), or a dictionary of their storage");
    }
    return obstacle(*values);
  }
  for (const field& child : type.children()) {
    if (auto why = obstacle(child.type)) {
      return why;
    }
  }
  return std::nullopt;
}

/// Bytes of names. Threads may write them to the file after the dictionary itself is gone.
class text_buffer final : public arrow::Buffer {
public:
  text_buffer(std::span<const std::byte> bytes, std::shared_ptr<const void> kept)
      : arrow::Buffer(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<std::int64_t>(bytes.size())),
        kept_(std::move(kept)) {}

private:
  std::shared_ptr<const void> kept_;
};

/// A view of rows of symbols in libarrow's memory.
host_array symbols_in(const arrow::ArrayData& numbers) {
  const auto bytes = [](const std::shared_ptr<arrow::Buffer>& of) {
    return of == nullptr ? std::span<const std::byte>()
                         : std::as_bytes(std::span(of->data(), static_cast<std::size_t>(of->size())));
  };
  host_array made;
  made.type = data_type(type_id::uint32);
  made.length = numbers.length;
  made.offset = numbers.offset;
  made.buffers = {bytes(numbers.buffers[0]), bytes(numbers.buffers[1])};
  return made;
}

} // namespace

void require_writable(const schema& fields) {
  for (const field& each : fields.fields) {
    if (const auto why = obstacle(each.type)) {
      throw error(errc::unsupported,
                  concat("column '", each.name, "': type ", each.type.name(), " can't be written: ", *why));
    }
  }
}

bool has_dictionaries(const schema& fields) {
  return std::ranges::any_of(fields.fields, [](const field& each) {
    return code_type(each.type) != nullptr || !dictionary_places(each.type).empty();
  });
}

written_dictionaries::written_dictionaries(const schema& fields, container format, bool several)
    : fields_(fields) {
  require_writable(fields_);
  for (std::size_t number = 0; number < fields_.fields.size(); ++number) {
    const field& described = fields_.fields[number];
    if (auto names = symbol_dictionary::of(described.type)) {
      symbols_.push_back({number, concat("column '", described.name, "'"), std::move(names), nullptr});
      continue;
    }
    for (child_path& path : dictionary_places(described.type)) {
      // Dictionaries inside other types are downloaded with their rows. A stream takes them as they are, and
      // so does a file of one batch.
      const bool used = path.empty() || several;
      if (used || format == container::file) {
        places_.push_back({placed_dictionaries(described, number, std::move(path), format), used});
      }
    }
  }
  described_ = arrow_schema(fields_);
}

void written_dictionaries::begin(const table& source) {
  indices_ = with_plain_indices(source);
  for (symbol_column& each : symbols_) {
    gather_names(each, source);
  }
  schema written = fields_;
  for (place& each : places_) {
    each.used = each.used || source.batches().size() > 1;
    if (each.used) {
      each.dictionaries.begin(source, !begun_);
      data_type& type = written.fields[each.dictionaries.number()].type;
      type = each.dictionaries.retype(type);
    }
  }
  if (!begun_ && written != fields_) {
    described_ = arrow_schema(written);
  }
  begun_ = true;
}

void written_dictionaries::end() noexcept {
  indices_.reset();
  for (place& each : places_) {
    each.dictionaries.end();
  }
}

void written_dictionaries::gather_names(symbol_column& of, const table& source) {
  for (std::size_t b = 0; b < source.batches().size(); ++b) {
    const auto numbers = export_array(codes_of(source.batches()[b].columns[of.number]));
    of.names->take(symbols_in(*numbers->data()), concat("batch ", b, ": ", of.label), nullptr);
  }
  const host_array there = of.names->values();
  if (of.values != nullptr && of.values->length == there.length) {
    return; // no new names, and message_writer knows the same values by their address
  }
  const auto text = [&](std::size_t i) {
    return std::make_shared<text_buffer>(there.buffers[i], of.names->keepalive());
  };
  of.values = arrow::ArrayData::Make(arrow::utf8(), there.length, {nullptr, text(1), text(2)}, 0);
}

std::shared_ptr<arrow::ArrayData> written_dictionaries::rename_dictionary(const symbol_column& column,
                                                                          const arrow::ArrayData& numbers,
                                                                          const arrow::Field& described) {
  const std::int64_t rows = numbers.offset + numbers.length;
  auto target = take(arrow::AllocateBuffer(rows * static_cast<std::int64_t>(sizeof(symbol))), column.label);
  auto* const indices = target->mutable_data_as<std::uint32_t>();
  std::fill_n(indices, numbers.offset, 0U);
  column.names->take(symbols_in(numbers), column.label, indices + numbers.offset);
  auto made = numbers.Copy();
  made->buffers[1] = std::move(target);
  made->type = described.type();
  made->dictionary = column.values;
  return made;
}

bool written_dictionaries::will_rewrite(std::size_t number) const {
  return std::ranges::any_of(symbols_, [&](const auto& each) { return each.number == number; }) ||
         std::ranges::any_of(places_, [&](const place& each) {
           return each.used && each.dictionaries.number() == number && each.dictionaries.has_new_numbers();
         });
}

std::shared_ptr<arrow::RecordBatch> written_dictionaries::restore(std::size_t index,
                                                                  const arrow::RecordBatch& plain) const {
  auto columns = plain.column_data();
  for (const auto& [dictionaries, used] : places_) {
    if (used) {
      auto& data = columns[dictionaries.number()];
      data =
          dictionaries.put(index, *data, described_->field(static_cast<int>(dictionaries.number()))->type());
    }
  }
  for (const auto& column : symbols_) {
    auto& data = columns[column.number];
    data = rename_dictionary(column, *data, *described_->field(static_cast<int>(column.number)));
  }
  return arrow::RecordBatch::Make(described_, plain.num_rows(), std::move(columns));
}

} // namespace saeta::ipc::detail
