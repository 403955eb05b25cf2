#include "fuzz/foreign_array.hpp"

#include "saeta/base/text.hpp"
#include "saeta/column/schema.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace saeta::fuzz {
namespace {

/// A heap allocation that ends exactly at the last byte of a buffer, which begins `shift` bytes after its
/// start.
struct exact_bytes {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;
  std::size_t shift = 0;

  [[nodiscard]] std::byte* data() const { return bytes.get() + shift; }
};

exact_bytes exactly(std::span<const std::byte> from, std::size_t shift) {
  exact_bytes made{std::make_unique<std::byte[]>(from.size() + shift), from.size(), shift};
  std::ranges::copy(from, made.data());
  return made;
}

} // namespace

struct foreign_array::node {
  data_type type;
  ArrowArray c{};
  std::int64_t rows = 0; ///< number of rows in the buffers and the children
  std::vector<exact_bytes> owned;
  std::vector<const void*> buffers;
  std::vector<std::int64_t> sizes; ///< bytes of each variadic buffer of a view array
  std::vector<std::unique_ptr<node>> children;
  std::vector<ArrowArray*> pointers;
  std::unique_ptr<node> dictionary;

  static std::unique_ptr<node> copy_of(const support::plain_array& of) {
    auto made = std::make_unique<node>();
    made->type = of.type;
    made->c.length = of.length;
    made->c.offset = of.offset;
    made->c.null_count = of.null_count;
    for (const auto& bytes : of.buffers) {
      made->owned.push_back(exactly(bytes, 0));
    }
    for (const auto& child : of.children) {
      made->children.push_back(copy_of(*child));
    }
    if (of.dictionary) {
      made->dictionary = copy_of(*of.dictionary);
    }
    return made;
  }

  static std::unique_ptr<node> same_memory(const data_type& type, const ArrowArray& of) {
    auto made = std::make_unique<node>();
    made->type = type;
    made->c.length = of.length;
    made->c.offset = of.offset;
    made->c.null_count = of.null_count;
    made->buffers.assign(of.buffers, of.buffers + of.n_buffers);
    for (std::size_t i = 0; i < type.children().size(); ++i) {
      made->children.push_back(same_memory(type.children()[i].type, *of.children[i]));
    }
    if (of.dictionary != nullptr) {
      made->dictionary = same_memory(*type.value_type(), *of.dictionary);
    }
    return made;
  }

  void list_buffers() {
    if (!owned.empty() || type.layout() == layout_kind::views) {
      buffers.clear();
      sizes.clear();
      for (const exact_bytes& each : owned) {
        buffers.push_back(each.size == 0 ? nullptr : each.data());
      }
      if (type.layout() == layout_kind::views) {
        for (std::size_t i = type.buffer_count(); i < owned.size(); ++i) {
          sizes.push_back(static_cast<std::int64_t>(owned[i].size));
        }
        buffers.push_back(sizes.data());
      }
    }
    c.buffers = buffers.data();
  }

  /// Sets the pointers of the struct. Only the root may be released; children and dictionaries are part of
  /// it.
  void finish(std::vector<node*>& all) {
    all.push_back(this);
    rows = c.offset + c.length;
    if (buffers.empty()) {
      list_buffers();
    }
    c.buffers = buffers.data();
    c.n_buffers = static_cast<std::int64_t>(buffers.size());
    for (const auto& child : children) {
      child->finish(all);
      pointers.push_back(&child->c);
    }
    c.children = pointers.data();
    c.n_children = static_cast<std::int64_t>(pointers.size());
    if (dictionary) {
      dictionary->finish(all);
      c.dictionary = &dictionary->c;
    }
    c.release = [](ArrowArray*) { require(false, "the consumer released a child that it did not move"); };
  }

  /// Sets offset and length, unless they exceed the rows of the buffers in a way that no consumer can detect.
  void set_rows(std::int64_t offset, std::int64_t length) {
    std::int64_t end = 0;
    const bool detectable = offset < 0 || length < 0 || __builtin_add_overflow(offset, length, &end);
    if (detectable || length == 0 || end <= rows) {
      c.offset = offset;
      c.length = length;
    }
  }

  void set_buffer_count(std::int64_t count) {
    // With some counts an import reads past the list of buffers, which it can't detect: the last buffer of a
    // view array has the sizes of the variadic buffers, and nulls and unions may have a leading validity
    // buffer as in older versions of the format.
    const bool undetectable = type.layout() == layout_kind::views
                                  ? count > 3
                                  : !type.has_validity() && count == std::ssize(buffers) + 1;
    c.n_buffers = undetectable ? c.n_buffers : count;
  }

  void null_buffer(input& from) {
    if (!buffers.empty()) {
      buffers[from.ConsumeIntegralInRange<std::size_t>(0, buffers.size() - 1)] = nullptr;
    }
  }

  void misalign(input& from) {
    if (!owned.empty()) {
      exact_bytes& chosen = owned[from.ConsumeIntegralInRange<std::size_t>(0, owned.size() - 1)];
      chosen = exactly({chosen.data(), chosen.size}, from.ConsumeIntegralInRange<std::size_t>(1, 7));
      list_buffers();
    }
  }

  void change_size(input& from) {
    if (!sizes.empty()) {
      const auto i = from.ConsumeIntegralInRange<std::size_t>(0, sizes.size() - 1);
      sizes[i] = std::min(draw_number(from), sizes[i]);
    }
  }

  /// Limits string offsets to the bytes of the data buffer. It carries no size, so no consumer can detect
  /// more.
  [[nodiscard]] std::int64_t bounded(std::size_t buffer, std::int64_t value) const {
    const bool into_bytes =
        type.layout() == layout_kind::bytes && type.buffer(buffer).role == buffer_role::offsets;
    return into_bytes ? std::min(value, static_cast<std::int64_t>(owned[2].size)) : value;
  }

  void change_value(input& from) {
    if (owned.empty()) {
      return;
    }
    const auto i = from.ConsumeIntegralInRange<std::size_t>(0, owned.size() - 1);
    const bool listed = i < type.buffer_count();
    const std::size_t width =
        std::clamp<std::size_t>(listed ? static_cast<std::size_t>(type.buffer(i).width) : 1, 1, 8);
    if (owned[i].size < width) {
      return;
    }
    const auto at = from.ConsumeIntegralInRange<std::size_t>(0, owned[i].size / width - 1);
    std::int64_t value = bounded(i, draw_number(from));
    if (width == 4 && type.layout() == layout_kind::bytes) {
      value = std::max<std::int64_t>(value, INT32_MIN);
    }
    std::memcpy(owned[i].data() + at * width, &value, width);
  }
};

foreign_array::foreign_array(const support::plain_array& of) : root_(node::copy_of(of)) { finish(); }

foreign_array::foreign_array(const std::vector<support::shared_array>& children, std::int64_t rows)
    : root_(std::make_unique<node>()) {
  root_->c.length = rows;
  root_->buffers = {nullptr};
  for (const auto& child : children) {
    root_->children.push_back(node::copy_of(*child));
  }
  finish();
}

foreign_array::foreign_array(const data_type& type, const ArrowArray& of)
    : root_(node::same_memory(type, of)) {
  finish();
}

void foreign_array::finish() {
  root_->finish(all_);
  root_->c.private_data = &releases_;
  root_->c.release = [](ArrowArray* released) {
    ++*static_cast<int*>(released->private_data);
    released->release = nullptr;
  };
}

foreign_array::~foreign_array() {
  require(releases_ == 1, concat("an array was released ", releases_, " times"));
}

ArrowArray foreign_array::get() const noexcept { return root_->c; }

void foreign_array::give_back(const ArrowArray& refused) {
  require(refused.release == root_->c.release, "a refused array was released or taken");
  ++releases_;
}

void foreign_array::break_field(input& from) {
  node& chosen = *all_[from.ConsumeIntegralInRange<std::size_t>(0, all_.size() - 1)];
  ArrowArray& c = chosen.c;
  switch (from.ConsumeIntegralInRange<int>(0, 20)) {
  case 0:
    return chosen.set_rows(c.offset, draw_number(from));
  case 1:
    return chosen.set_rows(draw_number(from), c.length);
  case 2:
    c.null_count = draw_number(from);
    return;
  case 3:
    return chosen.set_buffer_count(draw_number(from));
  case 4:
    c.n_children = draw_number(from);
    return;
  case 5:
    c.buffers = nullptr;
    return;
  case 6:
    return chosen.null_buffer(from);
  case 7:
    c.children = nullptr;
    return;
  case 8:
    if (!chosen.pointers.empty()) {
      chosen.pointers[from.ConsumeIntegralInRange<std::size_t>(0, chosen.pointers.size() - 1)] = nullptr;
    }
    return;
  case 9:
    c.dictionary = c.dictionary == nullptr ? &root_->c : nullptr;
    return;
  case 10:
    c.release = nullptr;
    return;
  case 11:
    return chosen.misalign(from);
  case 12:
    return chosen.change_size(from);
  default:
    return chosen.change_value(from);
  }
}

} // namespace saeta::fuzz
