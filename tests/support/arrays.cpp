#include "support/arrays.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"
#include "support/nested_arrays.hpp"

#include <algorithm>
#include <cstring>

namespace saeta::support {
namespace {

using bytes = std::vector<std::byte>;
using engine = std::mt19937_64;

bool bit_at(const std::byte* bits, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  return (std::to_integer<unsigned>(bits[at / 8]) >> (at % 8) & 1U) != 0;
}

std::int64_t below(engine& random, std::int64_t limit) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
}

bytes random_bytes(std::size_t count, engine& random) {
  bytes made(count);
  std::generate(made.begin(), made.end(), [&] { return static_cast<std::byte>(random() & 0xFF); });
  return made;
}

bytes make_validity(std::int64_t rows, nulls pattern, engine& random) {
  const auto size = static_cast<std::size_t>((rows + 7) / 8);
  switch (pattern) {
  case nulls::absent:
    return {};
  case nulls::none:
    return bytes(size, std::byte{0xFF});
  case nulls::all:
    return bytes(size, std::byte{0});
  case nulls::some:
    return random_bytes(size, random);
  }
  return {};
}

/// Adds the offsets and data buffers of random strings. The offsets do not start at 0.
template <class T>
void add_strings(std::int64_t rows, engine& random, std::vector<bytes>& buffers) {
  std::vector<T> offsets{static_cast<T>(below(random, 4))};
  for (std::int64_t i = 0; i < rows; ++i) {
    offsets.push_back(static_cast<T>(offsets.back() + below(random, 4) * below(random, 5)));
  }
  bytes letters(static_cast<std::size_t>(offsets.back()));
  std::generate(letters.begin(), letters.end(),
                [&] { return static_cast<std::byte>('a' + below(random, 26)); });
  const auto* const first = reinterpret_cast<const std::byte*>(offsets.data());
  buffers.emplace_back(first, first + (rows == 0 ? 0 : offsets.size() * sizeof(T)));
  buffers.push_back(rows == 0 ? bytes{} : std::move(letters));
}

/// Sets the indices of valid rows to dictionary entries. Indices under a null stay random.
void bound_indices(plain_array& made, engine& random) {
  const auto width = static_cast<std::size_t>(made.type.byte_width());
  const std::int64_t entries = std::min<std::int64_t>(made.dictionary->length, 100);
  for (std::int64_t row = 0; row < made.length; ++row) {
    if (made.valid(row)) {
      const std::int64_t index = below(random, entries);
      std::memcpy(made.buffers[1].data() + static_cast<std::size_t>(made.offset + row) * width, &index,
                  width);
    }
  }
}

struct node {
  std::vector<shared_array> arrays;
  std::vector<const void*> buffers;
  std::vector<std::int64_t> variadic_sizes;
  std::vector<arrow_array> children;
  std::vector<ArrowArray*> child_pointers;
  arrow_array dictionary;
  std::shared_ptr<std::atomic<int>> releases;
};

void release_node(ArrowArray* array) {
  const std::unique_ptr<node> owned(static_cast<node*>(array->private_data));
  if (owned->releases) {
    ++*owned->releases;
  }
  array->release = nullptr;
}

arrow_array finish(std::unique_ptr<node> made, ArrowArray shape) {
  shape.n_buffers = static_cast<std::int64_t>(made->buffers.size());
  shape.buffers = made->buffers.data();
  for (arrow_array& child : made->children) {
    made->child_pointers.push_back(&child.get());
  }
  shape.n_children = static_cast<std::int64_t>(made->children.size());
  shape.children = made->child_pointers.data();
  shape.dictionary = made->dictionary.empty() ? nullptr : &made->dictionary.get();
  shape.release = release_node;
  shape.private_data = made.release();
  return arrow_array(shape);
}

/// A range of values in a buffer, as `same_rows` compares them.
struct window {
  const std::byte* data;
  std::int64_t offset;
};

const std::byte* buffer_of(const ArrowArray& array, std::size_t index) {
  return static_cast<const std::byte*>(array.buffers[index]);
}

bool same_bits(window a, window b, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    if (bit_at(a.data, a.offset + i) != bit_at(b.data, b.offset + i)) {
      return false;
    }
  }
  return true;
}

bool same_values(window a, window b, std::int64_t rows, std::size_t width) {
  return rows == 0 || width == 0 ||
         std::memcmp(a.data + static_cast<std::size_t>(a.offset) * width,
                     b.data + static_cast<std::size_t>(b.offset) * width,
                     static_cast<std::size_t>(rows) * width) == 0;
}

template <class T>
T offset_at(window offsets, std::int64_t row) {
  T value;
  std::memcpy(&value, offsets.data + (offsets.offset + row) * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

template <class T>
bool same_strings(window a, const std::byte* a_bytes, window b, const std::byte* b_bytes, std::int64_t rows) {
  const T a_first = offset_at<T>(a, 0);
  const T b_first = offset_at<T>(b, 0);
  for (std::int64_t i = 1; i <= rows; ++i) {
    if (offset_at<T>(a, i) - a_first != offset_at<T>(b, i) - b_first) {
      return false;
    }
  }
  const auto size = static_cast<std::size_t>(offset_at<T>(a, rows) - a_first);
  return size == 0 || std::memcmp(a_bytes + a_first, b_bytes + b_first, size) == 0;
}

bool same_content(const ArrowArray& seen, const plain_array& expected, std::int64_t first,
                  std::int64_t rows) {
  const auto bytes_at = [&](std::size_t i) { return window{buffer_of(seen, i), seen.offset}; };
  const auto bytes_of = [&](std::size_t i) {
    return window{expected.buffers[i].data(), expected.offset + first};
  };
  switch (expected.type.layout()) {
  case layout_kind::none:
    return true;
  case layout_kind::bits:
    return same_bits(bytes_at(1), bytes_of(1), rows);
  case layout_kind::fixed:
    return same_values(bytes_at(1), bytes_of(1), rows, static_cast<std::size_t>(expected.type.byte_width()));
  case layout_kind::bytes:
    return expected.type.offset_width() == sizeof(std::int32_t)
               ? same_strings<std::int32_t>(bytes_at(1), buffer_of(seen, 2), bytes_of(1),
                                            expected.buffers[2].data(), rows)
               : same_strings<std::int64_t>(bytes_at(1), buffer_of(seen, 2), bytes_of(1),
                                            expected.buffers[2].data(), rows);
  default:
    break;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!same_row(seen, i, expected, first + i)) {
      return false;
    }
  }
  return true;
}

::testing::AssertionResult same_validity(const ArrowArray& seen, const plain_array& expected,
                                         std::int64_t first, std::int64_t rows) {
  if (expected.type.layout() == layout_kind::none) {
    return ::testing::AssertionSuccess();
  }
  const std::byte* const bits = expected.type.has_validity() ? buffer_of(seen, 0) : nullptr;
  for (std::int64_t i = 0; i < rows; ++i) {
    if ((bits == nullptr || bit_at(bits, seen.offset + i)) != expected.valid(first + i)) {
      return ::testing::AssertionFailure()
             << "row " << i << " should be " << (expected.valid(first + i) ? "valid" : "null");
    }
  }
  return ::testing::AssertionSuccess();
}

} // namespace

bool plain_array::valid(std::int64_t row) const {
  if (type.layout() == layout_kind::none) {
    return false;
  }
  return !type.has_validity() || buffers[0].empty() || bit_at(buffers[0].data(), offset + row);
}

std::int64_t plain_array::nulls_in(std::int64_t first, std::int64_t rows) const {
  std::int64_t count = 0;
  for (std::int64_t row = first; row < first + rows; ++row) {
    count += valid(row) ? 0 : 1;
  }
  return count;
}

shared_array random_array(const data_type& type, const array_shape& shape, std::uint64_t seed) {
  shared_array dictionary;
  if (type.id() == type_id::dictionary) {
    dictionary = random_array(*type.value_type(),
                              {5 + static_cast<std::int64_t>(seed % 40), 3, nulls::some, true}, seed + 1);
  }
  return random_indices(type, shape, std::move(dictionary), seed);
}

shared_array random_indices(const data_type& type, const array_shape& shape, shared_array dictionary,
                            std::uint64_t seed) {
  engine random(seed);
  auto made = std::make_shared<plain_array>();
  made->type = type;
  made->length = shape.length;
  made->offset = shape.offset;
  made->dictionary = std::move(dictionary);
  const std::int64_t rows = shape.offset + shape.length;
  if (type.has_validity()) {
    made->buffers.push_back(make_validity(rows, shape.pattern, random));
  }
  switch (type.layout()) {
  case layout_kind::none:
    break;
  case layout_kind::bits:
    made->buffers.push_back(random_bytes(static_cast<std::size_t>((rows + 7) / 8), random));
    break;
  case layout_kind::fixed:
    made->buffers.push_back(random_bytes(static_cast<std::size_t>(rows * type.byte_width()), random));
    break;
  case layout_kind::bytes:
    if (type.offset_width() == sizeof(std::int32_t)) {
      add_strings<std::int32_t>(rows, random, made->buffers);
    } else {
      add_strings<std::int64_t>(rows, random, made->buffers);
    }
    break;
  default:
    fill_nested(*made, shape, random);
  }
  if (made->dictionary) {
    bound_indices(*made, random);
  }
  made->null_count = shape.count_known ? made->nulls_in(0, shape.length) : -1;
  return made;
}

namespace {

data_type list_of(const char* format, const data_type& values) {
  return data_type::nested(format, {{"item", values, true, {}}});
}

data_type map_of(const data_type& keys, const data_type& values) {
  const data_type entries = data_type::nested("+s", {{"key", keys, false, {}}, {"value", values, true, {}}});
  return data_type::nested("+m", {{"entries", entries, false, {}}});
}

data_type runs_of(const char* ends, const data_type& values) {
  return data_type::nested("+r",
                           {{"run_ends", data_type::parse(ends), false, {}}, {"values", values, true, {}}});
}

/// Appends each nested layout over simple types, and some types with three levels.
void append_nested(std::vector<data_type>& made) {
  const data_type number(type_id::int32);
  const data_type text(type_id::string);
  const data_type flag(type_id::boolean);
  const data_type words = data_type::dictionary(data_type(type_id::int8), text);
  const std::vector<field> three{
      {"a", number, true, {}}, {"b", text, true, {}}, {"c", flag, false, {{"k", "v"}}}};
  for (const char* const format : {"+l", "+L", "+vl", "+vL", "+w:3", "+w:0"}) {
    made.push_back(list_of(format, number));
    made.push_back(list_of(format, text));
  }
  made.push_back(data_type::nested("+s", three));
  made.push_back(data_type::nested("+s", {}));
  made.push_back(map_of(text, number));
  made.push_back(data_type::nested("+ud:0,5,127", three));
  made.push_back(data_type::nested("+us:7,1,0", three));
  for (const char* const ends : {"i", "l"}) { // 16-bit run ends allow only 32,767 rows
    made.push_back(runs_of(ends, text));
  }
  made.push_back(list_of("+l", words));
  made.push_back(data_type::dictionary(number, data_type::nested("+s", three)));
  made.push_back(data_type::dictionary(number, words));
  made.push_back(
      list_of("+l", data_type::nested("+s", {{"x", list_of("+L", flag), true, {}}, {"y", words, true, {}}})));
  made.push_back(
      data_type::nested("+s", {{"m", map_of(text, list_of("+w:2", data_type::parse("vu"))), true, {}}}));
  made.push_back(list_of("+vl", data_type::nested("+ud:1,2", {{"r", runs_of("i", flag), true, {}},
                                                              {"n", data_type(), true, {}}})));
  made.push_back(list_of("+w:6", data_type(type_id::float32))
                     .with_extension("arrow.fixed_shape_tensor", R"({"shape":[2,3]})"));
}

bool has_dictionary(const data_type& type) {
  return type.value_type() != nullptr ||
         std::ranges::any_of(type.children(), [](const field& child) { return has_dictionary(child.type); });
}

} // namespace

const std::vector<data_type>& carried_types() {
  static const std::vector<data_type> types = [] {
    std::vector<data_type> made;
    for (const char* const format : {"n",       "b",          "c",   "C",        "s",
                                     "S",       "i",          "I",   "l",        "L",
                                     "e",       "f",          "g",   "d:7,2,32", "d:15,-3,64",
                                     "d:38,10", "d:76,0,256", "tdD", "tdm",      "tts",
                                     "ttm",     "ttu",        "ttn", "tss:",     "tsm:Europe/Berlin",
                                     "tsu:UTC", "tsn:",       "tDs", "tDn",      "tiM",
                                     "tiD",     "tin",        "w:1", "w:16",     "w:37",
                                     "z",       "Z",          "u",   "U"}) {
      made.push_back(data_type::parse(format));
    }
    made.push_back(data_type::bool8());
    made.push_back(data_type::parse("w:16").with_extension("arrow.uuid", ""));
    for (const char* const index : {"c", "C", "s", "S", "i", "I", "l", "L"}) {
      made.push_back(
          data_type::dictionary(data_type::parse(index), data_type(type_id::string), index[0] == 'i'));
    }
    made.push_back(data_type::dictionary(data_type(type_id::int32), data_type(type_id::boolean)));
    made.push_back(data_type::dictionary(data_type(type_id::int8), data_type::parse("tsu:UTC")));
    made.push_back(data_type::parse("w:0"));
    for (const char* const views : {"vu", "vz"}) {
      made.push_back(data_type::parse(views));
    }
    append_nested(made);
    return made;
  }();
  return types;
}

const std::vector<data_type>& file_types() {
  static const std::vector<data_type> types = [] {
    std::vector<data_type> made = carried_types();
    std::erase_if(made, [](const data_type& type) {
      return std::ranges::any_of(type.children(),
                                 [](const field& child) { return has_dictionary(child.type); }) ||
             (type.value_type() != nullptr && has_dictionary(*type.value_type()));
    });
    return made;
  }();
  return types;
}

arrow_array to_c(shared_array source, std::shared_ptr<std::atomic<int>> releases) {
  auto made = std::make_unique<node>();
  for (const bytes& buffer : source->buffers) {
    made->buffers.push_back(buffer.empty() ? nullptr : buffer.data());
  }
  if (source->type.layout() == layout_kind::views) {
    for (std::size_t i = source->type.buffer_count(); i < source->buffers.size(); ++i) {
      made->variadic_sizes.push_back(static_cast<std::int64_t>(source->buffers[i].size()));
    }
    made->buffers.push_back(made->variadic_sizes.data());
  }
  for (const shared_array& child : source->children) {
    made->children.push_back(to_c(child));
  }
  if (source->dictionary) {
    made->dictionary = to_c(source->dictionary);
  }
  ArrowArray shape{};
  shape.length = source->length;
  shape.offset = source->offset;
  shape.null_count = source->null_count;
  made->arrays.push_back(std::move(source));
  made->releases = std::move(releases);
  return finish(std::move(made), shape);
}

arrow_array to_c_batch(std::vector<shared_array> children, std::int64_t length, std::int64_t offset,
                       std::shared_ptr<std::atomic<int>> releases) {
  auto made = std::make_unique<node>();
  made->buffers.push_back(nullptr);
  for (const shared_array& child : children) {
    made->children.push_back(to_c(child));
  }
  made->releases = std::move(releases);
  ArrowArray shape{};
  shape.length = length;
  shape.offset = offset;
  return finish(std::move(made), shape);
}

::testing::AssertionResult same_rows(const ArrowArray& seen, const plain_array& expected, std::int64_t first,
                                     std::int64_t rows) {
  const std::int64_t null_rows = expected.nulls_in(first, rows);
  if (seen.length != rows || (seen.null_count != -1 && seen.null_count != null_rows)) {
    return ::testing::AssertionFailure() << "length " << seen.length << " and null_count " << seen.null_count
                                         << ", expected " << rows << " and " << null_rows;
  }
  const bool views = expected.type.layout() == layout_kind::views;
  const std::size_t buffers = expected.buffers.size() + (views ? 1 : 0);
  if (static_cast<std::size_t>(seen.n_buffers) != buffers && !(views && rows == 0)) {
    return ::testing::AssertionFailure() << seen.n_buffers << " buffers, expected " << buffers;
  }
  if (static_cast<std::size_t>(seen.n_children) != expected.children.size()) {
    return ::testing::AssertionFailure()
           << seen.n_children << " children, expected " << expected.children.size();
  }
  if (rows > 0) {
    if (const auto validity = same_validity(seen, expected, first, rows); !validity) {
      return validity;
    }
    if (!same_content(seen, expected, first, rows)) {
      return ::testing::AssertionFailure() << "the values differ";
    }
  }
  if (expected.dictionary == nullptr) {
    return ::testing::AssertionSuccess();
  }
  return seen.dictionary == nullptr ? ::testing::AssertionFailure() << "the dictionary is missing"
                                    : same_rows(*seen.dictionary, *expected.dictionary);
}

} // namespace saeta::support
