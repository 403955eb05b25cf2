// A system that starts no further thread.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>

#include <pthread.h>

namespace saeta::support {

/// While it lives, no stack of a new thread fits into the address space.
class without_threads {
public:
  without_threads() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(::pthread_attr_init(&huge), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47U), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  without_threads(const without_threads&) = delete;
  without_threads& operator=(const without_threads&) = delete;
  ~without_threads() {
    EXPECT_EQ(::pthread_setattr_default_np(&before_), 0);
    ::pthread_attr_destroy(&before_);
  }

private:
  pthread_attr_t before_{};
};

} // namespace saeta::support
