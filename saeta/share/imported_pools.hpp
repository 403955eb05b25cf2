// Device memory of other processes. Each of their memory pools is imported once, which takes milliseconds.
#pragma once

#include "saeta/memory/context.hpp"
#include "saeta/share/lease.hpp"
#include "saeta/share/share_token.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saeta::sharing {

/// Opens bytes that another process shares as writable external memory of `home`.
/// @param shared  what the other process said about them, as it made it of `shared_bytes`
/// @param held  the lease, which ends after their last use
[[nodiscard]] buffer open_device_bytes(const std::shared_ptr<context>& home, const share_token& token,
                                       std::span<const std::byte> shared, std::shared_ptr<lease> held,
                                       std::string tag);

/// The brokers whose pools are imported for the device. A pool is dropped when the process that has it ends,
/// and with the contexts of the device.
[[nodiscard]] std::vector<std::string> imported_brokers(const context& home);

} // namespace saeta::sharing
