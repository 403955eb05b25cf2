// A fixture for writing files from each backend, with small windows and a small staging ring.
#pragma once

#include "conformance/harness/folder_test.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "support/faulty_backend.hpp"
#include "support/ring_options.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace saeta::conformance {

class write_test : public folder_test {
protected:
  static constexpr std::size_t window_bytes = 4096;
  static constexpr std::array bodies{ipc::compression::none, ipc::compression::lz4, ipc::compression::zstd};
  const std::size_t ring_bytes = support::small_ring(2, 8192).pinned_bytes;

  void SetUp() override {
    context_ = small_context(shared_device());
    make_folder();
  }
  std::shared_ptr<context> small_context(std::shared_ptr<saeta::backend> on) {
    context_options options = support::ring_options(2, 8192);
    options.budget = limit;
    options.pinned_budget = budget::create("the host's memory");
    return watch(context::create(std::move(on), options));
  }

  /// Reads the file without joining batches.
  [[nodiscard]] table read() const {
    return ipc::reader::open(file(), {.combine_chunks = false})->read_all(host_);
  }
  /// Copies a table to memory of the context.
  [[nodiscard]] static table there(const std::shared_ptr<context>& ctx, const table& original) {
    const std::string bytes = ipc::write_bytes(original, {.format = ipc::container::stream});
    return ipc::reader::open(std::as_bytes(std::span(bytes)), nullptr,
                             {.copy = copy_policy::always, .combine_chunks = false})
        ->read_all(ctx);
  }
  [[nodiscard]] static ipc::write_options options(ipc::compression body,
                                                  ipc::container format = ipc::container::file) {
    return {.format = format, .body = body, .durable = false, .window_bytes = window_bytes};
  }

  /// Writes a table with the first backend call failing, then with the second one, until none fails. A failed
  /// write must leave nothing in the folder.
  /// @param write        writes a copy of the table to `file()` with the given compression
  /// @param least_calls  minimum number of failing calls on a device
  template <class Write>
  void fail_each_call(const table& original, std::uint64_t least_calls, const Write& write) {
    const auto faulty = std::make_shared<saeta::testing::faulty_backend>(shared_device());
    const report_sink reports = set_report_sink([](std::string_view, std::string_view) noexcept {});
    for (const auto body : bodies) {
      const auto ctx = small_context(faulty);
      const table here = there(ctx, original);
      bool failed = true;
      std::uint64_t position = 0;
      while (failed) {
        SCOPED_TRACE(++position);
        faulty->fail_at(position);
        bool written = true;
        try {
          write(here, body);
        } catch (const error&) {
          written = false;
          EXPECT_TRUE(faulty->failed());
        }
        failed = faulty->failed();
        faulty->fail_at(0);
        EXPECT_EQ(std::filesystem::exists(file()), written);
        if (written) {
          EXPECT_TRUE(support::same_contents(read(), original));
          std::filesystem::remove(file());
        }
        EXPECT_TRUE(std::filesystem::is_empty(folder_));
        EXPECT_LE(ctx->pinned_budget()->statistics().current, ring_bytes);
      }
      EXPECT_GT(position, ctx->on_host() ? 0U : least_calls);
    }
    set_report_sink(reports);
  }

  /// A host context to make and compare tables.
  std::shared_ptr<context> host_ = watch(context::create(make_host_backend()));
};

} // namespace saeta::conformance
