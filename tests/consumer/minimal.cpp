// A minimal program: lists devices, writes a buffer under a budget with a use token, and provokes a refusal.
#include "saeta/base/text.hpp"
#include "saeta/base/version.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/runtime/runtime.hpp"

#include <cstdint>
#include <exception>
#include <iostream>

namespace {

constexpr std::uint64_t limit = std::uint64_t{1} << 20;

bool refused(const std::shared_ptr<saeta::context>& ctx, std::size_t bytes) {
  try {
    static_cast<void>(saeta::buffer::allocate(ctx, bytes, ctx->work_stream()));
    return false;
  } catch (const saeta::error& refusal) {
    std::cout << refusal.what() << '\n';
    return refusal.refusal() != nullptr && refusal.refusal()->requested == bytes;
  }
}

} // namespace

int main() {
  try {
    std::cout << "saeta " << saeta::version << '\n';
    for (const saeta::device_entry& entry : saeta::devices()) {
      std::cout << saeta::to_string(entry.id) << ": " << entry.properties.name << ", "
                << saeta::human_bytes(entry.properties.total_bytes) << '\n';
    }

    const auto ctx = saeta::open_context(saeta::best_device(), limit);
    const auto stream = ctx->work_stream();
    const auto bytes = saeta::buffer::allocate(ctx, 4096, stream, "minimal");
    {
      const saeta::use_token token(stream, {saeta::writes(bytes)});
      ctx->copies().fill(token.span<std::uint8_t>(bytes).data(), 7, bytes.size(), stream);
    }
    ctx->synchronize(stream);
    return refused(ctx, 2 * limit) ? 0 : 1;
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
