#include "saeta/spill/spill.hpp"

#include "saeta/base/os_error.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/packed.hpp"
#include "saeta/spill/spill_store.hpp"

#include <cerrno>
#include <utility>

namespace saeta {
namespace {

/// @throws error device in a forked child.
spill_store& store_of(const spill_entry& of) { return spill_store::of(of.ctx); }

void require_same_memory(const context& has, const context& given) {
  if (!has.shares_with(given)) {
    throw error(errc::invalid_argument,
                concat("the table is in memory of ", to_string(has.device()), ", which a context of ",
                       to_string(given.device()), " does not share"));
  }
}

} // namespace

spill_use::spill_use(std::shared_ptr<spill_entry> of, table used)
    : of_(std::move(of)), table_(std::move(used)) {}

spill_use::~spill_use() {
  if (of_ && !of_->ctx->inherited()) {
    table_.reset();
    of_->store.note_use(*of_);
  }
}

spill_handle::~spill_handle() { close(); }

spill_use spill_handle::use(const std::shared_ptr<context>& ctx) const {
  require_argument(ctx, "ctx");
  require_same_memory(*entry().ctx, *ctx);
  const buffer body = store_of(entry()).acquire(entry(), ctx);
  return {of_, ipc::unpack(ctx, entry().metadata, body, validation::structure)};
}

spill_tier spill_handle::spill(std::optional<spill_tier> only) const {
  return store_of(entry()).spill(entry(), only);
}

void spill_handle::close() const noexcept {
  if (of_ != nullptr && !of_->ctx->inherited()) {
    of_->store.close(*of_);
  }
}

spill_tier spill_handle::tier() const { return store_of(entry()).tier_of(entry()); }
bool spill_handle::closed() const { return store_of(entry()).is_closed(entry()); }
std::uint64_t spill_handle::bytes() const { return entry().bytes; }
std::uint64_t spill_handle::stored_bytes() const { return store_of(entry()).stored_bytes(entry()); }
int spill_handle::priority() const { return entry().priority; }
const std::shared_ptr<context>& spill_handle::ctx() const { return entry().ctx; }

spill_handle spillable(const std::shared_ptr<context>& ctx, const table& kept, int priority,
                       std::optional<bool> compress) {
  require_argument(ctx, "ctx");
  require_same_memory(*kept.ctx(), *ctx);
  ipc::packed_table packed = ipc::pack(kept);
  spill_compression how;
  if (compress.value_or(ctx->root().options().spill.compress)) {
    const table described = ipc::unpack(ctx, packed.metadata, packed.body, validation::structure);
    how = spill_store::of(ctx).compression_of(described, packed.body);
  }
  spill_handle handle(make_in_own_process<spill_entry>(ctx, std::move(packed.metadata),
                                                       std::move(packed.body), priority, std::move(how)));
  spill_store::of(ctx).keep_below(*ctx->memory_budget());
  return handle;
}

std::uint64_t spill_unused(const std::shared_ptr<context>& ctx, std::uint64_t bytes) {
  require_argument(ctx, "ctx");
  return spill_store::of(ctx).spill_unused(*ctx->memory_budget(), bytes);
}

void set_spill_folder(const std::shared_ptr<context>& ctx, const std::filesystem::path& folder) {
  require_argument(ctx, "ctx");
  std::filesystem::path chosen = folder.empty() ? folder : std::filesystem::absolute(folder);
  if (!chosen.empty() && !std::filesystem::is_directory(chosen)) {
    throw os_error("spill to", chosen, std::filesystem::exists(chosen) ? ENOTDIR : ENOENT);
  }
  spill_store::of(ctx).folder().choose(chosen.string());
}

std::filesystem::path spill_folder_of(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  return spill_store::of(ctx).folder().path();
}

std::string spill_hint(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  return spill_entry::any() ? spill_store::of(ctx).hint() : std::string();
}

spill_statistics read_spill_statistics(const std::shared_ptr<context>& ctx) {
  require_argument(ctx, "ctx");
  return spill_store::of(ctx).statistics();
}

} // namespace saeta
