#include "saeta/ipc/codec/zstd.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"

#include <zstd.h>
#include <zstd_errors.h>

#include <string>

namespace saeta::ipc::detail {
namespace {

constexpr int level = 1; ///< as pyarrow writes: higher levels take several times as long

bool is_no_memory(std::size_t result) { return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation; }

std::string reason_of(std::size_t result) {
  const ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
  return concat("zstd: ", ZSTD_getErrorName(result), " (error ", static_cast<int>(code),
                code == ZSTD_error_frameParameter_windowTooLarge ? ": a window of more than 128 MiB)" : ")");
}

/// Keeps the largest window that libzstd allows by default.
class zstd_decoder final : public frame_decoder {
public:
  zstd_decoder() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) {
      throw error(errc::out_of_memory, "zstd: no memory for a context");
    }
  }
  ~zstd_decoder() override = default;

private:
  struct free_context {
    void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
  };

  part step(std::span<const std::byte> input, std::span<std::byte> target, bool& ended) override {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{target.data(), target.size(), 0};
    const std::size_t left = ZSTD_decompressStream(context_.get(), &out, &in);
    if (ZSTD_isError(left) != 0) {
      refuse(is_no_memory(left), reason_of(left));
    }
    ended = left == 0;
    return {in.pos, out.pos};
  }
  void restart() override { ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only); }

  std::unique_ptr<ZSTD_DCtx, free_context> context_;
};

} // namespace

std::size_t max_zstd_frame_bytes(std::size_t bytes) { return ZSTD_compressBound(bytes); }

std::size_t compress_zstd_frame(std::span<const std::byte> values, std::span<std::byte> target) {
  const std::size_t made = ZSTD_compress(target.data(), target.size(), values.data(), values.size(), level);
  if (ZSTD_isError(made) != 0) {
    throw error(is_no_memory(made) ? errc::out_of_memory : errc::invalid_argument,
                concat(reason_of(made), " for ", values.size(), " bytes with ", target.size(), " of room"));
  }
  return made;
}

std::unique_ptr<frame_decoder> make_zstd_decoder() { return std::make_unique<zstd_decoder>(); }

} // namespace saeta::ipc::detail
