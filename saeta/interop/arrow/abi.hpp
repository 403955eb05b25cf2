// The structs of the Arrow C Data, C Stream and C Device Data Interfaces, as the standard publishes them.
//
// What      Plain C structs. The assertions below check their layout to the byte. The include guards are
//           those of the standard, so this header can be included together with those of other Arrow
//           libraries, in any order.
// Owner     The holder of a struct whose `release` is not null calls it once, or moves the struct away and
//           sets `release` to null. owned.hpp does that.
// Thread    A struct belongs to one thread at a time.
// Standard  arrow.apache.org/docs/format/CDataInterface.html, CStreamInterface.html and
//           CDeviceDataInterface.html
#pragma once

#include "saeta/base/export.hpp"

#include <cstddef>
#include <cstdint>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name; ///< may be null
  /// int32 count, then int32 size and bytes of each key and value, native endian; may be null
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count; ///< -1: unknown
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

} // extern "C"

#endif // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

extern "C" {

/// The callbacks return 0 or an errno value.
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out); ///< a released array ends the stream
  const char* (*get_last_error)(ArrowArrayStream*);    ///< valid until the next call; may return null
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

} // extern "C"

#endif // ARROW_C_STREAM_INTERFACE

#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#define ARROW_C_DEVICE_DATA_INTERFACE

typedef std::int32_t ArrowDeviceType; // NOLINT: the standard has a typedef

#define ARROW_DEVICE_CPU 1
#define ARROW_DEVICE_CUDA 2
#define ARROW_DEVICE_CUDA_HOST 3
#define ARROW_DEVICE_CUDA_MANAGED 13

extern "C" {

struct ArrowDeviceArray {
  ArrowArray array;
  std::int64_t device_id; ///< -1 if the device type has no ids
  ArrowDeviceType device_type;
  void* sync_event; ///< CUDA: points to a cudaEvent_t; null if nothing is pending
  std::int64_t reserved[3];
};

} // extern "C"

#endif // ARROW_C_DEVICE_DATA_INTERFACE

#ifndef ARROW_C_DEVICE_STREAM_INTERFACE
#define ARROW_C_DEVICE_STREAM_INTERFACE

extern "C" {

/// Like ArrowArrayStream. Every array is on a device of type `device_type`.
struct ArrowDeviceArrayStream {
  ArrowDeviceType device_type;
  int (*get_schema)(ArrowDeviceArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowDeviceArrayStream*, ArrowDeviceArray* out);
  const char* (*get_last_error)(ArrowDeviceArrayStream*);
  void (*release)(ArrowDeviceArrayStream*);
  void* private_data;
};

} // extern "C"

#endif // ARROW_C_DEVICE_STREAM_INTERFACE

namespace SAETA_EXPORT saeta {

static_assert(sizeof(void*) == 8, "the offsets below are those of a 64-bit ABI");
static_assert(sizeof(ArrowSchema) == 72);
static_assert(offsetof(ArrowSchema, metadata) == 16 && offsetof(ArrowSchema, flags) == 24);
static_assert(offsetof(ArrowSchema, n_children) == 32 && offsetof(ArrowSchema, children) == 40);
static_assert(offsetof(ArrowSchema, dictionary) == 48 && offsetof(ArrowSchema, release) == 56);
static_assert(sizeof(ArrowArray) == 80);
static_assert(offsetof(ArrowArray, offset) == 16 && offsetof(ArrowArray, n_buffers) == 24);
static_assert(offsetof(ArrowArray, n_children) == 32 && offsetof(ArrowArray, buffers) == 40);
static_assert(offsetof(ArrowArray, children) == 48 && offsetof(ArrowArray, dictionary) == 56);
static_assert(offsetof(ArrowArray, release) == 64);
static_assert(sizeof(ArrowArrayStream) == 40);
static_assert(offsetof(ArrowArrayStream, get_last_error) == 16 && offsetof(ArrowArrayStream, release) == 24);
static_assert(sizeof(ArrowDeviceArray) == 128 && offsetof(ArrowDeviceArray, device_id) == 80);
static_assert(offsetof(ArrowDeviceArray, device_type) == 88 && offsetof(ArrowDeviceArray, sync_event) == 96);
static_assert(offsetof(ArrowDeviceArray, reserved) == 104);
static_assert(sizeof(ArrowDeviceArrayStream) == 48 && offsetof(ArrowDeviceArrayStream, get_schema) == 8);
static_assert(offsetof(ArrowDeviceArrayStream, get_next) == 16);
static_assert(offsetof(ArrowDeviceArrayStream, get_last_error) == 24);
static_assert(offsetof(ArrowDeviceArrayStream, release) == 32);

} // namespace saeta
