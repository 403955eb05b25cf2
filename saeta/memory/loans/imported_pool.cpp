#include "saeta/memory/loans/imported_pool.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/use_token.hpp"

#include <array>
#include <utility>

namespace saeta {
namespace {

void require_shareable(const buffer& of) {
  if (of.size() == 0) {
    throw error(errc::invalid_argument, "a buffer of no bytes has no memory to share");
  }
  const storage& bytes = *of.owner();
  const std::string what = concat(of.size(), " bytes '", bytes.tag(), "' of ", to_string(bytes.device()));
  if (bytes.external()) {
    throw error(errc::unsupported, concat(what, " are memory of another owner: copy them into a buffer of "
                                                "their own to share them with other processes"));
  }
  if (bytes.kind() != memory_kind::device) {
    throw error(errc::unsupported, concat(what, " are ", to_string(bytes.kind()),
                                          " memory: only device memory is shared with other processes"));
  }
  if (!bytes.ctx()->inherited() && !bytes.home().pool_exportable()) {
    throw error(errc::unsupported,
                concat(what, " can't be shared with other processes: their context was opened without "
                             "exportable_pool (saeta.context(..., exportable_pool=True) in Python, "
                             "open_options::exportable_pool in C++)"));
  }
}

} // namespace

buffer shareable(const buffer& bytes, tag label) {
  if (!bytes.present()) {
    return bytes;
  }
  const std::shared_ptr<context>& ctx = bytes.owner()->ctx();
  if (!bytes.owner()->external() && bytes.owner()->home().pool_exportable()) {
    return bytes;
  }
  const stream_ref stream = ctx->work_stream();
  buffer copy(storage::allocate_shareable(ctx, bytes.size(), stream, label));
  use_token token(stream, {reads(bytes), writes(copy)});
  ctx->copies().copy(token.span<std::byte>(copy).data(), token.span<const std::byte>(bytes).data(),
                     bytes.size(), copy_kind::device_to_device, stream);
  token.finish();
  return copy;
}

shared_bytes share_bytes(const buffer& of) {
  require_shareable(of);
  synchronize_handover({&of, 1});
  const extent whole = of.owner()->full_extent();
  return {.name = of.owner()->home().export_allocation(whole.base),
          .base = reinterpret_cast<std::uintptr_t>(whole.base),
          .allocation_bytes = whole.bytes,
          .offset = whole.offset + of.offset(),
          .bytes = of.size()};
}

/// Kept alive by an open buffer.
class SAETA_LOCAL imported_pool::opened_bytes {
public:
  opened_bytes(std::shared_ptr<imported_pool> from, std::uint64_t base)
      : from_(std::move(from)), base_(base) {}
  opened_bytes(const opened_bytes&) = delete;
  opened_bytes& operator=(const opened_bytes&) = delete;
  ~opened_bytes() {
    from_->unmap(base_);
    lease_.reset(); // only after `unmap`: then the exporter may free
  }
  void take(std::shared_ptr<void> lease) noexcept { lease_ = std::move(lease); }

private:
  std::shared_ptr<imported_pool> from_;
  std::uint64_t base_;
  std::shared_ptr<void> lease_;
};

imported_pool::imported_pool(key /*own*/, std::shared_ptr<backend> device, int descriptor)
    : device_(std::move(device)), pool_(device_->import_pool(descriptor)), work_([this] {
        try {
          return stream(device_);
        } catch (...) {
          device_->release_pool(pool_);
          throw;
        }
      }()) {}

std::shared_ptr<imported_pool> imported_pool::open(const context& ctx, int descriptor) {
  return std::make_shared<imported_pool>(key{}, ctx.device_backend(), descriptor);
}

imported_pool::~imported_pool() {
  if (inherited()) {
    static_cast<void>(work_.release());
    return;
  }
  device_->release_pool(pool_);
}

buffer imported_pool::open_bytes(const std::shared_ptr<context>& ctx, const shared_bytes& which,
                                 std::shared_ptr<void> lease, std::string tag) {
  require_argument(ctx, "ctx");
  if (ctx->device_backend() != device_) {
    throw error(errc::invalid_argument, concat("a pool that was imported by another context of ",
                                               to_string(device_->device()), " can't be opened by this one"));
  }
  if (which.bytes == 0 || which.bytes > which.allocation_bytes ||
      which.offset > which.allocation_bytes - which.bytes) {
    throw error(errc::format, concat(which.bytes, " bytes at ", which.offset, " exceed an allocation of ",
                                     which.allocation_bytes, " bytes"));
  }
  void* const base = map(which);
  const auto unmap_it = [&](const void*) { unmap(which.base); };
  std::unique_ptr<void, decltype(unmap_it)> mapped(base, unmap_it);
  auto kept = std::make_shared<opened_bytes>(shared_from_this(), which.base);
  static_cast<void>(mapped.release());
  external_memory memory;
  memory.pointer = static_cast<std::byte*>(base) + which.offset;
  memory.bytes = which.bytes;
  memory.device = ctx->device();
  memory.kind = memory_kind::device;
  memory.keepalive = kept;
  memory.access = mutability::writable;
  memory.tag = std::move(tag);
  buffer opened = buffer::adopt(ctx, std::move(memory));
  kept->take(std::move(lease));
  return opened;
}

void* imported_pool::map(const shared_bytes& which) {
  const std::lock_guard lock(mutex_);
  const auto [found, fresh] = mapped_.try_emplace(which.base);
  if (fresh) {
    try {
      found->second.pointer = device_->open_allocation(pool_, which.name);
    } catch (...) {
      mapped_.erase(found);
      throw;
    }
  }
  ++found->second.users;
  return found->second.pointer;
}

/// Closes under the lock, so that no thread maps the allocation again before that is possible.
void imported_pool::unmap(std::uint64_t base) noexcept {
  if (inherited()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto entry = mapped_.find(base);
  if (--entry->second.users != 0) {
    return;
  }
  if (!device_->close_allocation(entry->second.pointer, work_.native_handle())) {
    return; // the failure was reported; another open gives the same mapping
  }
  mapped_.erase(entry);
  wait_for_close();
}

/// The exporter may free the memory once the lease has ended, so a failed wait is repeated.
void imported_pool::wait_for_close() noexcept {
  constexpr int attempts = 3;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    try {
      return device_->synchronize_stream(work_.native_handle());
    } catch (...) {
      report_current_exception("closing memory of another process");
    }
  }
}

} // namespace saeta
