/* The C interface of Saeta: contexts, budgets, buffers, tables, files, spilling and sharing for C11 and every
 * language that calls C.
 *
 * Result    Every function returns SAETA_OK or the code of an error. `saeta_last_error` then has its text and
 *           numbers. On an error the results are not written, except that handles become NULL. No C++ exception
 *           and no signal leaves a function.
 * Handles   An object is known by a handle, which is not an address: a handle that was released, one of another
 *           kind, and any other pointer are the error SAETA_INVALID_ARGUMENT. The caller releases every handle
 *           that a function gives, by `saeta_release`. Objects keep what they need: a table stays valid after
 *           its context is released.
 * Structs   The Arrow structs are those of the standard. An import takes a struct on success, and leaves it
 *           with the caller on an error. An export fills a struct, which the caller releases. A tensor of DLPack
 *           is taken and given in the same way. Options and numbers begin with `struct_size`, which the caller
 *           sets to the size of the struct; members behind it keep their defaults, so programs that were
 *           compiled for an older version go on working.
 * Text      UTF-8, ending with a zero. Text that a function gives belongs to the object.
 * Threads   Any thread may call any function, also with handles that other threads use. One object takes turns
 *           where its functions say "one at a time"; otherwise calls run at the same time. A handle may be
 *           released while another thread uses it: the object ends with its last use.
 * Fork      A child of fork has none of its parent's handles.
 * Order     Work on a device is ordered as docs/ordering.md says. Numbers of streams are those of DLPack: 1 is
 *           the legacy default stream, 2 the per-thread default stream, above 2 a cudaStream_t; 0 is the work
 *           stream of the context.
 */
#ifndef SAETA_C_H
#define SAETA_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SAETA_C_API __attribute__((visibility("default")))
#else
#define SAETA_C_API
#endif

/* The structs of the Arrow C Data, C Stream and C Device Data Interfaces, as the standard publishes them. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
#endif
#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#define ARROW_C_DEVICE_DATA_INTERFACE
typedef int32_t ArrowDeviceType;
#define ARROW_DEVICE_CPU 1
#define ARROW_DEVICE_CUDA 2
#define ARROW_DEVICE_CUDA_HOST 3
#define ARROW_DEVICE_CUDA_MANAGED 13
struct ArrowDeviceArray {
  struct ArrowArray array;
  int64_t device_id;
  ArrowDeviceType device_type;
  void* sync_event;
  int64_t reserved[3];
};
#endif
#ifndef ARROW_C_DEVICE_STREAM_INTERFACE
#define ARROW_C_DEVICE_STREAM_INTERFACE
struct ArrowDeviceArrayStream {
  ArrowDeviceType device_type;
  int (*get_schema)(struct ArrowDeviceArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowDeviceArrayStream*, struct ArrowDeviceArray* out);
  const char* (*get_last_error)(struct ArrowDeviceArrayStream*);
  void (*release)(struct ArrowDeviceArrayStream*);
  void* private_data;
};
#endif

struct DLManagedTensorVersioned; /* dlpack.h, 1.x */

/* ---- versions and errors ---- */

/* Grows by 1 when a function or a member is added. Nothing is taken away or changed. */
#define SAETA_C_VERSION 2

typedef int32_t saeta_code;
enum {
  SAETA_OK = 0,
  SAETA_INVALID_ARGUMENT = 1,
  SAETA_TYPE_MISMATCH = 2,
  SAETA_UNSUPPORTED = 3,
  SAETA_OUT_OF_RANGE = 4,
  SAETA_OVERFLOW = 5,
  SAETA_BUDGET_EXCEEDED = 6, /* the numbers of saeta_error say by how much */
  SAETA_OUT_OF_MEMORY = 7,
  SAETA_DEVICE = 8,
  SAETA_DEVICE_LOST = 9,
  SAETA_FORMAT = 10,
  SAETA_IO = 11, /* saeta_error has the errno */
  SAETA_EXCHANGE = 12,
  SAETA_CLOSED = 13,
  SAETA_BUSY = 14,
  SAETA_DOWNLOAD_FORBIDDEN = 15,
  SAETA_COLUMN_NAME = 16,
  SAETA_INTERNAL = 17 /* an exception that is not an error of Saeta */
};

typedef struct saeta_error {
  saeta_code code;
  int32_t error_number; /* errno of the call of the system that failed; 0: none */
  const char* message;
  /* Of a budget that refused, in bytes; otherwise 0. required = current + reserved + requested > limit. */
  uint64_t requested, current, reserved, limit, remaining, peak;
} saeta_error;

/* The version that the library has: SAETA_C_VERSION of its header, and "0.1.0". */
SAETA_C_API int32_t saeta_c_version(void);
SAETA_C_API const char* saeta_version(void);
/* "budget_exceeded"; "unknown" for other numbers. */
SAETA_C_API const char* saeta_code_name(saeta_code code);
/* The error of the last call of this thread that failed. Never NULL; valid until the thread's next call that
 * fails. Its code is SAETA_OK if none has failed. */
SAETA_C_API const saeta_error* saeta_last_error(void);

/* ---- handles ---- */

typedef struct saeta_context saeta_context;
typedef struct saeta_buffer saeta_buffer;
typedef struct saeta_use saeta_use;       /* one at a time, and one thread */
typedef struct saeta_table saeta_table;   /* immutable */
typedef struct saeta_scan saeta_scan;     /* one at a time */
typedef struct saeta_writer saeta_writer; /* calls take turns */
typedef struct saeta_packed saeta_packed; /* immutable */
typedef struct saeta_spill saeta_spill;
typedef struct saeta_shared saeta_shared; /* immutable */

/* Releases a handle of any kind; NULL is allowed. A writer that was not closed leaves no file. */
SAETA_C_API saeta_code saeta_release(void* handle);
/* How many handles the process holds, to find those that were forgotten. */
SAETA_C_API saeta_code saeta_count_handles(uint64_t* count);

/* ---- contexts and budgets ---- */

#define SAETA_UNLIMITED UINT64_MAX

typedef struct saeta_context_options {
  size_t struct_size;
  uint64_t budget;   /* bytes; 0: from the environment, else unlimited */
  const char* stack; /* as "logging, budget, caching"; NULL: from the environment */
  int64_t wait_ms;   /* how long a request without room waits; below 0: from the environment */
} saeta_context_options;
#define SAETA_CONTEXT_OPTIONS                                                                                \
  { sizeof(saeta_context_options), 0, NULL, -1 }

typedef struct saeta_memory {
  size_t struct_size;
  uint64_t current, reserved, limit, remaining, peak; /* of the context's budget */
  uint64_t held;   /* taken from the device: in use, cached, or lost to rounding */
  uint64_t pinned; /* page-locked */
} saeta_memory;
#define SAETA_MEMORY                                                                                         \
  { sizeof(saeta_memory), 0, 0, 0, 0, 0, 0, 0 }

typedef struct saeta_counters {
  size_t struct_size;
  uint64_t host_to_device_bytes, device_to_host_bytes, device_to_device_bytes, host_to_host_bytes;
  uint64_t host_to_device_transfers, device_to_host_transfers;
  uint64_t allocations, imports, exports, synchronizations;
} saeta_counters;
#define SAETA_COUNTERS                                                                                       \
  { sizeof(saeta_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* The process's context of a device: "host", "cuda", "cuda:1"; NULL: the first GPU, else the host. Options must
 * be those of the open context, or left out (options may be NULL). */
SAETA_C_API saeta_code saeta_context_open(const char* device, const saeta_context_options* options,
                                          saeta_context** context);
/* A context of the same device that charges a budget below this one. */
SAETA_C_API saeta_code saeta_context_child(saeta_context* context, const char* name, uint64_t limit,
                                           saeta_context** child);
/* A context of the same device that draws from bytes promised now. */
SAETA_C_API saeta_code saeta_context_reserve(saeta_context* context, uint64_t bytes, saeta_context** drawing);
SAETA_C_API saeta_code saeta_context_set_budget(saeta_context* context, uint64_t bytes);
SAETA_C_API saeta_code saeta_context_memory(saeta_context* context, saeta_memory* memory);
/* What was moved, allocated and exchanged on the device since the last reset. */
SAETA_C_API saeta_code saeta_context_counters(saeta_context* context, saeta_counters* counters);
SAETA_C_API saeta_code saeta_context_reset_counters(saeta_context* context);
/* Returns unused memory to the device and to the system. freed may be NULL. */
SAETA_C_API saeta_code saeta_context_trim(saeta_context* context, uint64_t* freed);
/* Waits until the work stream is done. */
SAETA_C_API saeta_code saeta_context_synchronize(saeta_context* context);
/* The number of the work stream; 0 on the host, which has none. */
SAETA_C_API saeta_code saeta_context_stream(saeta_context* context, int64_t* stream);

/* ---- buffers, and their use by kernels of the caller ---- */

enum { SAETA_READ = 1, SAETA_WRITE = 2, SAETA_READ_WRITE = 3 };

/* Memory for `count` values of `value_bytes` each, with undefined contents. tag may be NULL. */
SAETA_C_API saeta_code saeta_buffer_allocate(saeta_context* context, uint64_t count, uint64_t value_bytes,
                                             const char* tag, saeta_buffer** buffer);
SAETA_C_API saeta_code saeta_buffer_size(saeta_buffer* buffer, uint64_t* bytes);
/* A part that shares the memory. */
SAETA_C_API saeta_code saeta_buffer_slice(saeta_buffer* buffer, uint64_t offset, uint64_t bytes,
                                          saeta_buffer** part);
/* Copies host memory to the buffer, and back. Done when the call returns. */
SAETA_C_API saeta_code saeta_buffer_write(saeta_buffer* buffer, uint64_t offset, const void* source,
                                          uint64_t bytes);
SAETA_C_API saeta_code saeta_buffer_read(saeta_buffer* buffer, uint64_t offset, void* target, uint64_t bytes);
/* Begins a use of buffers of one context on a stream, which waits for their last users. modes[i] is SAETA_READ,
 * SAETA_WRITE or SAETA_READ_WRITE. Queue work on the stream with the addresses of saeta_use_address, then end
 * the use: later users wait for that work. */
SAETA_C_API saeta_code saeta_use_begin(saeta_context* context, int64_t stream, saeta_buffer* const* buffers,
                                       const int32_t* modes, size_t count, saeta_use** use);
/* The address of a buffer on its device, valid until the use ends. It must be a multiple of `value_bytes`.
 * count: how many values fit; may be NULL. */
SAETA_C_API saeta_code saeta_use_address(saeta_use* use, saeta_buffer* buffer, int32_t mode,
                                         uint64_t value_bytes, void** address, uint64_t* count);
/* Ends the use. saeta_release without it does the same, without telling an error. */
SAETA_C_API saeta_code saeta_use_end(saeta_use* use);

/* ---- tables, and their exchange ---- */

SAETA_C_API saeta_code saeta_table_import_stream(saeta_context* context, struct ArrowArrayStream* source,
                                                 saeta_table** table);
/* The schema is read, and stays the caller's. */
SAETA_C_API saeta_code saeta_table_import_array(saeta_context* context, const struct ArrowSchema* schema,
                                                struct ArrowArray* source, saeta_table** table);
SAETA_C_API saeta_code saeta_table_import_device_stream(saeta_context* context,
                                                        struct ArrowDeviceArrayStream* source,
                                                        saeta_table** table);
SAETA_C_API saeta_code saeta_table_import_device_array(saeta_context* context,
                                                       const struct ArrowSchema* schema,
                                                       struct ArrowDeviceArray* source, saeta_table** table);
SAETA_C_API saeta_code saeta_table_export_schema(saeta_table* table, struct ArrowSchema* target);
/* To host memory: a download if the table is on a device. */
SAETA_C_API saeta_code saeta_table_export_stream(saeta_table* table, struct ArrowArrayStream* target);
SAETA_C_API saeta_code saeta_table_export_array(saeta_table* table, uint64_t batch,
                                                struct ArrowArray* target);
/* Where the memory is, without a copy. */
SAETA_C_API saeta_code saeta_table_export_device_stream(saeta_table* table,
                                                        struct ArrowDeviceArrayStream* target);
SAETA_C_API saeta_code saeta_table_export_device_array(saeta_table* table, uint64_t batch,
                                                       struct ArrowDeviceArray* target);
/* A column of one batch as a tensor, or with column NULL the table. stream: of the consumer, as for a
 * `__dlpack__`; 0: none is given. */
SAETA_C_API saeta_code saeta_table_export_dlpack(saeta_table* table, const char* column, int64_t stream,
                                                 struct DLManagedTensorVersioned** tensor);
/* A table of one column with this name, or with name NULL one of the tensor's columns. */
SAETA_C_API saeta_code saeta_table_import_dlpack(saeta_context* context,
                                                 struct DLManagedTensorVersioned* tensor, const char* name,
                                                 saeta_table** table);

SAETA_C_API saeta_code saeta_table_rows(saeta_table* table, int64_t* rows);
SAETA_C_API saeta_code saeta_table_columns(saeta_table* table, uint64_t* columns);
SAETA_C_API saeta_code saeta_table_batches(saeta_table* table, uint64_t* batches);
SAETA_C_API saeta_code saeta_table_bytes(saeta_table* table, uint64_t* bytes);
SAETA_C_API saeta_code saeta_table_column_name(saeta_table* table, uint64_t column, const char** name);
/* Parts that share the memory of the table. */
SAETA_C_API saeta_code saeta_table_slice(saeta_table* table, int64_t offset, int64_t rows,
                                         saeta_table** part);
SAETA_C_API saeta_code saeta_table_select(saeta_table* table, const char* const* names, size_t count,
                                          saeta_table** part);
SAETA_C_API saeta_code saeta_table_copy_to(saeta_table* table, saeta_context* context, saeta_table** copy);
/* Buffer `index` of a column in Arrow's order: 0 is the validity, of 0 bytes if there are no nulls. offset: of
 * the first row, in rows. */
SAETA_C_API saeta_code saeta_table_buffer(saeta_table* table, uint64_t batch, const char* column,
                                          uint64_t index, saeta_buffer** buffer, int64_t* offset);

/* ---- Arrow IPC files ---- */

enum { SAETA_FILE = 0, SAETA_STREAM = 1 };
enum { SAETA_PLAIN = 0, SAETA_LZ4 = 1, SAETA_ZSTD = 2 };

typedef struct saeta_read_options {
  size_t struct_size;
  const char* const* columns; /* NULL: all */
  size_t column_count;
  int32_t copy;          /* 1: always into memory of the context; 0: views of a mapped file where possible */
  uint64_t window_bytes; /* of a scan; 0: 128 MiB */
  int64_t batch_rows;    /* of the tables of a scan; 0: batches as the files have them */
} saeta_read_options;
#define SAETA_READ_OPTIONS                                                                                   \
  { sizeof(saeta_read_options), NULL, 0, 0, 0, 0 }

typedef struct saeta_write_options {
  size_t struct_size;
  int32_t format;      /* SAETA_FILE, SAETA_STREAM */
  int32_t compression; /* SAETA_PLAIN, SAETA_LZ4, SAETA_ZSTD */
  int32_t durable;     /* 1: the file survives a crash of the system */
} saeta_write_options;
#define SAETA_WRITE_OPTIONS                                                                                  \
  { sizeof(saeta_write_options), SAETA_FILE, SAETA_PLAIN, 1 }

/* Options may be NULL everywhere, and so may the result `bytes`. */
SAETA_C_API saeta_code saeta_read(saeta_context* context, const char* path, const saeta_read_options* options,
                                  saeta_table** table);
/* Reads files window by window, ahead of the caller. */
SAETA_C_API saeta_code saeta_scan_open(saeta_context* context, const char* const* paths, size_t count,
                                       const saeta_read_options* options, saeta_scan** scan);
/* The next rows; NULL at the end. */
SAETA_C_API saeta_code saeta_scan_next(saeta_scan* scan, saeta_table** table);
/* The file appears under its name when it is complete. */
SAETA_C_API saeta_code saeta_write(saeta_table* table, const char* path, const saeta_write_options* options,
                                   uint64_t* bytes);
/* Writes a file table by table, in the background. Close it, then release it. */
SAETA_C_API saeta_code saeta_writer_open(const char* path, const saeta_write_options* options,
                                         saeta_writer** writer);
SAETA_C_API saeta_code saeta_writer_write(saeta_writer* writer, saeta_table* table);
SAETA_C_API saeta_code saeta_writer_close(saeta_writer* writer, uint64_t* bytes);

/* ---- the packed form, and spilling ---- */

/* A table as metadata on the host and one contiguous body on its device. */
SAETA_C_API saeta_code saeta_pack(saeta_table* table, saeta_packed** packed);
/* The metadata belongs to the packed form. */
SAETA_C_API saeta_code saeta_packed_metadata(saeta_packed* packed, const void** metadata, size_t* bytes);
SAETA_C_API saeta_code saeta_packed_body(saeta_packed* packed, saeta_buffer** body);
/* Checks everything; the table shares the body. */
SAETA_C_API saeta_code saeta_unpack(saeta_context* context, const void* metadata, size_t bytes,
                                    saeta_buffer* body, saeta_table** table);

enum {
  SAETA_TIER_ANY = -1,
  SAETA_TIER_DEVICE = 0,
  SAETA_TIER_PINNED = 1,
  SAETA_TIER_PAGEABLE = 2,
  SAETA_TIER_FILE = 3
};

/* Keeps a table that may leave the device while nobody uses it. Lower priorities leave earlier. */
SAETA_C_API saeta_code saeta_spill_keep(saeta_context* context, saeta_table* table, int32_t priority,
                                        saeta_spill** spill);
/* The same, and says whether it leaves compressed where that makes it smaller: 0 or 1. */
SAETA_C_API saeta_code saeta_spill_keep_compressed(saeta_context* context, saeta_table* table,
                                                   int32_t priority, int32_t compress, saeta_spill** spill);
/* Bytes that it takes where it is now: fewer than those of its rows if it left compressed. */
SAETA_C_API saeta_code saeta_spill_stored_bytes(saeta_spill* spill, uint64_t* bytes);
/* Brings the table back, and keeps it on the device until the table is released. */
SAETA_C_API saeta_code saeta_spill_use(saeta_spill* spill, saeta_context* context, saeta_table** table);
/* Moves it to a tier now, or with SAETA_TIER_ANY to the first with room. moved_to may be NULL. */
SAETA_C_API saeta_code saeta_spill_move(saeta_spill* spill, int32_t tier, int32_t* moved_to);
SAETA_C_API saeta_code saeta_spill_tier(saeta_spill* spill, int32_t* tier);
/* Moves unused tables of the context until `bytes` have moved or none is left. moved may be NULL. */
SAETA_C_API saeta_code saeta_spill_unused(saeta_context* context, uint64_t bytes, uint64_t* moved);

/* ---- sharing between processes ---- */

/* Lets every process of the same user on this machine open a table, without a copy. The memory is kept until the
 * handle is released and no process has the table open. */
SAETA_C_API saeta_code saeta_share(saeta_table* table, saeta_shared** shared);
/* The token by which others open it: some hundred bytes, which belong to the handle. */
SAETA_C_API saeta_code saeta_shared_token(saeta_shared* shared, const void** token, size_t* bytes);
/* Opens a table that a process has shared, in a context of the device that has it, and checks everything. It is
 * a view of the shared memory, read-only. SAETA_CLOSED: it is not shared any more. SAETA_IO with EACCES: its
 * process is of another user. SAETA_EXCHANGE: the token is of another machine, or its process does not reply. */
SAETA_C_API saeta_code saeta_open_shared(saeta_context* context, const void* token, size_t bytes,
                                         saeta_table** table);

#ifdef __cplusplus
}
#endif

#endif /* SAETA_C_H */
