// Makes the allocators of sanitizers return null when memory is exhausted, as malloc does, and lets a child of fork
// start threads. Tests do both.

extern "C" {
const char* __asan_default_options();
const char* __tsan_default_options();

const char* __asan_default_options() { return "allocator_may_return_null=1"; }
const char* __tsan_default_options() { return "allocator_may_return_null=1:die_after_fork=0"; }
}
