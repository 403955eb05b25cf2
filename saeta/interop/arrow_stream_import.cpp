#include "saeta/base/checked.hpp"
#include "saeta/base/foreign_call.hpp"
#include "saeta/interop/detail/arrow_import.hpp"

#include <cerrno>
#include <cstring>

namespace saeta {
namespace {

errc code_of(int number) {
  switch (number) {
  case ENOMEM:
    return errc::out_of_memory;
  case EIO:
    return errc::io;
  case EINVAL:
    return errc::format;
  case ENOSYS:
  case ENOTSUP:
    return errc::unsupported;
  default:
    return errc::exchange;
  }
}

/// A foreign stream, asked lazily. Its errors become ours.
class stream_source {
public:
  explicit stream_source(ArrowArrayStream& taken) {
    if (taken.release == nullptr) {
      throw error(errc::closed, "the ArrowArrayStream was released already");
    }
    stream_.take(taken);
    if (stream_.get().get_schema == nullptr || stream_.get().get_next == nullptr) {
      throw error(errc::format, "ArrowArrayStream: get_schema or get_next is null");
    }
  }

  owned_schema type() {
    owned_schema found;
    require_done(foreign_call([&] { return stream_.get().get_schema(&stream_.get(), found.out()); }),
                 "get_schema");
    return found;
  }
  /// Empty at the end.
  owned_array next() {
    owned_array found;
    require_done(foreign_call([&] { return stream_.get().get_next(&stream_.get(), found.out()); }),
                 "get_next");
    return found;
  }

private:
  void require_done(int number, std::string_view call) {
    if (number == 0) {
      return;
    }
    ArrowArrayStream& from = stream_.get();
    const char* const why =
        from.get_last_error == nullptr ? nullptr : foreign_call([&] { return from.get_last_error(&from); });
    throw error(code_of(number),
                concat("ArrowArrayStream: ", call, " failed with errno ", number, " (", std::strerror(number),
                       ")", why == nullptr ? "" : ": ", why == nullptr ? "" : why));
  }

  owned_stream stream_;
};

/// The cache keeps the batch of each dictionary alive. So it holds those of the batch before and no more.
class rolling_dictionaries {
public:
  [[nodiscard]] dictionary_cache& known() noexcept { return known_; }

  void roll_to(const placed_batch& placed) {
    dictionary_cache fresh;
    for (std::size_t i = 0; i < placed.view.arrays.size(); ++i) {
      remember(placed.view.arrays[i], placed.columns.columns[i], placed.view.keepalive, fresh);
    }
    known_ = std::move(fresh);
  }

private:
  /// The dictionaries of an array, of its children and of its dictionary.
  static void remember(const host_array& seen, const column& made, const std::shared_ptr<void>& source,
                       dictionary_cache& known) {
    for (std::size_t i = 0; i < seen.children.size(); ++i) {
      remember(seen.children[i], made.children()[i], source, known);
    }
    if (seen.dictionary != nullptr) {
      known.remember(*seen.dictionary, std::make_shared<const column>(*made.dictionary()), source);
      remember(*seen.dictionary, *made.dictionary(), source, known);
    }
  }

  dictionary_cache known_;
};

/// What a stream of `type` fills a table with: the children of a struct, or the one column that it is.
struct stream_type {
  schema fields;
  bool batches = true;
};

stream_type read_type(const ArrowSchema& type, const import_options& options) {
  if (!options.structs_as_column && type.release != nullptr && type.format != nullptr &&
      std::strcmp(type.format, "+s") == 0) {
    return {import_schema(type), true};
  }
  return {{{import_field(type)}, {}}, false};
}

} // namespace

imported_stream import_any_stream(const std::shared_ptr<context>& home, ArrowArrayStream& source,
                                  const import_options& options,
                                  const std::function<void(std::int64_t)>& progress) {
  stream_source stream(source);
  const stream_type type = read_type(stream.type().get(), options);
  rolling_dictionaries dictionaries;
  std::vector<batch> batches;
  std::int64_t rows = 0;
  for (owned_array chunk = stream.next(); !chunk.empty(); chunk = stream.next()) {
    placed_batch placed =
        type.batches
            ? place_batch(home, type.fields, chunk.get(), dictionaries.known(), options)
            : place_column(home, type.fields.fields.front(), chunk.get(), dictionaries.known(), options);
    dictionaries.roll_to(placed);
    rows = checked_add(rows, placed.columns.rows, "rows of a stream");
    batches.push_back(std::move(placed.columns));
    if (progress) {
      progress(rows);
    }
  }
  return {table::make(home, type.fields, std::move(batches)), type.batches};
}

table import_stream(const std::shared_ptr<context>& home, ArrowArrayStream& source,
                    const import_options& options, const std::function<void(std::int64_t)>& progress) {
  return import_any_stream(home, source, options, progress).rows;
}

} // namespace saeta
