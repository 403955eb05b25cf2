#include "support/arrays.hpp"

#include "saeta/base/text.hpp"

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

/// Offsets that do not start at 0, and letters for them.
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

/// Indices inside the dictionary where the row is valid; elsewhere they stay random.
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
  std::vector<owned_array> children;
  std::vector<ArrowArray*> child_pointers;
  owned_array dictionary;
  std::shared_ptr<std::atomic<int>> releases;
};

void release_node(ArrowArray* array) {
  const std::unique_ptr<node> owned(static_cast<node*>(array->private_data));
  if (owned->releases) {
    ++*owned->releases;
  }
  array->release = nullptr;
}

owned_array finish(std::unique_ptr<node> made, ArrowArray shape) {
  shape.n_buffers = static_cast<std::int64_t>(made->buffers.size());
  shape.buffers = made->buffers.data();
  for (owned_array& child : made->children) {
    made->child_pointers.push_back(&child.get());
  }
  shape.n_children = static_cast<std::int64_t>(made->children.size());
  shape.children = made->child_pointers.data();
  shape.dictionary = made->dictionary.empty() ? nullptr : &made->dictionary.get();
  shape.release = release_node;
  shape.private_data = made.release();
  return owned_array(shape);
}

/// What `same_rows` compares: one window of each side.
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
  return rows == 0 || std::memcmp(a.data + static_cast<std::size_t>(a.offset) * width,
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
  const window there{buffer_of(seen, 1), seen.offset};
  const window here{expected.buffers[1].data(), expected.offset + first};
  switch (expected.type.layout()) {
  case layout_kind::none:
    return true;
  case layout_kind::bits:
    return same_bits(there, here, rows);
  case layout_kind::fixed:
    return same_values(there, here, rows, static_cast<std::size_t>(expected.type.byte_width()));
  case layout_kind::offsets32:
    return same_strings<std::int32_t>(there, buffer_of(seen, 2), here, expected.buffers[2].data(), rows);
  case layout_kind::offsets64:
    return same_strings<std::int64_t>(there, buffer_of(seen, 2), here, expected.buffers[2].data(), rows);
  }
  return false;
}

::testing::AssertionResult same_validity(const ArrowArray& seen, const plain_array& expected,
                                         std::int64_t first, std::int64_t rows) {
  const std::byte* const bits = buffer_of(seen, 0);
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
  return buffers[0].empty() || bit_at(buffers[0].data(), offset + row);
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
  if (type.layout() != layout_kind::none) {
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
  case layout_kind::offsets32:
    add_strings<std::int32_t>(rows, random, made->buffers);
    break;
  case layout_kind::offsets64:
    add_strings<std::int64_t>(rows, random, made->buffers);
    break;
  }
  if (made->dictionary) {
    bound_indices(*made, random);
  }
  made->null_count = shape.count_known ? made->nulls_in(0, shape.length) : -1;
  return made;
}

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
    return made;
  }();
  return types;
}

owned_array to_c(shared_array source, std::shared_ptr<std::atomic<int>> releases) {
  auto made = std::make_unique<node>();
  for (const bytes& buffer : source->buffers) {
    made->buffers.push_back(buffer.empty() ? nullptr : buffer.data());
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

owned_array to_c_batch(std::vector<shared_array> children, std::int64_t length, std::int64_t offset,
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
  if (static_cast<std::size_t>(seen.n_buffers) != expected.buffers.size()) {
    return ::testing::AssertionFailure()
           << seen.n_buffers << " buffers, expected " << expected.buffers.size();
  }
  if (seen.n_buffers > 0 && rows > 0) {
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
