// Where a function was called: std::source_location, which clang lacks before 16. One type for all compilers, so
// that a program of one links with a library of another.
//
// @code
// const source_location here = source_location::current();
// std::cerr << here.file_name() << ':' << here.line() << '\n';
// @endcode
#pragma once

#include "saeta/base/export.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {

class source_location {
public:
  /// The place of the call, or, as a default argument, that of the call of the function with the argument.
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           const char* function = __builtin_FUNCTION(),
                                           std::uint_least32_t line = __builtin_LINE()) noexcept {
    return {file, function, line};
  }

  /// A path from the root of Saeta's tree for its own files.
  [[nodiscard]] constexpr const char* file_name() const noexcept { return file_; }
  /// The function's name alone.
  [[nodiscard]] constexpr const char* function_name() const noexcept { return function_; }
  [[nodiscard]] constexpr std::uint_least32_t line() const noexcept { return line_; }

private:
  constexpr source_location(const char* file, const char* function, std::uint_least32_t line) noexcept
      : file_(file), function_(function), line_(line) {}

  const char* file_;
  const char* function_;
  std::uint_least32_t line_;
};

} // namespace saeta
