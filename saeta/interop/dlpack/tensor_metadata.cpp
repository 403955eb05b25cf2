#include "saeta/base/text.hpp"
#include "saeta/interop/dlpack/tensors.hpp"

#include <charconv>
#include <numeric>

namespace saeta {
namespace {

/// Reads JSON from left to right and skips values that are not needed.
class json_reader {
public:
  explicit json_reader(std::string_view text) : text_(text), rest_(text) {}

  void skip_space() {
    const std::size_t spaces = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(spaces == std::string_view::npos ? rest_.size() : spaces);
  }

  /// Skips white space. If the next character is `wanted`, consumes it and returns true.
  bool take(char wanted) {
    skip_space();
    const bool found = rest_.starts_with(wanted);
    rest_.remove_prefix(found ? 1 : 0);
    return found;
  }

  void expect(char wanted) {
    if (!take(wanted)) {
      refuse(concat("expected '", wanted, "'"));
    }
  }

  /// The characters between quotes. Escapes are not decoded.
  std::string_view string() {
    expect('"');
    std::size_t end = 0;
    while (end < rest_.size() && rest_[end] != '"') {
      end += rest_[end] == '\\' ? 2U : 1U;
    }
    if (end >= rest_.size()) {
      refuse("a string is not terminated");
    }
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::int64_t integer() {
    skip_space();
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (failure != std::errc()) {
      refuse("expected an integer");
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return number;
  }

  std::vector<std::int64_t> integers() {
    std::vector<std::int64_t> values;
    expect('[');
    if (take(']')) {
      return values;
    }
    do {
      values.push_back(integer());
    } while (take(','));
    expect(']');
    return values;
  }

  /// Skips a value: brackets with their contents, a string, or a word.
  void skip() {
    int open = 0;
    do {
      if (take('[') || take('{')) {
        ++open;
      } else if (take(']') || take('}')) {
        --open;
      } else if (rest_.starts_with('"')) {
        string();
      } else if (open != 0 && (take(',') || take(':'))) {
        continue;
      } else {
        const std::size_t end = rest_.find_first_of(",:[]{}\"");
        if (end == 0 || end == std::string_view::npos) {
          refuse("expected a value");
        }
        rest_.remove_prefix(end);
      }
    } while (open > 0);
  }

  bool at_end() {
    skip_space();
    return rest_.empty();
  }

  [[noreturn]] void refuse(std::string_view why) const {
    throw error(errc::format, concat("metadata of ", fixed_shape_tensor, ", '", text_.substr(0, 200),
                                     "': ", why, " at character ", text_.size() - rest_.size()));
  }

private:
  std::string_view text_;
  std::string_view rest_;
};

void require_permutation(const tensor_metadata& of, const json_reader& source) {
  std::vector<bool> seen(of.shape.size());
  for (const std::int64_t dimension : of.permutation) {
    if (dimension < 0 || static_cast<std::size_t>(dimension) >= seen.size() ||
        seen[static_cast<std::size_t>(dimension)]) {
      source.refuse(concat("the permutation has ", dimension, " at the wrong place"));
    }
    seen[static_cast<std::size_t>(dimension)] = true;
  }
  if (of.permutation.size() != of.shape.size()) {
    source.refuse(
        concat("the permutation has ", of.permutation.size(), " dimensions, the shape ", of.shape.size()));
  }
}

} // namespace

tensor_metadata parse_tensor_metadata(std::string_view json) {
  json_reader source(json);
  tensor_metadata metadata;
  bool has_shape = false;
  bool has_permutation = false;
  source.expect('{');
  if (!source.take('}')) {
    do {
      const std::string_view key = source.string();
      source.expect(':');
      if (key == "shape") {
        metadata.shape = source.integers();
        has_shape = true;
      } else if (key == "permutation") {
        metadata.permutation = source.integers();
        has_permutation = true;
      } else {
        source.skip();
      }
    } while (source.take(','));
    source.expect('}');
  }
  if (!source.at_end()) {
    source.refuse("unexpected text follows");
  }
  if (!has_shape) {
    source.refuse("the shape is missing");
  }
  for (const std::int64_t extent : metadata.shape) {
    if (extent < 0) {
      source.refuse(concat("the shape has a dimension of ", extent));
    }
  }
  if (!has_permutation) {
    metadata.permutation.resize(metadata.shape.size());
    std::iota(metadata.permutation.begin(), metadata.permutation.end(), std::int64_t{0});
  }
  require_permutation(metadata, source);
  return metadata;
}

} // namespace saeta
