// A gmock backend. mock_backend.cpp instantiates gmock's code for its forty methods once for all tests,
// because compiling it takes longer than any test.
#pragma once

#include "saeta/device/backend.hpp"

#include <gmock/gmock.h>

namespace saeta::unit {

class mock_backend : public backend {
public:
  mock_backend();
  ~mock_backend() override;

  MOCK_METHOD(device_id, device, (), (const, noexcept, override));
  MOCK_METHOD(device_properties, properties, (), (const, override));
  MOCK_METHOD(const kernel_table&, kernels, (), (const, noexcept, override));

  MOCK_METHOD(stream_handle, create_stream, (), (override));
  MOCK_METHOD(void, destroy_stream, (stream_handle), (noexcept, override));
  MOCK_METHOD(std::uint64_t, stream_id, (stream_handle), (override));
  MOCK_METHOD(void, synchronize_stream, (stream_handle), (override));
  MOCK_METHOD(bool, stream_idle, (stream_handle), (override));
  MOCK_METHOD(bool, capturing, (stream_handle), (override));

  MOCK_METHOD(event_handle, create_event, (), (override));
  MOCK_METHOD(void, destroy_event, (event_handle), (noexcept, override));
  MOCK_METHOD(void, record_event, (event_handle, stream_handle), (override));
  MOCK_METHOD(fence_outcome, record_context, (event_handle), (override));
  MOCK_METHOD(void, wait_event, (stream_handle, event_handle), (override));
  MOCK_METHOD(bool, event_complete, (event_handle), (override));
  MOCK_METHOD(void, synchronize_event, (event_handle), (override));

  MOCK_METHOD(void*, allocate, (std::size_t, std::size_t), (override));
  MOCK_METHOD(bool, deallocate, (void*, std::size_t, std::size_t), (noexcept, override));
  MOCK_METHOD(void*, allocate_async, (std::size_t, stream_handle), (override));
  MOCK_METHOD(bool, deallocate_async, (void*, std::size_t, stream_handle), (noexcept, override));
  MOCK_METHOD(std::uint64_t, pool_bytes, (), (const, override));
  MOCK_METHOD(std::size_t, trim_pool, (std::size_t), (override));
  MOCK_METHOD(void, set_pool_threshold, (std::uint64_t), (override));
  MOCK_METHOD(std::shared_ptr<backend>, another, (), (override));
  MOCK_METHOD(void, make_pool_exportable, (), (override));
  MOCK_METHOD(bool, pool_exportable, (), (const, override));
  MOCK_METHOD(int, export_pool, (), (override));
  MOCK_METHOD(allocation_name, export_allocation, (const void*), (override));
  MOCK_METHOD(pool_handle, import_pool, (int), (override));
  MOCK_METHOD(void, release_pool, (pool_handle), (noexcept, override));
  MOCK_METHOD(void*, open_allocation, (pool_handle, const allocation_name&), (override));
  MOCK_METHOD(bool, close_allocation, (void*, stream_handle), (noexcept, override));
  MOCK_METHOD(void*, allocate_pinned, (std::size_t), (override));
  MOCK_METHOD(bool, deallocate_pinned, (void*, std::size_t), (noexcept, override));

  MOCK_METHOD(memory_kind, kind_of, (const void*), (const, override));

  MOCK_METHOD(bool, can_access_peer, (const backend&), (const, override));
  MOCK_METHOD(void, enable_peer_access, (backend&), (override));

  MOCK_METHOD(void, copy, (void*, const void*, std::size_t, copy_kind, stream_handle), (override));
  MOCK_METHOD(void, fill, (void*, std::uint8_t, std::size_t, stream_handle), (override));
  MOCK_METHOD(void, write_word, (std::uint32_t*, std::uint32_t, stream_handle), (override));
};

} // namespace saeta::unit

extern template class ::testing::NiceMock<saeta::unit::mock_backend>;
extern template class ::testing::StrictMock<saeta::unit::mock_backend>;
