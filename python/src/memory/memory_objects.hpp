// Shared by the memory bindings: the class behind `Context.memory`, its parts, and sizes given in Python.
#pragma once

#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/memory/buffer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace saeta::py {

/// A number of bytes or text: "8GiB", or "50%" of the device's memory.
using size_spec = std::variant<std::uint64_t, std::string>;

/// The object behind `Context.memory`.
struct memory_view {
  context_pointer value;
};
using memory_class = nb::class_<memory_view>;

struct buffer_object {
  explicit buffer_object(buffer of) : value(std::move(of)) {}

  [[nodiscard]] const storage& owner() const { return *value->owner(); }

  unlocked<buffer> value;
};

/// The body of `Context.allocate`.
buffer_object allocate_buffer(const context_object& self, const size_spec& bytes, std::string_view label,
                              nb::handle framework_stream, std::size_t alignment, std::string_view kind);

/// Call it without the GIL, because it may query the driver. @throws error invalid_argument naming the text.
std::uint64_t to_bytes(const size_spec& given, device_id device);
std::uint64_t to_bytes(const size_spec& given, const context& ctx);
/// None for `budget::unlimited`.
nb::object limit_or_none(std::uint64_t limit);
/// Sets the limit of a context's own budget; nullopt: no limit.
void set_limit(context& of, const std::optional<size_spec>& limit);

void bind_context(nb::module_& m);
void bind_budgets(nb::module_& m, memory_class& memory);
void bind_hooks(nb::module_& m, memory_class& memory);
void bind_log(nb::module_& m, memory_class& memory);

} // namespace saeta::py
