#include "saeta/base/process.hpp"

#include <pthread.h>

namespace saeta {

constinit std::atomic<std::uint64_t> detail::forks{0};

namespace {

[[maybe_unused]] const int watching =
    ::pthread_atfork(nullptr, nullptr, [] { detail::forks.fetch_add(1, std::memory_order_relaxed); });

} // namespace
} // namespace saeta
