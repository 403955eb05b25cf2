#include "saeta/ipc/codec/lz4.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"

#include <lz4.h>
#include <lz4frame.h>

#include <string_view>

namespace saeta::ipc::detail {
namespace {

/// The size that a function of liblz4 returned.
std::size_t require_size(std::size_t size, std::size_t bytes, std::size_t room) {
  if (size == 0 || LZ4F_isError(size) != 0) {
    throw error(errc::invalid_argument,
                concat("lz4: ", bytes, " bytes do not fit in the ", room, " bytes of the target"));
  }
  return size;
}

class lz4_decoder final : public frame_decoder {
public:
  lz4_decoder() {
    LZ4F_dctx* made = nullptr;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION)) != 0) {
      throw error(errc::out_of_memory, "lz4: no memory for a context");
    }
    context_.reset(made);
  }
  ~lz4_decoder() override = default;

private:
  struct free_context {
    void operator()(LZ4F_dctx* context) const noexcept { LZ4F_freeDecompressionContext(context); }
  };

  part step(std::span<const std::byte> input, std::span<std::byte> target, bool& ended) override {
    const std::byte none{}; // liblz4 adds to the address, which must not be null
    const std::byte* const from = input.empty() ? &none : input.data();
    part done{input.size(), target.size()};
    const std::size_t left =
        LZ4F_decompress(context_.get(), target.data(), &done.made, from, &done.read, nullptr);
    if (LZ4F_isError(left) != 0) {
      const std::string_view name = LZ4F_getErrorName(left); // the codes are not in the stable interface
      refuse(name == "ERROR_allocation_failed", concat("lz4: ", name));
    }
    ended = left == 0;
    return done;
  }
  void restart() override { LZ4F_resetDecompressionContext(context_.get()); }

  std::unique_ptr<LZ4F_dctx, free_context> context_;
};

} // namespace

std::size_t max_lz4_block_bytes(std::size_t bytes) {
  return static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(bytes)));
}

std::size_t compress_lz4_block(std::span<const std::byte> values, std::span<std::byte> target) {
  const int made = LZ4_compress_default(reinterpret_cast<const char*>(values.data()),
                                        reinterpret_cast<char*>(target.data()),
                                        static_cast<int>(values.size()), static_cast<int>(target.size()));
  return require_size(static_cast<std::size_t>(made), values.size(), target.size());
}

std::size_t max_lz4_frame_bytes(std::size_t bytes) { return LZ4F_compressFrameBound(bytes, nullptr); }

std::size_t compress_lz4_frame(std::span<const std::byte> values, std::span<std::byte> target) {
  return require_size(LZ4F_compressFrame(target.data(), target.size(), values.data(), values.size(), nullptr),
                      values.size(), target.size());
}

std::unique_ptr<frame_decoder> make_lz4_decoder() { return std::make_unique<lz4_decoder>(); }

} // namespace saeta::ipc::detail
