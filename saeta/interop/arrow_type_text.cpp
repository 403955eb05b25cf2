#include "saeta/interop/arrow_type_text.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/data_type.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace saeta {
namespace {

/// Deeper types end in "...": a struct may even point to itself.
constexpr int max_depth = 16;
/// At most this many children are spelled out.
constexpr std::int64_t shown_children = 16;

std::string text_at(const ArrowSchema* source, int depth);

const ArrowSchema* child_of(const ArrowSchema& source, std::int64_t index) {
  return source.children != nullptr && index < source.n_children ? source.children[index] : nullptr;
}

/// "name: type", as Arrow prints a field.
std::string field_text(const ArrowSchema* child, int depth) {
  if (child == nullptr) {
    return "?";
  }
  const bool nullable = (child->flags & ARROW_FLAG_NULLABLE) != 0;
  return concat(child->name == nullptr ? "" : child->name, ": ", text_at(child, depth),
                nullable ? "" : " not null");
}

std::string fields_text(const ArrowSchema& source, int depth) {
  std::string text;
  const std::int64_t shown = std::min(source.n_children, shown_children);
  for (std::int64_t i = 0; i < shown; ++i) {
    text += concat(i == 0 ? "" : ", ", field_text(child_of(source, i), depth));
  }
  return source.n_children > shown ? text + ", ..." : text;
}

std::string map_text(const ArrowSchema& source, int depth) {
  const ArrowSchema* const entries = child_of(source, 0);
  const ArrowSchema* const key = entries == nullptr ? nullptr : child_of(*entries, 0);
  const ArrowSchema* const item = entries == nullptr ? nullptr : child_of(*entries, 1);
  const bool sorted = (source.flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0;
  return concat("map<", text_at(key, depth), ", ", text_at(item, depth), sorted ? ", keys_sorted" : "", ">");
}

std::string dictionary_text(const ArrowSchema& source, int depth) {
  ArrowSchema indices = source;
  indices.dictionary = nullptr;
  const bool ordered = (source.flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0;
  return concat("dictionary<values=", text_at(source.dictionary, depth),
                ", indices=", text_at(&indices, depth), ", ordered=", ordered ? 1 : 0, ">");
}

struct nested_name {
  std::string_view format; ///< a prefix where parameters follow
  std::string_view name;
};

constexpr std::array<nested_name, 9> nested_names{{
    {"+l", "list"},
    {"+L", "large_list"},
    {"+vl", "list_view"},
    {"+vL", "large_list_view"},
    {"+w:", "fixed_size_list"},
    {"+s", "struct"},
    {"+ud:", "dense_union"},
    {"+us:", "sparse_union"},
    {"+r", "run_end_encoded"},
}};

std::string nested_text(const ArrowSchema& source, std::string_view format, int depth) {
  if (format == "+m") {
    return map_text(source, depth);
  }
  const auto* const found =
      std::find_if(nested_names.begin(), nested_names.end(),
                   [&](const nested_name& nested) { return format.starts_with(nested.format); });
  if (found == nested_names.end()) {
    return concat("'", format, "'");
  }
  const std::string_view parameters = format.substr(found->format.size());
  return concat(found->name, "<", fields_text(source, depth), ">", parameters.empty() ? "" : "[", parameters,
                parameters.empty() ? "" : "]");
}

std::string text_at(const ArrowSchema* source, int depth) {
  if (source == nullptr || source->format == nullptr) {
    return "?";
  }
  if (depth == max_depth) {
    return "...";
  }
  const std::string_view format = source->format;
  if (source->dictionary != nullptr) {
    return dictionary_text(*source, depth + 1);
  }
  if (format.starts_with('+')) {
    return nested_text(*source, format, depth + 1);
  }
  if (format == "vu" || format == "vz") {
    return format == "vu" ? "string_view" : "binary_view";
  }
  try {
    return data_type::parse(format).name();
  } catch (const error&) {
    return concat("'", format, "'");
  }
}

} // namespace

std::string type_text(const ArrowSchema& source) { return text_at(&source, 0); }

} // namespace saeta
