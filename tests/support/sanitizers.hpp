// Macros for the sanitizer that the program is built with. GCC and clang announce it in different ways.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define SAETA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SAETA_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define SAETA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SAETA_THREAD_SANITIZER 1
#endif
#endif
