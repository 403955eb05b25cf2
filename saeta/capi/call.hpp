// What the functions of saeta.h share: guarded calls, handles of types, and checks of arguments.
#pragma once

#include "saeta/base/required.hpp"
#include "saeta/capi/handles.hpp"
#include "saeta/capi/saeta.h"
#include "saeta/column/table.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/share/shared_table.hpp"
#include "saeta/spill/spill.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace saeta::capi {

class held_scan;

/// A shared table, and its token as bytes.
struct held_share {
  explicit held_share(shared_table of) : shared(std::move(of)), token(shared.token().to_bytes()) {}
  shared_table shared;
  std::vector<std::byte> token;
};

/// Makes these the thread's last error. Returns the code.
saeta_code note(const error& failure) noexcept;
saeta_code note(saeta_code code, std::string_view message) noexcept;

/// Runs a function for a C caller. Every exception becomes the thread's last error.
template <class Action>
saeta_code run(const Action& action) noexcept {
  try {
    action();
    return SAETA_OK;
  } catch (const error& failure) {
    return note(failure);
  } catch (const std::bad_alloc&) {
    return note(SAETA_OUT_OF_MEMORY, "the system has no memory for the call");
  } catch (const std::exception& failure) {
    return note(SAETA_INTERNAL, failure.what());
  }
}

/// The C++ object behind a handle.
template <class Handle>
struct object;
template <>
struct object<saeta_context> {
  using type = context;
  static constexpr handle_kind kind = handle_kind::context;
};
template <>
struct object<saeta_buffer> {
  using type = const buffer;
  static constexpr handle_kind kind = handle_kind::buffer;
};
template <>
struct object<saeta_use> {
  using type = use_token;
  static constexpr handle_kind kind = handle_kind::use;
};
template <>
struct object<saeta_table> {
  using type = const table;
  static constexpr handle_kind kind = handle_kind::table;
};
template <>
struct object<saeta_scan> {
  using type = held_scan;
  static constexpr handle_kind kind = handle_kind::scan;
};
template <>
struct object<saeta_writer> {
  using type = ipc::writer;
  static constexpr handle_kind kind = handle_kind::writer;
};
template <>
struct object<saeta_packed> {
  using type = const ipc::packed_table;
  static constexpr handle_kind kind = handle_kind::packed;
};
template <>
struct object<saeta_spill> {
  using type = const spill_handle;
  static constexpr handle_kind kind = handle_kind::spill;
};
template <>
struct object<saeta_shared> {
  using type = const held_share;
  static constexpr handle_kind kind = handle_kind::shared;
};

template <class Handle>
std::shared_ptr<typename object<Handle>::type> get(Handle* handle, std::string_view name) {
  return std::static_pointer_cast<typename object<Handle>::type>(
      handle_table::get().find(handle, object<Handle>::kind, name));
}

template <class Handle>
Handle* handle_of(std::shared_ptr<typename object<Handle>::type> made) {
  using plain = std::remove_const_t<typename object<Handle>::type>;
  return static_cast<Handle*>(
      handle_table::get().add(object<Handle>::kind, std::const_pointer_cast<plain>(std::move(made))));
}

template <class Handle, class Object>
Handle* handle_of_value(Object&& made) {
  using plain = std::remove_const_t<typename object<Handle>::type>;
  return handle_of<Handle>(std::make_shared<plain>(std::forward<Object>(made)));
}

/// Runs a function that gives a handle, which is NULL on an error.
template <class Handle, class Make>
saeta_code give(Handle** result, const Make& make) noexcept {
  if (result != nullptr) {
    *result = nullptr;
  }
  return run([&] {
    require_argument(result, "result");
    *result = make();
  });
}

template <class Result, class Value>
void set(Result* result, const Value& value) {
  require_argument(result, "result");
  *result = static_cast<Result>(value);
}

inline std::string_view required_text(const char* given, std::string_view name) {
  require_argument(given, name);
  return given;
}

template <class Struct>
std::size_t known_bytes(const Struct& given) {
  if (given.struct_size < 2 * sizeof(std::size_t)) {
    throw error(errc::invalid_argument,
                concat("struct_size is ", given.struct_size, ", expected the size of the struct"));
  }
  return std::min(given.struct_size, sizeof(Struct));
}

/// The members that the caller's struct has, and the defaults of the others.
template <class Options>
Options options_of(const Options* given, Options made) {
  if (given != nullptr) {
    std::memcpy(&made, given, known_bytes(*given));
  }
  return made;
}

/// Sets the members that the caller's struct has.
template <class Numbers>
void set_numbers(Numbers* target, Numbers numbers) {
  require_argument(target, "result");
  numbers.struct_size = target->struct_size;
  std::memcpy(target, &numbers, known_bytes(*target));
}

std::vector<std::string> required_texts(const char* const* given, std::size_t count, std::string_view name);

} // namespace saeta::capi
