#include "unit/device/mock_backend.hpp"

namespace saeta::unit {

mock_backend::mock_backend() = default;

mock_backend::~mock_backend() = default;

} // namespace saeta::unit

template class ::testing::NiceMock<saeta::unit::mock_backend>;
template class ::testing::StrictMock<saeta::unit::mock_backend>;
