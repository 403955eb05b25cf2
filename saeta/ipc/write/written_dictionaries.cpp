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
      return "the values of a dictionary are indices of another";
    }
    if (!values->extension_name().empty()) {
      return concat(
          "a file says of a dictionary which extension type it is, and not of its values: they would ",
          "come back without '", values->extension_name(), "', or not at all. Write the values ",
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

written_dictionaries::written_dictionaries(const table& source, container format)
    : indices_(with_plain_indices(source)) {
  require_writable(source.fields());
  schema written = source.fields();
  for (std::size_t number = 0; number < source.column_count(); ++number) {
    data_type& type = written.fields[number].type;
    if (auto names = symbol_dictionary::of(type)) {
      symbols_.push_back(gather_names(source, number, std::move(names)));
      continue;
    }
    for (child_path& path : dictionary_places(type)) {
      // Dictionaries inside other types are downloaded with their rows. A stream takes them as they are.
      if (path.empty() || (format == container::file && source.batches().size() > 1)) {
        type = placed_.emplace_back(source, number, std::move(path), format).retyped(type);
      }
    }
  }
  described_ = arrow_schema(written);
}

written_dictionaries::symbol_column
written_dictionaries::gather_names(const table& source, std::size_t number,
                                   std::unique_ptr<symbol_dictionary> names) {
  symbol_column made{number, concat("column '", source.fields().fields[number].name, "'"), std::move(names),
                     nullptr};
  for (std::size_t b = 0; b < source.batches().size(); ++b) {
    const auto numbers = export_array(codes_of(source.batches()[b].columns[number]));
    made.names->take(symbols_in(*numbers->data()), concat("batch ", b, ": ", made.label), nullptr);
  }
  const host_array there = made.names->values();
  const auto text = [&](std::size_t i) {
    return std::make_shared<text_buffer>(there.buffers[i], made.names->keepalive());
  };
  made.values = arrow::ArrayData::Make(arrow::utf8(), there.length, {nullptr, text(1), text(2)}, 0);
  return made;
}

std::shared_ptr<arrow::ArrayData> written_dictionaries::renamed(const symbol_column& column,
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

bool written_dictionaries::rewrites(std::size_t number) const {
  return std::ranges::any_of(symbols_, [&](const auto& each) { return each.number == number; }) ||
         std::ranges::any_of(placed_,
                             [&](const auto& each) { return each.number() == number && each.renumbers(); });
}

std::shared_ptr<arrow::RecordBatch> written_dictionaries::restore(std::size_t index,
                                                                  const arrow::RecordBatch& plain) const {
  auto columns = plain.column_data();
  for (const placed_dictionaries& each : placed_) {
    auto& data = columns[each.number()];
    data = each.put(index, *data, described_->field(static_cast<int>(each.number()))->type());
  }
  for (const auto& column : symbols_) {
    auto& data = columns[column.number];
    data = renamed(column, *data, *described_->field(static_cast<int>(column.number)));
  }
  return arrow::RecordBatch::Make(described_, plain.num_rows(), std::move(columns));
}

} // namespace saeta::ipc::detail
