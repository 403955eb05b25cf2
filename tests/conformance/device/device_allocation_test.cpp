// Allocation by backends (saeta/device/backend.hpp): direct, stream-ordered and page-locked.

#include "conformance/harness/backends.hpp"
#include "conformance/harness/device_memory.hpp"
#include "saeta/base/error.hpp"
#include "saeta/device/stream.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace saeta::conformance {
namespace {

using bytes = std::vector<std::uint8_t>;

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

class device_allocation : public backend_test {
protected:
  [[nodiscard]] stream_ref work() const { return work_.ref(); }
  [[nodiscard]] stream_handle handle() const { return work_.ref().native_handle(); }
  [[nodiscard]] bool on_host() const { return device().device().kind == device_kind::cpu; }
  [[nodiscard]] std::size_t own_alignment() const { return on_host() ? 64 : 256; }

  bytes read(const void* pointer, std::size_t size, stream_handle stream) {
    bytes content(size);
    device().copy(content.data(), pointer, size, copy_kind::device_to_host, stream);
    device().synchronize_stream(stream);
    return content;
  }
  /// `rounds` allocations of this size exceed a GPU.
  static constexpr int rounds = 20;
  std::size_t large() const {
    return device().device().kind == device_kind::cuda ? device().properties().free_bytes.value_or(0) / 16
                                                       : 16 << 20;
  }

private:
  stream work_{shared_device()};
};

TEST_P(device_allocation, is_aligned_and_honours_larger_alignments) {
  for (const std::size_t alignment :
       {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{256}, std::size_t{512},
        std::size_t{4096}, std::size_t{1} << 21, std::size_t{1} << 24}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
      void* const pointer = device().allocate(size, alignment);
      EXPECT_EQ(address(pointer) % std::max(alignment, own_alignment()), 0u)
          << size << " bytes to " << alignment;
      device().fill(pointer, 5, size, handle());
      EXPECT_EQ(read(pointer, size, handle()), bytes(size, 5));
      EXPECT_TRUE(device().deallocate(pointer, size, alignment));
    }
  }
}

TEST_P(device_allocation, over_aligned_blocks_do_not_overlap) {
  constexpr std::size_t alignment = 1 << 20;
  std::vector<void*> pointers;
  for (int i = 0; i < 8; ++i) {
    pointers.push_back(device().allocate(100, alignment));
  }
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    device().fill(pointers[i], static_cast<std::uint8_t>(i), 100, handle());
  }
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    EXPECT_EQ(read(pointers[i], 100, handle()), bytes(100, static_cast<std::uint8_t>(i)));
  }
  for (void* const pointer : pointers) {
    EXPECT_TRUE(device().deallocate(pointer, 100, alignment));
  }
}

TEST_P(device_allocation, a_request_beyond_the_device_throws_out_of_memory) {
  constexpr std::size_t too_much = std::numeric_limits<std::size_t>::max() / 8;
  const auto expect_refused = [&](auto allocate) {
    try {
      allocate();
      ADD_FAILURE() << "allocated " << too_much << " bytes";
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::out_of_memory) << refused.what();
      EXPECT_NE(refused.message().find(std::to_string(too_much)), std::string::npos) << refused.what();
    }
  };
  expect_refused([&] { return device().allocate(too_much, 256); });
  expect_refused([&] { return device().allocate_async(too_much, handle()); });

  const device_memory usable(work(), bytes(1000, 4));
  EXPECT_EQ(usable.download(), bytes(1000, 4));
}

TEST_P(device_allocation, freed_memory_can_be_allocated_again) {
  const std::size_t size = large();
  for (int round = 0; round < rounds; ++round) {
    void* const pointer = device().allocate(size, 0);
    EXPECT_TRUE(device().deallocate(pointer, size, 0));
  }
}

TEST_P(device_allocation, freed_stream_ordered_memory_can_be_allocated_again) {
  const std::size_t size = large();
  for (int round = 0; round < rounds; ++round) {
    void* const pointer = device().allocate_async(size, handle());
    EXPECT_TRUE(device().deallocate_async(pointer, size, handle()));
  }
  device().synchronize_stream(handle());
  device().trim_pool(0);
  void* const pointer = device().allocate(size, 0); // fails if the pool keeps the memory
  EXPECT_TRUE(device().deallocate(pointer, size, 0));
}

TEST_P(device_allocation, stream_ordered_memory_is_aligned_and_usable_at_once_on_its_stream) {
  const auto held = close_gate(handle());
  std::vector<void*> pointers;
  for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{5000}}) {
    void* const pointer = device().allocate_async(size, handle());
    EXPECT_EQ(address(pointer) % own_alignment(), 0u);
    device().fill(pointer, 3, size, handle());
    pointers.push_back(pointer);
  }
  if (held) {
    held->open();
  }
  EXPECT_EQ(read(pointers[0], 1, handle()), bytes(1, 3));
  EXPECT_EQ(read(pointers[1], 100, handle()), bytes(100, 3));
  EXPECT_EQ(read(pointers[2], 5000, handle()), bytes(5000, 3));
  EXPECT_TRUE(device().deallocate_async(pointers[0], 1, handle()));
  EXPECT_TRUE(device().deallocate_async(pointers[1], 100, handle()));
  EXPECT_TRUE(device().deallocate_async(pointers[2], 5000, handle()));
}

TEST_P(device_allocation, stream_ordered_memory_can_be_used_on_another_stream_after_an_event) {
  constexpr std::size_t size = 1 << 20;
  const stream other(shared_device());
  const event allocated(shared_device());
  const event used(shared_device());

  void* const pointer = device().allocate_async(size, handle());
  device().fill(pointer, 1, size, handle());
  allocated.ref().record(work());
  other.ref().wait(allocated.ref());
  device().fill(pointer, 2, size, other.ref().native_handle());
  used.ref().record(other.ref());
  work().wait(used.ref());
  const bytes content = read(pointer, size, handle());
  EXPECT_TRUE(device().deallocate_async(pointer, size, handle()));

  EXPECT_EQ(content, bytes(size, 2));
}

TEST_P(device_allocation, a_stream_ordered_free_waits_for_earlier_work) {
  constexpr std::size_t size = 4 << 20;
  const device_memory copied(work(), bytes(size, 0));
  void* const first = device().allocate_async(size, handle());
  device().fill(first, 1, size, handle());
  device().copy(copied.data(), first, size, copy_kind::device_to_device, handle());
  EXPECT_TRUE(device().deallocate_async(first, size, handle()));
  void* const second = device().allocate_async(size, handle()); // usually at the same address
  device().fill(second, 2, size, handle());
  EXPECT_TRUE(device().deallocate_async(second, size, handle()));

  EXPECT_EQ(copied.download(), bytes(size, 1));
}

TEST_P(device_allocation, unused_memory_beyond_the_threshold_is_released_at_a_synchronisation) {
  constexpr std::size_t size = 256 << 20;
  const auto unused_after_a_wait = [&](std::uint64_t threshold) {
    device().set_pool_threshold(threshold);
    void* const freed = device().allocate_async(size, handle());
    EXPECT_TRUE(device().deallocate_async(freed, size, handle()));
    device().synchronize_stream(handle());
    return device().trim_pool(0);
  };
  EXPECT_EQ(unused_after_a_wait(0), 0u);
  EXPECT_GE(unused_after_a_wait(std::numeric_limits<std::uint64_t>::max()), on_host() ? 0 : size);
}

TEST_P(device_allocation, of_sizes_near_the_largest_size_t_is_refused) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t size : {most, most - 63, most - 255}) {
    EXPECT_THROW(static_cast<void>(device().allocate(size, 256)), error) << size;
    EXPECT_THROW(static_cast<void>(device().allocate_async(size, handle())), error) << size;
    EXPECT_THROW(static_cast<void>(device().allocate_pinned(size)), error) << size;
  }
}

TEST_P(device_allocation, trimming_releases_only_unused_memory) {
  constexpr std::size_t size = 256 << 20;
  void* const kept = device().allocate_async(1000, handle());
  device().fill(kept, 6, 1000, handle());
  void* const unused = device().allocate_async(size, handle());
  EXPECT_TRUE(device().deallocate_async(unused, size, handle()));
  device().synchronize_stream(handle());

  EXPECT_EQ(device().trim_pool(std::numeric_limits<std::size_t>::max()), 0u) << "asked to keep everything";
  const std::size_t trimmed = device().trim_pool(0);
  if (on_host()) {
    EXPECT_EQ(trimmed, 0u) << "there is no pool on the host";
  } else {
    EXPECT_GE(trimmed, size / 2) << "a pool may keep what lies beside memory in use";
  }
  EXPECT_EQ(device().trim_pool(0), 0u);
  EXPECT_EQ(read(kept, 1000, handle()), bytes(1000, 6));
  EXPECT_TRUE(device().deallocate_async(kept, 1000, handle()));
}

TEST_P(device_allocation, pinned_memory_is_aligned_and_accessible_by_host_and_device) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, std::size_t{8} << 20}) {
    auto* const pinned = static_cast<std::uint8_t*>(device().allocate_pinned(size));
    EXPECT_EQ(address(pinned) % 256, 0u);
    std::fill_n(pinned, size, std::uint8_t{21});
    const device_memory target(work(), bytes(size, 0));

    device().copy(target.data(), pinned, size, copy_kind::host_to_device, handle());
    EXPECT_EQ(target.download(), bytes(size, 21));

    device().fill(target.data(), 22, size, handle());
    device().copy(pinned, target.data(), size, copy_kind::device_to_host, handle());
    device().synchronize_stream(handle());
    EXPECT_EQ(bytes(pinned, pinned + size), bytes(size, 22));
    EXPECT_TRUE(device().deallocate_pinned(pinned, size));
  }
}

TEST_P(device_allocation, the_kind_of_memory_at_an_address_is_known) {
  const bool on_host = device().device().kind == device_kind::cpu;
  const std::array<std::byte, 64> ordinary{};
  void* const direct = device().allocate(1000, 0);
  void* const pooled = device().allocate_async(1000, handle());
  void* const pinned = device().allocate_pinned(1000);
  const memory_kind own = on_host ? memory_kind::host : memory_kind::device;
  for (const std::size_t offset : {std::size_t{0}, std::size_t{999}}) {
    EXPECT_EQ(device().kind_of(static_cast<std::byte*>(direct) + offset), own);
    EXPECT_EQ(device().kind_of(static_cast<std::byte*>(pooled) + offset), own);
    EXPECT_EQ(device().kind_of(static_cast<std::byte*>(pinned) + offset),
              on_host ? memory_kind::host : memory_kind::pinned);
  }
  EXPECT_EQ(device().kind_of(ordinary.data()), memory_kind::host);
  EXPECT_EQ(device().kind_of(nullptr), memory_kind::host);
  EXPECT_TRUE(device().deallocate(direct, 1000, 0));
  EXPECT_TRUE(device().deallocate_async(pooled, 1000, handle()));
  EXPECT_TRUE(device().deallocate_pinned(pinned, 1000));
}

TEST_P(device_allocation, a_copy_between_pinned_memory_and_the_device_is_asynchronous) {
  constexpr std::size_t size = 1 << 20;
  auto* const pinned = static_cast<std::uint8_t*>(device().allocate_pinned(size));
  std::fill_n(pinned, size, std::uint8_t{31});
  {
    const device_memory target(work(), bytes(size, 0));
    const event copied(shared_device());
    const auto held = close_gate(handle());
    device().copy(target.data(), pinned, size, copy_kind::host_to_device, handle());
    copied.ref().record(work());
    if (held) {
      EXPECT_FALSE(copied.ref().complete());
      held->open();
    }
    copied.ref().synchronize();
    EXPECT_EQ(target.download(), bytes(size, 31));
  }
  EXPECT_TRUE(device().deallocate_pinned(pinned, size));
}

SAETA_CONFORMANCE_SUITE(device_allocation);

} // namespace
} // namespace saeta::conformance
