#include "saeta/base/text.hpp"
#include "saeta/interop/arrow_c.hpp"
#include "saeta/interop/arrow_owned.hpp"

#include <cerrno>
#include <new>

namespace saeta {
namespace {

int errno_of(const error& why) noexcept {
  switch (why.code()) {
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

/// Private data of an exported stream: the arrays that are left, made when they are asked for.
struct exported_stream {
  std::function<void(ArrowSchema&)> type;
  std::function<void(std::size_t, ArrowArray&)> make;
  std::size_t count = 0;
  std::size_t next = 0;
  std::string last_error;
};

exported_stream& state_of(ArrowArrayStream* stream) noexcept {
  return *static_cast<exported_stream*>(stream->private_data);
}

/// Runs `step` for a C caller: 0, or an errno value with its text in the stream.
template <class Step>
int guarded(ArrowArrayStream* stream, Step step) noexcept {
  exported_stream& state = state_of(stream);
  state.last_error.clear();
  try {
    try {
      step(state);
      return 0;
    } catch (const error& why) {
      state.last_error = concat(name_of(why.code()), ": ", why.message());
      return errno_of(why);
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

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept {
  return guarded(stream, [&](exported_stream& state) { state.type(*out); });
}

int get_next(ArrowArrayStream* stream, ArrowArray* out) noexcept {
  return guarded(stream, [&](exported_stream& state) {
    if (state.next == state.count) {
      *out = ArrowArray{};
      return;
    }
    state.make(state.next, *out);
    ++state.next;
  });
}

const char* get_last_error(ArrowArrayStream* stream) noexcept {
  const std::string& text = state_of(stream).last_error;
  return text.empty() ? nullptr : text.c_str();
}

void release_stream(ArrowArrayStream* stream) noexcept {
  delete static_cast<exported_stream*>(stream->private_data);
  stream->release = nullptr;
}

void give(std::unique_ptr<exported_stream> state, ArrowArrayStream& target) noexcept {
  target = {get_schema, get_next, get_last_error, release_stream, state.release()};
}

/// The bytes are counted in strict mode alone: that takes a walk over all buffers.
template <class Source>
void require_downloads(const Source& of) {
  if (of.home()->forbids_downloads()) {
    of.home()->require_downloads(of.byte_size());
  }
}

} // namespace

void export_stream(const table& source, ArrowArrayStream& target) {
  require_downloads(source);
  auto state = std::make_unique<exported_stream>();
  state->type = [source](ArrowSchema& out) { export_schema(source.fields(), out); };
  state->make = [source](std::size_t index, ArrowArray& out) { export_batch(source, index, out); };
  state->count = source.batches().size();
  give(std::move(state), target);
}

void export_stream(const field& described, std::vector<column> pieces, ArrowArrayStream& target) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    require_downloads(pieces[i]);
    if (pieces[i].type() != described.type) {
      throw error(errc::type_mismatch, concat("stream of '", described.name, "': piece ", i, " is of type ",
                                              pieces[i].type().name(), ", expected ", described.type.name()));
    }
  }
  auto state = std::make_unique<exported_stream>();
  state->count = pieces.size();
  state->type = [described](ArrowSchema& out) { export_field(described, out); };
  state->make = [pieces = std::move(pieces)](std::size_t index, ArrowArray& out) {
    export_column(pieces[index], out);
  };
  give(std::move(state), target);
}

} // namespace saeta
