// Builds ArrowSchema structs of a producer, valid or broken, field by field.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/interop/arrow/abi.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace saeta::support {

class foreign_schema {
public:
  foreign_schema(const char* format, const char* name, std::int64_t flags = ARROW_FLAG_NULLABLE)
      : format_(format), name_(name == nullptr ? "" : name) {
    schema_.format = format_.c_str();
    schema_.name = name == nullptr ? nullptr : name_.c_str();
    schema_.flags = flags;
    schema_.private_data = &releases_;
    schema_.release = [](ArrowSchema* released) {
      ++*static_cast<int*>(released->private_data);
      released->release = nullptr;
    };
  }
  foreign_schema(const foreign_schema&) = delete;
  foreign_schema& operator=(const foreign_schema&) = delete;

  [[nodiscard]] ArrowSchema& get() noexcept { return schema_; }
  [[nodiscard]] int releases() const noexcept { return releases_; }

  /// Adds a child and returns this, so that calls can be chained.
  foreign_schema& add(const char* format, const char* name, std::int64_t flags = ARROW_FLAG_NULLABLE) {
    add_nested(format, name, flags);
    return *this;
  }
  /// Adds a child and returns the child.
  foreign_schema& add_nested(const char* format, const char* name, std::int64_t flags = ARROW_FLAG_NULLABLE) {
    children_.push_back(std::make_unique<foreign_schema>(format, name, flags));
    pointers_.push_back(&children_.back()->get());
    schema_.children = pointers_.data();
    schema_.n_children = static_cast<std::int64_t>(pointers_.size());
    return *children_.back();
  }
  void set_metadata(const metadata_list& metadata) {
    metadata_.clear();
    append(metadata.size());
    for (const auto& [key, value] : metadata) {
      append(key.size());
      metadata_ += key;
      append(value.size());
      metadata_ += value;
    }
    schema_.metadata = metadata_.data();
  }

private:
  void append(std::size_t number) {
    const auto value = static_cast<std::int32_t>(number);
    metadata_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string format_;
  std::string name_;
  std::string metadata_;
  std::vector<std::unique_ptr<foreign_schema>> children_;
  std::vector<ArrowSchema*> pointers_;
  ArrowSchema schema_{};
  int releases_ = 0;
};

} // namespace saeta::support
