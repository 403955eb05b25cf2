// The fixture of the tests of ipc/: a host context and a temporary folder, which must be clean after each
// test.
#pragma once

#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/inspect.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "support/error_of.hpp"
#include "support/tables.hpp"

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace saeta::ipc {

/// Returns the name of a test case for a container and a compression, such as "file_lz4".
inline std::string name_of_case(const ::testing::TestParamInfo<std::tuple<container, compression>>& info) {
  static constexpr std::array<const char*, 3> bodies{"none", "lz4", "zstd"};
  return concat(std::get<0>(info.param) == container::file ? "file_" : "stream_",
                bodies[static_cast<std::size_t>(std::get<1>(info.param))]);
}

class ipc_test : public ::testing::Test {
protected:
  ipc_test();
  ~ipc_test() override;
  /// Checks that the context has no live buffers and that the folder has no temporary files.
  void TearDown() override;

  [[nodiscard]] const std::shared_ptr<context>& ctx() const { return ctx_; }
  [[nodiscard]] std::filesystem::path folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path file(std::string_view name) const { return folder_ / name; }
  /// Returns the names of the files in the folder, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

  [[nodiscard]] table read(const std::filesystem::path& from, read_options options = {}) const {
    return reader::open(from, std::move(options))->read_all(ctx_);
  }
  /// Reads a table from bytes, which it keeps alive.
  [[nodiscard]] table read_bytes(std::string from, read_options options = {}) const {
    const auto kept = std::make_shared<std::string>(std::move(from));
    return reader::open(std::as_bytes(std::span(*kept)), kept, std::move(options))->read_all(ctx_);
  }
  /// Returns a table of all types that a file can hold, in several batches.
  [[nodiscard]] table every_type() const { return support::random_table(ctx_, support::file_types(), {}); }

private:
  std::shared_ptr<context> ctx_;
  std::filesystem::path folder_;
};

void store(const std::filesystem::path& file, std::string_view bytes);
std::string load(const std::filesystem::path& file);

using support::error_of;

} // namespace saeta::ipc

/// Expects that the action throws an error with this code, whose message contains all of the texts.
#define EXPECT_ERROR(action, expected_code, ...)                                                             \
  do {                                                                                                       \
    const ::saeta::error seen_error = ::saeta::support::error_of([&] { static_cast<void>(action); });        \
    EXPECT_EQ(::saeta::name_of(seen_error.code()), ::saeta::name_of(::saeta::errc::expected_code))           \
        << seen_error.message();                                                                             \
    for (const std::string& part : std::vector<std::string>{__VA_ARGS__}) {                                  \
      EXPECT_THAT(seen_error.message(), ::testing::HasSubstr(part));                                         \
    }                                                                                                        \
  } while (false)
