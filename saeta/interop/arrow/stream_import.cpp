#include "saeta/base/checked.hpp"
#include "saeta/base/foreign_call.hpp"
#include "saeta/base/interrupt.hpp"
#include "saeta/base/required.hpp"
#include "saeta/executor/background_thread.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/import.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <utility>

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

/// A foreign stream, read lazily. Its error numbers become our errors.
template <class Stream, class Array>
class stream_source {
public:
  static constexpr std::string_view name =
      std::is_same_v<Stream, ArrowArrayStream> ? "ArrowArrayStream" : "ArrowDeviceArrayStream";

  explicit stream_source(Stream& taken) {
    if (taken.release == nullptr) {
      throw error(errc::closed, concat("the ", name, " was released already"));
    }
    stream_.take(taken);
    if (stream_.get().get_schema == nullptr || stream_.get().get_next == nullptr) {
      throw error(errc::format, concat(name, ": get_schema or get_next is null"));
    }
  }

  [[nodiscard]] const Stream& get() const noexcept { return stream_.get(); }
  [[nodiscard]] arrow_owned<Stream> release() noexcept { return std::move(stream_); }

  arrow_schema type() {
    arrow_schema schema;
    require_done(foreign_call([&] { return stream_.get().get_schema(&stream_.get(), schema.out()); }),
                 "get_schema");
    return schema;
  }
  /// The next array; empty at the end of the stream.
  arrow_owned<Array> next() {
    arrow_owned<Array> array;
    require_done(foreign_call([&] { return stream_.get().get_next(&stream_.get(), array.out()); }),
                 "get_next");
    return array;
  }

private:
  void require_done(int number, std::string_view call) {
    if (number == 0) {
      return;
    }
    Stream& from = stream_.get();
    const char* const why =
        from.get_last_error == nullptr ? nullptr : foreign_call([&] { return from.get_last_error(&from); });
    throw error(code_of(number),
                concat(name, ": ", call, " failed with errno ", number, " (", std::strerror(number), ")",
                       why == nullptr ? "" : ": ", why == nullptr ? "" : why),
                number);
  }

  arrow_owned<Stream> stream_;
};

/// Private data of a stream whose first array was requested ahead.
struct begun_stream {
  arrow_device_stream rest;
  arrow_device_array first; ///< empty if the stream has no array
  bool given = false;       ///< whether `first` has been handed out

  static begun_stream& of(ArrowDeviceArrayStream* stream) noexcept {
    return *static_cast<begun_stream*>(stream->private_data);
  }
  static int get_schema(ArrowDeviceArrayStream* stream, ArrowSchema* out) {
    ArrowDeviceArrayStream& from = of(stream).rest.get();
    return from.get_schema(&from, out);
  }
  static int get_next(ArrowDeviceArrayStream* stream, ArrowDeviceArray* out) {
    begun_stream& state = of(stream);
    if (!std::exchange(state.given, true)) {
      *out = state.first.release();
      return 0;
    }
    return state.rest.get().get_next(&state.rest.get(), out);
  }
  static const char* get_last_error(ArrowDeviceArrayStream* stream) {
    ArrowDeviceArrayStream& from = of(stream).rest.get();
    return from.get_last_error == nullptr ? nullptr : from.get_last_error(&from);
  }
  static void release(ArrowDeviceArrayStream* stream) {
    delete &of(stream);
    stream->release = nullptr;
  }
};

/// Requests the next array of a stream while the last one is on its way to the context. Only a producer that
/// works for each array is called on another thread. If the producer has all arrays ready, a thread costs
/// more than the call.
template <class Source>
class look_ahead {
public:
  explicit look_ahead(Source& from) : from_(from) {}

  /// The next array; empty at the end. The wait can be interrupted. The producer's call ends before the
  /// stream is released.
  auto next() {
    check_interrupt(); // a stream may have no end
    if (!asked_.valid()) {
      return ask_now();
    }
    while (asked_.wait_for(interrupt_interval) != std::future_status::ready) {
      check_interrupt();
    }
    return asked_.get();
  }
  /// Starts the call for the next array on another thread, if the producer is slow and there is a thread.
  void ask() {
    if (!slow_) {
      return;
    }
    const auto call = std::make_shared<std::packaged_task<array()>>([this] { return ask_now(); });
    if (thread_.start([call] { (*call)(); })) {
      asked_ = call->get_future();
    }
  }

private:
  using array = decltype(std::declval<Source&>().next());

  array ask_now() {
    constexpr std::chrono::milliseconds worth_a_thread{1};
    const auto start = std::chrono::steady_clock::now();
    array array = from_.next();
    slow_ = std::chrono::steady_clock::now() - start > worth_a_thread;
    return array;
  }

  Source& from_;
  bool slow_ = false; ///< whether the last call was slow; written by the thread that made it
  std::future<array> asked_;
  background_thread thread_{"saeta-import"};
};

/// The columns of a stream: the children of a struct type, or a single column of any other type.
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

/// Imports every array of a stream.
/// @param place_batch, place_column  take an array on success.
template <class Source, class PlaceBatch, class PlaceColumn>
imported_stream read_stream(const std::shared_ptr<context>& ctx, Source& stream,
                            const import_options& options, const std::function<void(std::int64_t)>& progress,
                            PlaceBatch place_batch, PlaceColumn place_column) {
  stream_type type = read_type(stream.type().get(), options);
  rolling_dictionaries dictionaries;
  std::vector<batch> batches;
  std::int64_t rows = 0;
  look_ahead ahead(stream);
  for (auto chunk = ahead.next(); !chunk.empty(); chunk = ahead.next()) {
    ahead.ask();
    placed_batch placed =
        type.batches ? place_batch(type.fields, chunk.get(), dictionaries.dictionaries())
                     : place_column(type.fields.fields.front(), chunk.get(), dictionaries.dictionaries());
    dictionaries.roll_to(placed);
    rows = checked_add(rows, placed.columns.rows, "rows of a stream");
    batches.push_back(std::move(placed.columns));
    if (progress) {
      progress(rows);
    }
  }
  return {table::make(ctx, resolve_symbols(std::move(type.fields)), std::move(batches)), type.batches};
}

} // namespace

imported_stream import_any_stream(const std::shared_ptr<context>& ctx, ArrowArrayStream& source,
                                  const import_options& options,
                                  const std::function<void(std::int64_t)>& progress) {
  require_argument(ctx, "ctx");
  stream_source<ArrowArrayStream, ArrowArray> stream(source);
  return read_stream(
      ctx, stream, options, progress,
      [&](const schema& fields, ArrowArray& from, dictionary_cache& known) {
        return place_batch(ctx, fields, from, known, options);
      },
      [&](const field& described, ArrowArray& from, dictionary_cache& known) {
        return place_column(ctx, described, from, known, options);
      });
}

imported_stream import_device_stream(const std::shared_ptr<context>& ctx, ArrowDeviceArrayStream& source,
                                     const import_options& options,
                                     const std::function<void(std::int64_t)>& progress) {
  require_argument(ctx, "ctx");
  stream_source<ArrowDeviceArrayStream, ArrowDeviceArray> stream(source);
  const auto require_type = [&](const ArrowDeviceArray& from) {
    if (from.device_type != stream.get().device_type) {
      throw error(errc::format, concat("ArrowDeviceArrayStream: an array is on device type ",
                                       from.device_type, ", the stream on ", stream.get().device_type));
    }
  };
  return read_stream(
      ctx, stream, options, progress,
      [&](const schema& fields, ArrowDeviceArray& from, dictionary_cache& known) {
        require_type(from);
        return place_device_batch(ctx, fields, from, known, options);
      },
      [&](const field& described, ArrowDeviceArray& from, dictionary_cache& known) {
        require_type(from);
        return place_device_column(ctx, described, from, known, options);
      });
}

std::optional<std::int64_t> device_number_of(ArrowDeviceArrayStream& source) {
  auto state = std::make_unique<begun_stream>();
  stream_source<ArrowDeviceArrayStream, ArrowDeviceArray> stream(source);
  state->first = stream.next();
  state->rest = stream.release();
  std::optional<std::int64_t> number;
  if (!state->first.empty()) {
    number = state->first.get().device_id;
  }
  source = {state->rest.get().device_type, &begun_stream::get_schema, &begun_stream::get_next,
            &begun_stream::get_last_error, &begun_stream::release,    state.get()};
  static_cast<void>(state.release());
  return number;
}

table import_stream(const std::shared_ptr<context>& ctx, ArrowArrayStream& source,
                    const import_options& options, const std::function<void(std::int64_t)>& progress) {
  require_argument(ctx, "ctx");
  return import_any_stream(ctx, source, options, progress).rows;
}

} // namespace saeta
