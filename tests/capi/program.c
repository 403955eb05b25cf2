/* A program in plain C11 that uses every part of saeta.h, and counts what it did not give back. */
#include "saeta/capi/saeta.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static int failures = 0;

static void expect_at(int line, int holds, const char* what) {
  if (!holds) {
    fprintf(stderr, "line %d: %s\n  last error: %s: %s\n", line, what,
            saeta_code_name(saeta_last_error()->code), saeta_last_error()->message);
    ++failures;
  }
}

#define EXPECT(condition) expect_at(__LINE__, (condition), #condition)
#define DO(call) expect_at(__LINE__, (call) == SAETA_OK, #call)
#define REFUSED(refusal, call)                                                                               \
  expect_at(__LINE__, (call) == (refusal) && saeta_last_error()->code == (refusal), #call)

/* ---- a producer of one batch: {"count": int64, "city": string} ---- */

enum { ROWS = 4 };
static const int64_t counts[ROWS] = {7, 8, 9, 10};
static const int32_t ends[ROWS + 1] = {0, 4, 4, 9, 12};
static const char letters[] = "LimaQuitoRio";
static const uint8_t valid[1] = {0x0d}; /* row 1 is null */

static int live_structs = 0;

static void end_schema(struct ArrowSchema* of) {
  for (int64_t i = 0; i < of->n_children; ++i) {
    free(of->children[i]);
  }
  free(of->children);
  of->release = NULL;
  --live_structs;
}

static void end_array(struct ArrowArray* of) {
  for (int64_t i = 0; i < of->n_children; ++i) {
    free(of->children[i]->buffers);
    free(of->children[i]);
  }
  free(of->children);
  free(of->buffers);
  of->release = NULL;
  --live_structs;
}

static void* cleared(size_t count, size_t bytes) {
  void* made = calloc(count, bytes);
  if (made == NULL) {
    abort();
  }
  return made;
}

static void make_schema(struct ArrowSchema* out) {
  static const char* const formats[2] = {"l", "u"};
  static const char* const names[2] = {"count", "city"};
  memset(out, 0, sizeof *out);
  out->format = "+s";
  out->name = "";
  out->n_children = 2;
  out->children = cleared(2, sizeof *out->children);
  for (int i = 0; i < 2; ++i) {
    out->children[i] = cleared(1, sizeof **out->children);
    out->children[i]->format = formats[i];
    out->children[i]->name = names[i];
    out->children[i]->flags = ARROW_FLAG_NULLABLE;
    out->children[i]->release = end_schema; /* never called: the parent frees it */
  }
  out->release = end_schema;
  ++live_structs;
}

static void make_array(struct ArrowArray* out) {
  memset(out, 0, sizeof *out);
  out->length = ROWS;
  out->n_buffers = 1;
  out->buffers = cleared(1, sizeof *out->buffers);
  out->n_children = 2;
  out->children = cleared(2, sizeof *out->children);
  for (int i = 0; i < 2; ++i) {
    struct ArrowArray* child = out->children[i] = cleared(1, sizeof *child);
    child->length = ROWS;
    child->n_buffers = 2 + i;
    child->buffers = cleared(3, sizeof *child->buffers);
    child->release = end_array;
  }
  out->children[0]->buffers[1] = counts;
  out->children[1]->null_count = 1;
  out->children[1]->buffers[0] = valid;
  out->children[1]->buffers[1] = ends;
  out->children[1]->buffers[2] = letters;
  out->release = end_array;
  ++live_structs;
}

static int given_batches = 0;

static int give_schema(struct ArrowArrayStream* stream, struct ArrowSchema* out) {
  (void)stream;
  make_schema(out);
  return 0;
}

static int give_next(struct ArrowArrayStream* stream, struct ArrowArray* out) {
  (void)stream;
  if (given_batches++ < 2) {
    make_array(out);
  } else {
    memset(out, 0, sizeof *out);
  }
  return 0;
}

static const char* give_error(struct ArrowArrayStream* stream) {
  (void)stream;
  return NULL;
}

static void end_stream(struct ArrowArrayStream* stream) {
  stream->release = NULL;
  --live_structs;
}

static saeta_table* stream_of_two_batches(saeta_context* ctx) {
  struct ArrowArrayStream stream = {give_schema, give_next, give_error, end_stream, NULL};
  saeta_table* made = NULL;
  given_batches = 0;
  ++live_structs;
  DO(saeta_table_import_stream(ctx, &stream, &made));
  EXPECT(stream.release == NULL);
  return made;
}

/* ---- the tests ---- */

static void test_contexts(saeta_context* ctx) {
  saeta_context* part = NULL;
  saeta_context* promised = NULL;
  saeta_buffer* room = NULL;
  saeta_memory seen = SAETA_MEMORY;
  int64_t stream = -1;
  uint64_t freed = 1;
  DO(saeta_context_child(ctx, "part", 4096, &part));
  DO(saeta_buffer_allocate(part, 3000, 1, "most", &room));
  DO(saeta_context_memory(part, &seen));
  EXPECT(seen.current == 3000 && seen.limit == 4096 && seen.remaining == 1096);
  {
    saeta_buffer* more = room;
    const saeta_error* why = saeta_last_error();
    REFUSED(SAETA_BUDGET_EXCEEDED, saeta_buffer_allocate(part, 250, 8, "more", &more));
    EXPECT(more == NULL);
    EXPECT(why->requested == 2000 && why->current == 3000 && why->limit == 4096 && why->remaining == 1096);
    EXPECT(strstr(why->message, "2000 bytes") != NULL);
    REFUSED(SAETA_OVERFLOW, saeta_buffer_allocate(part, UINT64_MAX / 4, 8, NULL, &more));
    EXPECT(saeta_last_error()->requested == 0);
  }
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_context_set_budget(part, 100));
  DO(saeta_context_set_budget(part, 8192));
  DO(saeta_context_reserve(part, 5000, &promised));
  DO(saeta_context_memory(part, &seen));
  EXPECT(seen.reserved == 5000);
  DO(saeta_context_stream(part, &stream));
  EXPECT(stream == 0);
  DO(saeta_context_synchronize(part));
  DO(saeta_context_trim(part, &freed));
  DO(saeta_context_trim(part, NULL));
  DO(saeta_release(promised));
  DO(saeta_release(part));
  DO(saeta_release(room)); /* outlives its context */
}

static void test_buffers(saeta_context* ctx) {
  double numbers[4] = {1, 2, 3, 4};
  saeta_buffer* whole = NULL;
  saeta_buffer* half = NULL;
  saeta_use* use = NULL;
  void* at = NULL;
  uint64_t bytes = 0;
  uint64_t count = 0;
  const int32_t modes[2] = {SAETA_READ_WRITE, SAETA_READ};
  DO(saeta_buffer_allocate(ctx, 4, sizeof(double), "numbers", &whole));
  DO(saeta_buffer_size(whole, &bytes));
  EXPECT(bytes == 32);
  DO(saeta_buffer_write(whole, 0, numbers, sizeof numbers));
  DO(saeta_buffer_slice(whole, 16, 16, &half));
  REFUSED(SAETA_OUT_OF_RANGE, saeta_buffer_write(half, 8, numbers, 16));
  saeta_buffer* used[2];
  used[0] = whole;
  used[1] = half;
  DO(saeta_use_begin(ctx, 0, used, modes, 2, &use));
  DO(saeta_use_address(use, half, SAETA_WRITE, sizeof(double), &at, &count));
  EXPECT(count == 2);
  ((double*)at)[0] *= 10;
  REFUSED(SAETA_BUSY, saeta_buffer_read(whole, 0, numbers, 8)); /* this thread already writes */
  DO(saeta_use_end(use));
  REFUSED(SAETA_CLOSED, saeta_use_address(use, half, SAETA_READ, 1, &at, NULL));
  DO(saeta_release(use));
  DO(saeta_buffer_read(whole, 0, numbers, sizeof numbers));
  EXPECT(fabs(numbers[2] - 30) < 1e-9 && fabs(numbers[3] - 4) < 1e-9);
  REFUSED(SAETA_INVALID_ARGUMENT,
          saeta_use_begin(ctx, 7, used, modes, 2, &use)); /* the host has no streams */
  EXPECT(use == NULL);
  DO(saeta_release(half));
  DO(saeta_release(whole));
}

static void test_exchange(saeta_context* ctx) {
  saeta_table* table = stream_of_two_batches(ctx);
  saeta_table* part = NULL;
  saeta_table* again = NULL;
  saeta_table* one = NULL;
  saeta_buffer* values = NULL;
  const char* names[1] = {"city"};
  const char* name = NULL;
  struct ArrowSchema schema;
  struct ArrowArray array;
  struct ArrowArrayStream stream;
  struct ArrowDeviceArray there;
  struct ArrowDeviceArrayStream device_stream;
  struct DLManagedTensorVersioned* tensor = NULL;
  int64_t rows = 0;
  int64_t offset = -1;
  uint64_t number = 0;
  int64_t seen[ROWS];
  DO(saeta_table_rows(table, &rows));
  EXPECT(rows == 2 * ROWS);
  DO(saeta_table_columns(table, &number));
  EXPECT(number == 2);
  DO(saeta_table_batches(table, &number));
  EXPECT(number == 2);
  DO(saeta_table_bytes(table, &number));
  EXPECT(number > 0);
  DO(saeta_table_column_name(table, 1, &name));
  EXPECT(strcmp(name, "city") == 0);
  REFUSED(SAETA_OUT_OF_RANGE, saeta_table_column_name(table, 2, &name));
  DO(saeta_table_slice(table, 5, 2, &part));
  DO(saeta_table_buffer(part, 0, "count", 1, &values, &offset));
  EXPECT(offset == 1);
  DO(saeta_buffer_read(values, 0, seen, sizeof seen));
  EXPECT(seen[offset] == 8);
  DO(saeta_release(values));
  DO(saeta_release(part));
  DO(saeta_table_select(table, names, 1, &part));
  names[0] = "town";
  REFUSED(SAETA_COLUMN_NAME, saeta_table_select(table, names, 1, &again));

  DO(saeta_table_export_schema(part, &schema));
  DO(saeta_table_export_array(part, 1, &array));
  EXPECT(schema.n_children == 1 && array.length == ROWS && array.children[0]->n_buffers == 3);
  REFUSED(SAETA_OUT_OF_RANGE, saeta_table_export_array(part, 2, &array));
  DO(saeta_table_import_array(ctx, &schema, &array, &again));
  EXPECT(array.release == NULL && schema.release != NULL);
  REFUSED(SAETA_CLOSED, saeta_table_import_array(ctx, &schema, &array, &one));
  DO(saeta_release(again));
  DO(saeta_table_export_device_array(part, 0, &there));
  DO(saeta_table_import_device_array(ctx, &schema, &there, &again));
  schema.release(&schema);
  DO(saeta_release(again));
  DO(saeta_release(part));

  DO(saeta_table_export_stream(table, &stream));
  DO(saeta_table_import_stream(ctx, &stream, &again));
  DO(saeta_table_copy_to(again, ctx, &part));
  DO(saeta_release(again));
  DO(saeta_release(part));
  DO(saeta_table_export_device_stream(table, &device_stream));
  DO(saeta_table_import_device_stream(ctx, &device_stream, &again));
  DO(saeta_release(again));

  REFUSED(SAETA_EXCHANGE, saeta_table_export_dlpack(table, "count", 0, &tensor)); /* two batches */
  EXPECT(tensor == NULL);
  DO(saeta_table_slice(table, 0, ROWS, &one));
  DO(saeta_table_export_dlpack(one, "count", 0, &tensor));
  DO(saeta_table_import_dlpack(ctx, tensor, "again", &again));
  DO(saeta_table_column_name(again, 0, &name));
  EXPECT(strcmp(name, "again") == 0);
  DO(saeta_table_export_dlpack(again, NULL, 0, &tensor));
  DO(saeta_release(again));
  DO(saeta_table_import_dlpack(ctx, tensor, NULL, &again));
  DO(saeta_table_rows(again, &rows));
  EXPECT(rows == ROWS);
  DO(saeta_release(again));
  DO(saeta_release(one));
  DO(saeta_release(table));
}

static void test_files(saeta_context* ctx, const char* folder) {
  char path[4096];
  char second[4096];
  saeta_table* table = stream_of_two_batches(ctx);
  saeta_table* read = NULL;
  saeta_scan* scan = NULL;
  saeta_writer* writer = NULL;
  saeta_read_options reading = SAETA_READ_OPTIONS;
  saeta_write_options writing = SAETA_WRITE_OPTIONS;
  const char* columns[1] = {"city"};
  const char* paths[2];
  uint64_t bytes = 0;
  int64_t rows = 0;
  int64_t all = 0;
  snprintf(path, sizeof path, "%s/first.arrow", folder);
  snprintf(second, sizeof second, "%s/second.arrow", folder);
  writing.durable = 0;
  DO(saeta_write(table, path, &writing, &bytes));
  EXPECT(bytes > 100);
  writing.compression = SAETA_ZSTD;
  DO(saeta_writer_open(second, &writing, &writer));
  DO(saeta_writer_write(writer, table));
  DO(saeta_writer_write(writer, table));
  DO(saeta_writer_close(writer, &bytes));
  REFUSED(SAETA_CLOSED, saeta_writer_write(writer, table));
  DO(saeta_release(writer));
  writing.compression = 9;
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_writer_open(second, &writing, &writer));

  reading.columns = columns;
  reading.column_count = 1;
  DO(saeta_read(ctx, path, &reading, &read));
  DO(saeta_table_columns(read, &bytes));
  EXPECT(bytes == 1);
  DO(saeta_release(read));
  REFUSED(SAETA_IO, saeta_read(ctx, folder, NULL, &read));
  snprintf(path, sizeof path, "%s/absent.arrow", folder);
  REFUSED(SAETA_IO, saeta_read(ctx, path, NULL, &read));
  EXPECT(saeta_last_error()->error_number != 0);
  snprintf(path, sizeof path, "%s/first.arrow", folder);

  paths[0] = path;
  paths[1] = second;
  for (int copies = 0; copies < 2; ++copies) {
    saeta_read_options windows = SAETA_READ_OPTIONS;
    windows.copy = copies;
    windows.batch_rows = 3;
    all = 0;
    DO(saeta_scan_open(ctx, paths, 2, &windows, &scan));
    for (;;) {
      DO(saeta_scan_next(scan, &read));
      if (read == NULL) {
        break;
      }
      DO(saeta_table_rows(read, &rows));
      EXPECT(rows <= 3);
      all += rows;
      DO(saeta_release(read));
    }
    EXPECT(all == 6 * ROWS);
    DO(saeta_release(scan));
  }
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_scan_open(ctx, paths, 0, NULL, &scan));
  DO(saeta_release(table));
}

static void test_packing_and_spilling(saeta_context* ctx) {
  saeta_table* table = stream_of_two_batches(ctx);
  saeta_table* again = NULL;
  saeta_packed* packed = NULL;
  saeta_buffer* body = NULL;
  saeta_spill* kept = NULL;
  const void* metadata = NULL;
  size_t bytes = 0;
  int64_t rows = 0;
  int32_t tier = -7;
  uint64_t moved = 1;
  DO(saeta_pack(table, &packed));
  DO(saeta_packed_metadata(packed, &metadata, &bytes));
  DO(saeta_packed_body(packed, &body));
  DO(saeta_unpack(ctx, metadata, bytes, body, &again));
  DO(saeta_table_rows(again, &rows));
  EXPECT(rows == 2 * ROWS);
  DO(saeta_release(again));
  REFUSED(SAETA_FORMAT, saeta_unpack(ctx, metadata, bytes / 2, body, &again));
  DO(saeta_release(body));
  DO(saeta_release(packed));

  DO(saeta_spill_keep(ctx, table, 1, &kept));
  DO(saeta_release(table));
  DO(saeta_spill_tier(kept, &tier));
  EXPECT(tier == SAETA_TIER_DEVICE);
  DO(saeta_spill_use(kept, ctx, &table));
  REFUSED(SAETA_BUSY, saeta_spill_move(kept, SAETA_TIER_ANY, NULL));
  DO(saeta_release(table));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_spill_move(kept, 4, &tier));
  DO(saeta_spill_unused(ctx, 1, &moved));
  DO(saeta_spill_use(kept, ctx, &table));
  DO(saeta_table_rows(table, &rows));
  EXPECT(rows == 2 * ROWS);
  DO(saeta_release(kept));

  REFUSED(SAETA_INVALID_ARGUMENT, saeta_spill_keep_compressed(ctx, table, 0, 2, &kept));
  DO(saeta_spill_keep_compressed(ctx, table, 0, 1, &kept));
  DO(saeta_release(table));
  DO(saeta_spill_unused(ctx, 1, NULL));
  DO(saeta_spill_stored_bytes(kept, &moved));
  EXPECT(moved != 0);
  DO(saeta_spill_use(kept, ctx, &table));
  DO(saeta_table_rows(table, &rows));
  EXPECT(rows == 2 * ROWS);
  DO(saeta_release(kept));
  DO(saeta_release(table));
}

/* Opens a shared table, in a process that was started for it. Returns the exit code. */
static int open_in_this_process(const char* token) {
  unsigned char bytes[1024];
  size_t size = 0;
  int64_t rows = 0;
  saeta_context* ctx = NULL;
  saeta_table* table = NULL;
  for (; size < sizeof bytes && token[2 * size] != '\0'; ++size) {
    unsigned int value = 0;
    if (sscanf(token + 2 * size, "%2x", &value) != 1) {
      return 2;
    }
    bytes[size] = (unsigned char)value;
  }
  DO(saeta_context_open("host", NULL, &ctx));
  DO(saeta_open_shared(ctx, bytes, size, &table));
  DO(saeta_table_rows(table, &rows));
  EXPECT(rows == 2 * ROWS);
  DO(saeta_release(table));
  DO(saeta_release(ctx));
  return failures;
}

/* Another process opens the table, and then this one. */
static void test_sharing(saeta_context* ctx, char* program) {
  saeta_table* table = stream_of_two_batches(ctx);
  saeta_table* opened = NULL;
  saeta_shared* shared = NULL;
  const void* token = NULL;
  const struct timespec pause = {.tv_sec = 0, .tv_nsec = 10000000};
  unsigned char kept[1024];
  char text[2 * sizeof kept + 1];
  char* arguments[] = {program, "--open", text, NULL};
  size_t bytes = 0;
  int64_t rows = 0;
  int status = -1;
  pid_t child = -1;
  DO(saeta_share(table, &shared));
  DO(saeta_release(table));
  DO(saeta_shared_token(shared, &token, &bytes));
  EXPECT(bytes < 200);
  memcpy(kept, token, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    snprintf(text + 2 * i, 3, "%02x", kept[i]);
  }
  child = fork();
  if (child == 0) {
    execv(program, arguments);
    _exit(2);
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  DO(saeta_open_shared(ctx, token, bytes, &opened));
  DO(saeta_table_rows(opened, &rows));
  EXPECT(rows == 2 * ROWS);
  DO(saeta_release(opened));
  REFUSED(SAETA_FORMAT, saeta_open_shared(ctx, token, bytes - 1, &opened));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_open_shared(ctx, NULL, 0, &opened));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_shared_token(shared, NULL, &bytes));
  DO(saeta_release(shared));
  /* The end of the other process is noticed a moment later. */
  for (int tries = 0; tries < 1000 && saeta_open_shared(ctx, kept, bytes, &opened) == SAETA_OK; ++tries) {
    DO(saeta_release(opened));
    thrd_sleep(&pause, NULL);
  }
  EXPECT(opened == NULL && saeta_last_error()->code == SAETA_CLOSED);
}

static void test_misuse(saeta_context* ctx) {
  saeta_table* table = stream_of_two_batches(ctx);
  saeta_table* result = table;
  saeta_context_options old = SAETA_CONTEXT_OPTIONS;
  saeta_context* opened = NULL;
  saeta_memory small = SAETA_MEMORY;
  int64_t rows = 0;
  int local = 0;
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_table_rows(NULL, &rows));
  EXPECT(strcmp(saeta_last_error()->message, "the argument 'table' is null") == 0);
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_table_rows(table, NULL));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_table_rows((saeta_table*)(void*)ctx, &rows));
  EXPECT(strstr(saeta_last_error()->message, "is the handle of a context, expected a table") != NULL);
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_table_rows((saeta_table*)(void*)&local, &rows));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_context_trim((saeta_context*)(void*)table, NULL));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_table_slice(table, 0, 1, NULL));
  REFUSED(SAETA_OUT_OF_RANGE, saeta_table_slice(table, -1, 1, &result));
  EXPECT(result == NULL);
  DO(saeta_release(table));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_table_rows(table, &rows));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_release(table));
  DO(saeta_release(NULL));
  REFUSED(SAETA_DEVICE, saeta_context_open("cuda:99", NULL, &opened));
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_context_open("gpu", NULL, &opened));
  old.struct_size = 0;
  REFUSED(SAETA_INVALID_ARGUMENT, saeta_context_open("host", &old, &opened));
  old.struct_size = offsetof(saeta_context_options, stack); /* as from a version without the members behind */
  old.stack = "no stack at all";
  DO(saeta_context_open("host", &old, &opened));
  DO(saeta_release(opened));
  small.struct_size = offsetof(saeta_memory, held);
  small.held = 77;
  DO(saeta_context_memory(ctx, &small));
  EXPECT(small.held == 77 && small.struct_size == offsetof(saeta_memory, held));
  {
    saeta_counters counted = SAETA_COUNTERS;
    DO(saeta_context_reset_counters(ctx));
    DO(saeta_context_counters(ctx, &counted));
    EXPECT(counted.allocations == 0);
  }
}

int main(int argc, char** argv) {
  saeta_context* ctx = NULL;
  uint64_t handles = 1;
  if (argc == 3 && strcmp(argv[1], "--open") == 0) {
    return open_in_this_process(argv[2]);
  }
  if (argc != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  EXPECT(saeta_c_version() == SAETA_C_VERSION);
  EXPECT(strlen(saeta_version()) >= 5);
  EXPECT(strcmp(saeta_code_name(SAETA_BUDGET_EXCEEDED), "budget_exceeded") == 0);
  EXPECT(strcmp(saeta_code_name(99), "unknown") == 0);
  EXPECT(saeta_last_error()->code == SAETA_OK && saeta_last_error()->message != NULL);
  DO(saeta_context_open("host", NULL, &ctx));
  test_contexts(ctx);
  test_buffers(ctx);
  test_exchange(ctx);
  test_files(ctx, argv[1]);
  test_packing_and_spilling(ctx);
  test_sharing(ctx, argv[0]);
  test_misuse(ctx);
  DO(saeta_release(ctx));
  DO(saeta_count_handles(&handles));
  EXPECT(handles == 0);
  EXPECT(live_structs == 0);
  return failures == 0 ? 0 : 1;
}
