// Uploads from a mapped file when reads are interrupted or return fewer bytes than requested.

#include "pread_trap.hpp"
#include "saeta/backend/host/host_backend.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "support/random_bytes.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include <unistd.h>

namespace saeta {
namespace {

TEST(mapped_region, is_read_completely_despite_interrupted_and_short_reads) {
  const auto content = support::random_bytes(100'000, 3);
  char name[] = "/tmp/saeta-region-XXXXXX";
  const int descriptor = ::mkstemp(name);
  ASSERT_GE(descriptor, 0);
  ::unlink(name);
  ASSERT_EQ(::write(descriptor, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  const std::vector<std::byte> stand_in(content.size()); // never read: bytes come from the file
  transfer_plan plan(stand_in);
  const auto whole = plan.add(stand_in);
  plan.finish();
  const auto ctx = context::create(make_host_backend());
  {
    const support::pread_trap trap([](std::size_t number) {
      return number % 2 == 0 ? support::pread_trap::verdict{EINTR} : support::pread_trap::verdict{0, 7'001};
    });
    const buffer slab =
        staging_ring::of(ctx)->upload(ctx, plan, "file", {stand_in.data(), stand_in.size(), descriptor, 0});
    EXPECT_GT(trap.calls(), 20U);
    const auto* const seen = reinterpret_cast<const std::byte*>(slab.address()) + plan.target_of(whole);
    EXPECT_EQ(std::memcmp(seen, content.data(), content.size()), 0);
  }
  ::close(descriptor);
}

} // namespace
} // namespace saeta
