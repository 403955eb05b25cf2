// Imports streams of the Arrow C Stream Interface and its device variant, whose callbacks fail, return broken
// arrays or end early.
#include "fuzz/foreign_array.hpp"
#include "saeta/column/schema.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/memory/context.hpp"
#include "support/tables.hpp"

#include <cerrno>
#include <deque>

namespace saeta::fuzz {
namespace {

/// What the callbacks of a stream will do, and which calls they have received.
struct script {
  field described;
  std::deque<foreign_array> arrays;
  std::size_t next = 0;
  std::size_t fails_at = SIZE_MAX; ///< number of the call that fails; 0 is get_schema
  int failure = EIO;
  const char* text = nullptr;
  std::int32_t device_type = ARROW_DEVICE_CPU; ///< field of the device arrays
  bool released_schema = false;
  int releases = 0;
};

template <class Stream, class Array>
struct callbacks {
  static script& of(Stream* stream) { return *static_cast<script*>(stream->private_data); }

  static int get_schema(Stream* stream, ArrowSchema* out) {
    script& plan = of(stream);
    if (plan.fails_at == 0) {
      return plan.failure;
    }
    if (!plan.released_schema) {
      *out = export_field(plan.described).release();
    }
    return 0;
  }
  static int get_next(Stream* stream, Array* out) {
    script& plan = of(stream);
    if (plan.fails_at == plan.next + 1) {
      return plan.failure;
    }
    *out = Array{};
    if (plan.next < plan.arrays.size()) {
      foreign_array& given = plan.arrays[plan.next++];
      releasable(*out) = given.get();
      if (releasable(*out).release == nullptr) { // a released array means the end of the stream
        given.give_back(releasable(*out));
      }
      if constexpr (std::is_same_v<Array, ArrowDeviceArray>) {
        out->device_type = plan.device_type;
      }
    }
    return 0;
  }
  static const char* get_last_error(Stream* stream) { return of(stream).text; }
  static void release(Stream* stream) {
    ++of(stream).releases;
    stream->release = nullptr;
  }
};

template <class Stream, class Array>
Stream stream_of(script& plan, input& from) {
  using calls = callbacks<Stream, Array>;
  Stream made{};
  made.get_schema = from.ConsumeIntegral<std::uint8_t>() == 0 ? nullptr : calls::get_schema;
  made.get_next = from.ConsumeIntegral<std::uint8_t>() == 0 ? nullptr : calls::get_next;
  made.get_last_error = from.ConsumeBool() ? nullptr : calls::get_last_error;
  made.release = calls::release;
  made.private_data = &plan;
  return made;
}

void read_all(const imported_stream& read) {
  for (std::size_t i = 0; i < read.rows.column_count(); ++i) {
    std::int64_t rows = 0;
    for (const column& piece : read.rows.pieces(i)) {
      rows += static_cast<std::int64_t>(support::cells(piece).size());
    }
    require(rows == read.rows.rows(), "a column has other rows than its table");
  }
}

void import_all(const std::shared_ptr<context>& ctx, script& plan, input& from) {
  const import_options how{.structs_as_column = from.ConsumeBool()};
  const auto guarded = [&](auto stream, auto import) {
    try {
      read_all(import(stream));
    } catch (const error& failure) {
      const bool theirs = plan.fails_at != SIZE_MAX; // the errno of the callback determines the error code
      if (!theirs) {
        require_input_error(failure);
      }
    }
    require(stream.release == nullptr && plan.releases == 1, "a stream was not released once");
  };
  if (from.ConsumeBool()) {
    guarded(stream_of<ArrowArrayStream, ArrowArray>(plan, from),
            [&](ArrowArrayStream& source) { return import_any_stream(ctx, source, how); });
  } else {
    auto stream = stream_of<ArrowDeviceArrayStream, ArrowDeviceArray>(plan, from);
    // The buffers are in host memory. A context of a simulated device can't detect that a pointer which
    // claims to be on its device (12) is not.
    plan.device_type = from.PickValueInArray({1, 1, 1, 2, 3, ctx->on_host() ? 12 : 1, 13, 0, -1, 99});
    stream.device_type = from.ConsumeBool() ? plan.device_type : from.PickValueInArray({1, 2, 12, 0});
    guarded(stream, [&, ahead = from.ConsumeBool()](ArrowDeviceArrayStream& source) {
      if (ahead) {
        static_cast<void>(device_number_of(source));
      }
      return import_device_stream(ctx, source, how);
    });
  }
  settle(*ctx);
}

void run(const std::shared_ptr<context>& ctx, input& from) {
  script plan;
  plan.described = {"x", draw_type(from), from.ConsumeBool(), {}};
  plan.fails_at =
      from.PickValueInArray({SIZE_MAX, SIZE_MAX, SIZE_MAX, std::size_t{0}, std::size_t{1}, std::size_t{2}});
  plan.failure = from.PickValueInArray({EIO, EINVAL, ENOMEM, ENOSYS, ENOTSUP, -1, 0x7FFFFFFF});
  plan.text = from.PickValueInArray<const char*>({nullptr, "", "why", "\xff\xfe"});
  plan.released_schema = from.ConsumeIntegral<std::uint8_t>() == 0;
  const auto same = draw_array(from, plan.described.type); // so that several arrays have the same dictionary
  for (int chunks = from.ConsumeIntegralInRange<int>(0, 3); chunks > 0; --chunks) {
    plan.arrays.emplace_back(from.ConsumeBool() ? *same : *draw_array(from, plan.described.type));
    if (from.ConsumeBool()) {
      plan.arrays.back().break_field(from);
    }
  }
  import_all(ctx, plan, from);
  for (std::size_t i = plan.next; i < plan.arrays.size(); ++i) {
    plan.arrays[i].give_back(plan.arrays[i].get()); // never requested by the consumer
  }
}

} // namespace
} // namespace saeta::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace saeta::fuzz;
  input from(data, size);
  run_on_any_device(from, [&](const std::shared_ptr<saeta::context>& ctx) { run(ctx, from); });
  return 0;
}
