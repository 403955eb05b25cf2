#include "saeta/ipc/writer.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/detail/arrow_bridge.hpp"
#include "saeta/ipc/detail/atomic_file.hpp"
#include "saeta/ipc/detail/batch_feed.hpp"
#include "saeta/ipc/detail/os_error.hpp"
#include "saeta/ipc/detail/string_sink.hpp"
#include "saeta/ipc/detail/written_dictionaries.hpp"

#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/util/compression.h>

#include <cerrno>

#include <fcntl.h>

namespace saeta::ipc {
namespace {

std::shared_ptr<arrow::util::Codec> codec_of(compression body) {
  if (body == compression::none) {
    return nullptr;
  }
  const auto kind = body == compression::lz4 ? arrow::Compression::LZ4_FRAME : arrow::Compression::ZSTD;
  return take(arrow::util::Codec::Create(kind), "compression");
}

/// Writes all of the table to `sink`, which stays open. @param name  begins messages.
void encode(const table& source, arrow::io::OutputStream* sink, const std::string& name,
            const write_options& options, const progress_hook& hook) {
  auto encoding = arrow::ipc::IpcWriteOptions::Defaults();
  encoding.allow_64bit = true; // a batch of a device may have 2^31 rows and more
  encoding.codec = codec_of(options.body);
  encoding.emit_dictionary_deltas = options.dictionary_deltas;

  const auto described = detail::arrow_schema(source.fields());
  const detail::written_dictionaries dictionaries(source, *described, options.format);
  const auto writer =
      take(options.format == container::file ? arrow::ipc::MakeFileWriter(sink, described, encoding)
                                             : arrow::ipc::MakeStreamWriter(sink, described, encoding),
           name);
  detail::batch_feed feed(dictionaries, described);
  progress so_far;
  so_far.total_batches = static_cast<std::int64_t>(source.batches().size());
  while (const auto next = feed.next()) {
    const auto place = concat(name, ": batch ", so_far.batches);
    check(next->Validate(), place);
    check(writer->WriteRecordBatch(*next), place);
    ++so_far.batches;
    so_far.rows += next->num_rows();
    so_far.bytes = static_cast<std::uint64_t>(writer->stats().total_serialized_body_size);
    if (hook) {
      hook(so_far);
    }
  }
  check(writer->Close(), name);
}

} // namespace

compression parse_compression(std::string_view name) {
  if (name == "none") {
    return compression::none;
  }
  if (name == "lz4") {
    return compression::lz4;
  }
  if (name == "zstd") {
    return compression::zstd;
  }
  throw error(errc::invalid_argument, concat("compression '", name, "': expected none, lz4 or zstd"));
}

std::uint64_t write(const table& source, const std::filesystem::path& file, const write_options& options,
                    const progress_hook& hook) {
  detail::atomic_file target(file);
  const int descriptor =
      ::fcntl(target.descriptor(), F_DUPFD_CLOEXEC, 0); // the stream closes what it is given
  if (descriptor < 0) {
    throw detail::os_error("write", file, errno);
  }
  const std::string name = file.string();
  const auto sink = take(arrow::io::FileOutputStream::Open(descriptor), name);
  encode(source, sink.get(), name, options, hook);
  const auto bytes = take(sink->Tell(), name);
  if (!sink->Close().ok()) {
    throw detail::os_error("write", file, errno); // libarrow's own text leaves the reason out
  }
  target.commit();
  return static_cast<std::uint64_t>(bytes);
}

std::string write_bytes(const table& source, const write_options& options) {
  detail::string_sink sink;
  encode(source, &sink, "bytes", options, {});
  return sink.take();
}

} // namespace saeta::ipc
