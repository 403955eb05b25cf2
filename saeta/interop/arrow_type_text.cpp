#include "saeta/interop/detail/arrow_type_text.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/data_type.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace saeta {
namespace {

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

const ArrowSchema* child_of(const ArrowSchema& source, std::int64_t index) {
  return source.children != nullptr && index < source.n_children ? source.children[index] : nullptr;
}

/// Takes the text before the next comma.
std::string_view take_item(std::string_view& list) {
  const std::string_view item = list.substr(0, list.find(','));
  list.remove_prefix(std::min(item.size() + 1, list.size()));
  return item;
}

std::string simple_text(std::string_view format) {
  if (format == "vu" || format == "vz") {
    return format == "vu" ? "string_view" : "binary_view";
  }
  try {
    return data_type::parse(format).name();
  } catch (const error&) {
    return concat("'", format, "'");
  }
}

/// Writes depth first and stops at a length and a depth: children may be many, and a struct may even hold itself.
class type_writer {
public:
  static constexpr std::size_t max_length = 400;
  static constexpr int max_depth = 16;

  void type(const ArrowSchema* source, int depth) {
    if (source == nullptr || source->format == nullptr) {
      text_ += '?';
    } else if (full() || depth == max_depth) {
      text_ += "...";
    } else if (source->dictionary != nullptr) {
      dictionary(*source, depth + 1);
    } else if (source->format[0] == '+') {
      nested(*source, source->format, depth + 1);
    } else {
      text_ += simple_text(source->format);
    }
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

private:
  [[nodiscard]] bool full() const { return text_.size() > max_length; }

  void dictionary(const ArrowSchema& source, int depth) {
    ArrowSchema indices = source;
    indices.dictionary = nullptr;
    text_ += "dictionary<values=";
    type(source.dictionary, depth);
    text_ += ", indices=";
    type(&indices, depth);
    text_ += (source.flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0 ? ", ordered=1>" : ", ordered=0>";
  }

  void map(const ArrowSchema& source, int depth) {
    const ArrowSchema* const entries = child_of(source, 0);
    text_ += "map<";
    type(entries == nullptr ? nullptr : child_of(*entries, 0), depth);
    text_ += ", ";
    type(entries == nullptr ? nullptr : child_of(*entries, 1), depth);
    text_ += (source.flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0 ? ", keys_sorted>" : ">";
  }

  void nested(const ArrowSchema& source, std::string_view format, int depth) {
    if (format == "+m") {
      return map(source, depth);
    }
    const auto* const found =
        std::find_if(nested_names.begin(), nested_names.end(),
                     [&](const nested_name& name) { return format.starts_with(name.format); });
    if (found == nested_names.end()) {
      text_ += concat("'", format, "'");
      return;
    }
    const std::string_view parameters = format.substr(found->format.size());
    const bool sized = found->name == "fixed_size_list";
    text_ += concat(found->name, "<");
    fields(source, sized ? "" : parameters, depth);
    text_ += sized ? concat(">[", parameters, "]") : ">";
  }

  /// The children, each with its type code in a union.
  void fields(const ArrowSchema& source, std::string_view codes, int depth) {
    for (std::int64_t i = 0; i < source.n_children; ++i) {
      text_ += i == 0 ? "" : ", ";
      if (full()) {
        text_ += "...";
        return;
      }
      const std::string_view code = take_item(codes);
      one_field(child_of(source, i), depth);
      text_ += code.empty() ? "" : concat("=", code);
    }
  }

  /// "name: type", as Arrow prints a field.
  void one_field(const ArrowSchema* child, int depth) {
    if (child == nullptr) {
      text_ += '?';
      return;
    }
    text_ += concat(child->name == nullptr ? "" : child->name, ": ");
    type(child, depth);
    text_ += (child->flags & ARROW_FLAG_NULLABLE) != 0 ? "" : " not null";
  }

  std::string text_;
};

} // namespace

std::string type_text(const ArrowSchema& source) {
  type_writer writer;
  writer.type(&source, 0);
  return std::move(writer).take();
}

} // namespace saeta
