// Every function of readers, data sets, the packed form and spilling refuses a null context.
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/bridge/host_message.hpp"
#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/inspect.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"
#include "saeta/spill/spill.hpp"
#include "support/refused_arguments.hpp"
#include "support/tables.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace saeta {
namespace {

using support::expect_null_refused;

class null_arguments_of_files : public ::testing::Test {
protected:
  [[nodiscard]] std::unique_ptr<ipc::reader> open() const {
    return ipc::reader::open(std::span(bytes_), nullptr);
  }
  [[nodiscard]] ipc::data_set data() const {
    std::vector<std::unique_ptr<ipc::reader>> readers;
    readers.push_back(open());
    return ipc::data_set(std::move(readers));
  }
  static std::vector<std::byte> written(const table& source) {
    std::vector<std::byte> made;
    ipc::write(source,
               [&](std::span<const std::byte> piece) { made.insert(made.end(), piece.begin(), piece.end()); },
               "bytes", {});
    return made;
  }

  std::shared_ptr<context> ctx_ = context::create(make_host_backend());
  table numbers_ = support::random_table(ctx_, {data_type(type_id::int64)}, {});
  std::vector<std::byte> bytes_ = written(numbers_);
  const std::shared_ptr<context> none_{};
};

TEST_F(null_arguments_of_files, are_refused_by_readers) {
  expect_null_refused("ctx", [&] { return open()->next(none_).has_value(); });
  expect_null_refused("ctx", [&] { return open()->read_all(none_); });
  expect_null_refused("ctx", [&] { return open()->scan_windows(none_, {}); });
  expect_null_refused("ctx", [&] { return data().next(none_).has_value(); });
  expect_null_refused("ctx", [&] { return data().read_all(none_); });
  expect_null_refused("ctx", [&] { return data().scan_windows(none_, {}); });
  expect_null_refused("ctx", [&] { return data().scan_spans(none_, {}, {}); });
  expect_null_refused("readers", [] {
    std::vector<std::unique_ptr<ipc::reader>> none(1);
    return ipc::data_set(std::move(none)).batch_count();
  });
}

TEST_F(null_arguments_of_files, are_refused_where_a_function_is_called_back) {
  const std::function<std::size_t(std::span<std::byte>)> no_stream;
  expect_null_refused("read", [] { return ipc::reader::open("object", 8, ipc::source_reader()); });
  expect_null_refused("read_some", [&] { return ipc::reader::open("stream", no_stream); });
  expect_null_refused("read", [] { return ipc::inspect("object", 8, ipc::source_reader()).bytes; });
  expect_null_refused("read_some", [&] { return ipc::inspect("stream", no_stream).bytes; });
  expect_null_refused("sink", [&] { return ipc::write(numbers_, ipc::byte_sink(), "sink"); });
  expect_null_refused("sink",
                      [&] { return ipc::writer(ipc::byte_sink(), "sink", numbers_.fields()).close(); });
}

TEST_F(null_arguments_of_files, are_refused_by_the_packed_form_and_by_spilling) {
  const ipc::packed_table packed = ipc::pack(numbers_);
  expect_null_refused("ctx", [&] { return ipc::unpack(none_, packed.metadata, packed.body); });
  expect_null_refused("ctx", [&] { return spillable(none_, numbers_, 0).bytes(); });
  expect_null_refused("ctx", [&] { return spillable(ctx_, numbers_, 0).use(none_).value(); });
  expect_null_refused("ctx", [&] { return spill_unused(none_, 1); });
  expect_null_refused("ctx", [&] { return read_spill_statistics(none_).failures; });
}

} // namespace
} // namespace saeta
