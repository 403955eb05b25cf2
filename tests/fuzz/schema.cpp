// Imports schemas of the Arrow C Data Interface with arbitrary formats, names, flags and encoded metadata.
//
// An accepted schema must be the same after an export and a second import.
#include "saeta/column/schema.hpp"

#include "fuzz/harness.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"

#include <cstring>
#include <deque>
#include <string>

namespace saeta::fuzz {
namespace {

/// Returns whether decoding the metadata stays inside of `text`. The encoding carries no total size, so a
/// consumer can't detect that it does not.
bool readable(const std::string& text) {
  std::size_t at = 0;
  const auto number = [&]() -> std::int32_t {
    std::int32_t value = -1;
    if (text.size() - at < sizeof value) {
      return INT32_MAX;
    }
    std::memcpy(&value, text.data() + at, sizeof value);
    at += sizeof value;
    return value;
  };
  const std::int32_t count = number();
  if (count == INT32_MAX) {
    return false;
  }
  for (std::int32_t left = count; left > 0; --left) {
    for (int part = 0; part < 2; ++part) {
      const std::int32_t size = number();
      if (size < 0) {
        return true;
      }
      if (size == INT32_MAX || static_cast<std::size_t>(size) > text.size() - at) {
        return false;
      }
      at += static_cast<std::size_t>(size);
    }
  }
  return true;
}

class drawn_schema {
public:
  drawn_schema(input& from, int levels) {
    format_ = exact(draw_format(from));
    name_ = exact(from.ConsumeRandomLengthString(12));
    metadata_ = draw_metadata(from);
    c_.format = from.ConsumeIntegral<std::uint8_t>() == 0 ? nullptr : format_.get();
    c_.name = from.ConsumeIntegral<std::uint8_t>() == 0 ? nullptr : name_.get();
    c_.metadata = metadata_.get();
    c_.flags = from.ConsumeBool() ? from.ConsumeIntegralInRange<std::int64_t>(0, 7) : draw_number(from);
    const int children = levels == 0 ? 0 : from.ConsumeIntegralInRange<int>(0, 3);
    for (int i = 0; i < children; ++i) {
      children_.emplace_back(from, levels - 1);
      pointers_.push_back(from.ConsumeIntegral<std::uint8_t>() == 0 ? nullptr : &children_.back().c_);
    }
    c_.children = pointers_.data();
    c_.n_children = children;
    if (levels != 0 && from.ConsumeIntegral<std::uint8_t>() < 64) {
      dictionary_.emplace_back(from, levels - 1);
      c_.dictionary = &dictionary_.back().c_;
    }
    break_counts(from);
    c_.release = from.ConsumeIntegral<std::uint8_t>() == 0 ? nullptr : [](ArrowSchema*) {
      require(false, "an import of a schema released it");
    };
  }

  [[nodiscard]] const ArrowSchema& get() const { return c_; }

private:
  static std::unique_ptr<char[]> exact(const std::string& text) {
    auto made = std::make_unique<char[]>(text.size() + 1);
    std::memcpy(made.get(), text.data(), text.size());
    return made;
  }

  static std::string draw_format(input& from) {
    return from.ConsumeBool()
               ? from.PickValueInArray<const char*>(
                     {"n",  "b",   "i",    "u",  "z",  "vu",      "vz",    "d:5,2", "tsu:UTC", "w:3", "+l",
                      "+L", "+vl", "+w:2", "+s", "+m", "+ud:0,1", "+us:0", "+r",    "g",       "tDs", "tdD"})
               : from.ConsumeRandomLengthString(20);
  }

  static std::unique_ptr<char[]> draw_metadata(input& from) {
    if (from.ConsumeBool()) {
      return nullptr;
    }
    std::string text;
    const auto add = [&](std::int32_t number) {
      text.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    const auto entries = from.ConsumeIntegralInRange<std::int32_t>(-2, 3);
    add(entries);
    for (std::int32_t i = 0; i < 2 * entries; ++i) {
      std::string part =
          i % 2 == 0 && from.ConsumeBool()
              ? from.PickValueInArray<const char*>({"ARROW:extension:name", "ARROW:extension:metadata"})
              : from.ConsumeRandomLengthString(16);
      add(from.ConsumeIntegral<std::uint8_t>() == 0 ? -1 : static_cast<std::int32_t>(part.size()));
      text += part;
    }
    if (!readable(text)) {
      return nullptr;
    }
    return exact(text);
  }

  /// Only lowers the number of children: a consumer can't detect one that is too high.
  void break_counts(input& from) {
    if (from.ConsumeIntegral<std::uint8_t>() < 16) {
      c_.n_children = std::min(draw_number(from), c_.n_children);
    }
    if (from.ConsumeIntegral<std::uint8_t>() < 8) {
      c_.children = nullptr;
    }
  }

  std::unique_ptr<char[]> format_;
  std::unique_ptr<char[]> name_;
  std::unique_ptr<char[]> metadata_;
  std::deque<drawn_schema> children_;
  std::vector<ArrowSchema*> pointers_;
  std::deque<drawn_schema> dictionary_;
  ArrowSchema c_{};
};

std::string described(const field& of) {
  std::string text = concat("'", of.name, "': ", of.type.name(), of.nullable ? "" : ", not null");
  for (const auto& [key, value] : of.metadata) {
    text += concat(", ", key, "=", value);
  }
  return text;
}

void require_same(const field& seen, const field& expected) {
  const bool same = seen.name == expected.name && seen.type == expected.type &&
                    seen.nullable == expected.nullable && seen.metadata == expected.metadata;
  require(same, same ? "" : concat("exported ", described(expected), "; imported ", described(seen)));
}

void read_field(const ArrowSchema& given) {
  const field read = import_field(given);
  static_cast<void>(read.type.name());
  arrow_schema again = export_field(read);
  require_same(import_field(again.get()), read);
}

void read_schema(const ArrowSchema& given) {
  const schema read = import_schema(given);
  arrow_schema again = export_schema(read);
  const schema back = import_schema(again.get());
  require(back.fields.size() == read.fields.size() && back.metadata == read.metadata,
          "an exported schema says something else");
  for (std::size_t i = 0; i < read.fields.size(); ++i) {
    require_same(back.fields[i], read.fields[i]);
  }
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  input from(data, size);
  const bool rows = from.ConsumeBool();
  const drawn_schema given(from, 3);
  try {
    rows ? read_schema(given.get()) : read_field(given.get());
  } catch (const saeta::error& failure) {
    require_input_error(failure);
  }
  return 0;
}
