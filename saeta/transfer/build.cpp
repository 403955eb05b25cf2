#include "saeta/transfer/build.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/transfer/upload.hpp"

namespace saeta {
namespace {

static_assert(std::endian::native == std::endian::little, "Arrow's host layout here is little-endian");

std::int64_t rows_of(const host_values& given) {
  const data_type& type = given.described.type;
  const auto width = static_cast<std::size_t>(type.byte_width());
  if (width == 0 || type.id() == type_id::dictionary) {
    throw error(errc::unsupported,
                concat("column '", given.described.name, "': raw values of type ", type.name(),
                       " are not supported, expected a type of whole bytes per value",
                       type.id() == type_id::boolean ? ", for bools bool8" : ""));
  }
  if (given.bytes.size() % width != 0) {
    throw error(errc::invalid_argument, concat("column '", given.described.name, "': ", given.bytes.size(),
                                               " bytes are not a whole number of ", type.name(),
                                               " values, expected a multiple of ", width));
  }
  return static_cast<std::int64_t>(given.bytes.size() / width);
}

} // namespace

table table_of_values(const std::shared_ptr<context>& ctx, std::span<const host_values> columns,
                      std::string tag) {
  require_argument(ctx, "ctx");
  schema fields;
  host_batch source;
  // Checks each column's bytes before comparing rows, so that the message names the wrong column.
  for (const host_values& given : columns) {
    const std::int64_t rows = rows_of(given);
    fields.fields.push_back(given.described);
    source.arrays.push_back({given.described.type, rows, 0, 0, {{}, given.bytes}});
  }
  for (const host_array& array : source.arrays) {
    source.rows = source.arrays.front().length;
    if (array.length != source.rows) {
      const auto index = static_cast<std::size_t>(&array - source.arrays.data());
      throw error(errc::invalid_argument,
                  concat("column '", fields.fields[index].name, "' has ", array.length, " rows, expected ",
                         source.rows, " as column '", fields.fields.front().name, "'"));
    }
  }
  dictionary_cache none;
  upload_options options;
  options.tag = std::move(tag);
  batch made = upload(ctx, source, none, options);
  return table::make(ctx, std::move(fields), {std::move(made)});
}

} // namespace saeta
