#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/export.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/symbols/symbol_arrays.hpp"
#include "saeta/transfer/download.hpp"

#include <cerrno>
#include <new>

namespace saeta {
namespace {

/// EINVAL for every code that has no errno value of its own.
int errno_of(errc code) noexcept {
  switch (code) {
  case errc::out_of_memory:
  case errc::budget_exceeded:
    return ENOMEM;
  case errc::io:
  case errc::device:
  case errc::device_lost:
    return EIO;
  case errc::unsupported:
    return ENOTSUP;
  default:
    return EINVAL;
  }
}

/// Private data of an exported stream. Each array is made when it is requested.
template <class Array>
struct exported_stream {
  std::function<void(ArrowSchema&)> type;
  std::function<void(std::size_t, Array&)> make;
  std::size_t count = 0;
  std::size_t next = 0;
  std::string last_error;
};

/// The callbacks of a stream, on the host or on a device.
template <class Stream, class Array>
struct callbacks {
  using state_type = exported_stream<Array>;

  static state_type& state_of(Stream* stream) noexcept {
    return *static_cast<state_type*>(stream->private_data);
  }

  /// Runs `step` for a C caller. Returns 0, or an errno value whose text is stored in the stream.
  template <class Step>
  static int run_guarded(Stream* stream, Step step) noexcept {
    state_type& state = state_of(stream);
    state.last_error.clear();
    try {
      try {
        step(state);
        return 0;
      } catch (const error& why) {
        state.last_error = concat(name_of(why.code()), ": ", why.message());
        return errno_of(why.code());
      } catch (const std::bad_alloc&) {
        return ENOMEM;
      } catch (const std::exception& why) {
        state.last_error = why.what();
        return EINVAL;
      }
    } catch (...) { // no memory for the text
      return ENOMEM;
    }
  }

  static int get_schema(Stream* stream, ArrowSchema* out) noexcept {
    return run_guarded(stream, [&](state_type& state) { state.type(*out); });
  }

  static int get_next(Stream* stream, Array* out) noexcept {
    return run_guarded(stream, [&](state_type& state) {
      if (state.next == state.count) {
        *out = Array{};
        return;
      }
      state.make(state.next, *out);
      ++state.next;
    });
  }

  static const char* get_last_error(Stream* stream) noexcept {
    const std::string& text = state_of(stream).last_error;
    return text.empty() ? nullptr : text.c_str();
  }

  static void release(Stream* stream) noexcept {
    delete static_cast<state_type*>(stream->private_data);
    stream->release = nullptr;
  }

  static arrow_owned<Stream> owner_of(std::unique_ptr<state_type> state) noexcept {
    Stream made{};
    made.get_schema = get_schema;
    made.get_next = get_next;
    made.get_last_error = get_last_error;
    made.release = release;
    made.private_data = state.release();
    return arrow_owned<Stream>(made);
  }
};

using on_host = callbacks<ArrowArrayStream, ArrowArray>;
using on_device = callbacks<ArrowDeviceArrayStream, ArrowDeviceArray>;

arrow_device_stream on_device_type(arrow_device_stream made, tensor_device where) noexcept {
  made.get().device_type = where.type;
  return made;
}

/// Counts the bytes only in strict mode, because this visits all buffers.
template <class Source>
void require_downloads(const Source& of) {
  if (of.ctx()->copies().forbids_downloads()) {
    of.ctx()->copies().require_downloads(of.byte_size());
  }
}

/// Arrays that were exported together and are requested one by one.
struct export_window {
  std::vector<arrow_array> arrays;
  std::size_t next = 0;

  /// @param make  returns the next arrays, at least one.
  template <class Make>
  void give(ArrowArray& out, const Make& make) {
    if (next == arrays.size()) {
      arrays = make();
      next = 0;
    }
    out = arrays[next++].release();
  }
};

/// How many pieces from `first` on are exported together.
std::size_t window_of_pieces(const std::vector<column>& pieces, std::size_t first) {
  std::uint64_t bytes = 0;
  std::size_t end = first;
  do {
    bytes += pieces[end++].byte_size();
  } while (end != pieces.size() && bytes < stream_window_bytes && pieces[end].ctx() == pieces[first].ctx());
  return end - first;
}

void require_type(const field& described, std::span<const column> pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].type() != described.type) {
      throw error(errc::type_mismatch, concat("stream of '", described.name, "': piece ", i, " is of type ",
                                              pieces[i].type().name(), ", expected ", described.type.name()));
    }
  }
}

} // namespace

arrow_stream export_stream(const table& source) {
  require_downloads(source);
  auto state = std::make_unique<on_host::state_type>();
  const auto rows = std::make_shared<const table>(source);
  state->type = [rows](ArrowSchema& out) { out = export_schema(rows->fields()).release(); };
  state->make = [rows, names = std::make_shared<symbol_names>(source.fields()),
                 window = std::make_shared<export_window>()](std::size_t index, ArrowArray& out) {
    window->give(out, [&] {
      const std::size_t end = end_of_window(rows->batches(), index, stream_window_bytes);
      return export_batches(*rows, index, end - index, *names);
    });
  };
  state->count = source.batches().size();
  return on_host::owner_of(std::move(state));
}

arrow_stream export_stream(const field& described, std::vector<column> pieces) {
  require_type(described, pieces);
  for (const column& piece : pieces) {
    require_downloads(piece);
  }
  auto state = std::make_unique<on_host::state_type>();
  state->count = pieces.size();
  state->type = [described](ArrowSchema& out) { out = export_field(described).release(); };
  const schema only{{described}, {}};
  state->make = [pieces = std::move(pieces), names = std::make_shared<symbol_names>(only),
                 window = std::make_shared<export_window>()](std::size_t index, ArrowArray& out) {
    window->give(out, [&] {
      return export_columns(std::span(pieces).subspan(index, window_of_pieces(pieces, index)), *names);
    });
  };
  return on_host::owner_of(std::move(state));
}

arrow_device_stream export_device_stream(const table& source) {
  std::vector<column> parts;
  for (const batch& part : source.batches()) {
    parts.insert(parts.end(), part.columns.begin(), part.columns.end());
  }
  const tensor_device where = device_for(*source.ctx(), parts);
  auto state = std::make_unique<on_device::state_type>();
  state->type = [source](ArrowSchema& out) {
    out = export_schema(source.fields(), symbol_form::numbers).release();
  };
  state->make = [source, where](std::size_t index, ArrowDeviceArray& out) {
    out = export_to_device(source.ctx(), source.batches()[index], where).release();
  };
  state->count = source.batches().size();
  return on_device_type(on_device::owner_of(std::move(state)), where);
}

arrow_device_stream export_device_stream(const field& described, std::vector<column> pieces) {
  require_type(described, pieces);
  // Without pieces there is no context to ask, and nothing is on a device.
  const tensor_device where = pieces.empty() ? tensor_device{} : device_for(*pieces.front().ctx(), pieces);
  auto state = std::make_unique<on_device::state_type>();
  state->count = pieces.size();
  state->type = [described](ArrowSchema& out) {
    out = export_field(described, symbol_form::numbers).release();
  };
  state->make = [pieces = std::move(pieces), where](std::size_t index, ArrowDeviceArray& out) {
    out = export_to_device(pieces[index], where).release();
  };
  return on_device_type(on_device::owner_of(std::move(state)), where);
}

} // namespace saeta
