#include "saeta/memory/loans/lent_memory.hpp"

#include "saeta/base/process.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/graph_pool.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace saeta {
namespace {

/// A loan of a storage, or of a piece of a graph pool.
struct loan {
  std::shared_ptr<storage> memory;
  std::shared_ptr<graph_pool> pool;
  graph_pool::piece piece;
  std::size_t bytes = 0;
  std::vector<stream_ref> also_used_on; ///< distinct
  bool streams_known = true;            ///< false if a use could not be noted

  [[nodiscard]] context& ctx() const noexcept { return pool ? *pool->ctx() : *memory->ctx(); }
};

/// An address is unique in the process, over all devices, until its memory comes back.
class loan_table {
public:
  void add(void* address, loan loan) {
    shard& part = of(address);
    const std::lock_guard lock(part.mutex);
    part.loans.insert_or_assign(address, std::move(loan));
  }

  std::optional<loan> remove(void* address) {
    shard& part = of(address);
    const std::lock_guard lock(part.mutex);
    const auto entry = part.loans.find(address);
    if (entry == part.loans.end()) {
      return std::nullopt;
    }
    loan ended = std::move(entry->second);
    part.loans.erase(entry);
    return ended;
  }

  std::shared_ptr<storage> find(const void* address) {
    shard& part = of(address);
    const std::lock_guard lock(part.mutex);
    const auto entry = part.loans.find(const_cast<void*>(address));
    return entry == part.loans.end() ? nullptr : entry->second.memory;
  }

  bool note_use(void* address, stream_handle stream) {
    shard& part = of(address);
    const std::lock_guard lock(part.mutex);
    const auto entry = part.loans.find(address);
    if (entry == part.loans.end()) {
      return false;
    }
    loan& noted = entry->second;
    try {
      const stream_ref used(*noted.ctx().device_backend(), stream);
      // While a stream captures, refs of it never compare equal.
      const auto same = [&](const stream_ref& ref) {
        return ref == used || (used.made_in_capture() && ref.same_handle(used));
      };
      if (std::ranges::none_of(noted.also_used_on, same)) {
        noted.also_used_on.push_back(used);
      }
    } catch (...) {
      noted.streams_known = false;
    }
    return true;
  }

private:
  struct alignas(64) shard {
    std::mutex mutex;
    std::unordered_map<void*, loan> loans;
  };
  static constexpr std::size_t shards = 64;

  shard& of(const void* address) noexcept {
    // Blocks begin at multiples of 64 bytes or more; the high half of the product depends on all bits above.
    const std::uint64_t mixed =
        (reinterpret_cast<std::uintptr_t>(address) >> 6) * std::uint64_t{0x9E3779B97F4A7C15};
    return shards_[mixed >> (64 - 6)];
  }

  std::array<shard, shards> shards_;
};

/// Never destroyed: borrowers may return memory from static destructors.
loan_table& loans() {
  static constinit per_process<loan_table> all;
  return all.get();
}

/// Silent in a child of fork: memory that its parent lent is not in the child's table.
void report_unknown(const char* function, void* address, const char* part) {
  if (fork_generation() == 0) {
    report(function, concat("the memory at ", address, part));
  }
}

/// Ends the loan of a storage after the work of every stream known to have used it. If a stream is not known,
/// the work counts as unknown.
void end_storage(const loan& ended, std::optional<stream_handle> stream) noexcept {
  storage& memory = *ended.memory;
  point_set last;
  bool known = stream.has_value() && ended.streams_known;
  try {
    context& ctx = *memory.ctx();
    for (const stream_ref& noted : ended.also_used_on) {
      const stream_ref now = noted.look_up_again();
      known = add_last_use(ctx, now, last) && now == noted && known;
    }
    if (stream) {
      known = add_last_use(ctx, stream_ref(*ctx.device_backend(), *stream), last) && known;
    }
  } catch (...) {
    report_current_exception("returned memory can't be ordered on its stream, and waits for all work");
    known = false;
  }
  if (known) {
    memory.ordering().end_export(access::write, last);
  } else {
    memory.ordering().end_export(access::write);
  }
}

void end(const loan& ended, std::optional<stream_handle> stream) noexcept {
  if (ended.pool) {
    const auto elsewhere = [&](const stream_ref& used) { return !stream || !used.has_handle(*stream); };
    const bool others = !ended.streams_known || std::ranges::any_of(ended.also_used_on, elsewhere);
    ended.pool->give_back(ended.piece, {.last = stream, .others = others});
  } else {
    end_storage(ended, stream);
  }
}

void* remember(std::shared_ptr<storage> memory) {
  void* const address = memory->pointer();
  const std::size_t bytes = memory->bytes();
  memory->ordering().begin_export(access::write);
  loans().add(
      address,
      {.memory = std::move(memory), .pool = nullptr, .piece = {}, .bytes = bytes, .also_used_on = {}});
  return address;
}

/// Counts a request of 0 bytes. Any stream will do: there is no memory to order.
void* lend_nothing(const std::shared_ptr<context>& ctx, tag label, std::size_t alignment) {
  static_cast<void>(storage::allocate(ctx, 0, ctx->work_stream(), label, alignment));
  return nullptr;
}

std::shared_ptr<graph_pool> pool_for(std::size_t bytes, const stream_ref& capturing, tag label) {
  std::shared_ptr<graph_pool> open = graph_pool_scope::open_for(capturing.owner());
  if (open == nullptr) {
    throw error(errc::invalid_argument,
                concat("'", label.name(), "': ", bytes,
                       " bytes can't be allocated on a stream that captures a graph, which would own them: "
                       "open a graph pool (saeta.allocators.graph_pool) around the capture"));
  }
  return open;
}

} // namespace

void* lend_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, stream_ref stream, tag label,
                  std::size_t alignment) {
  require_argument(ctx, "ctx");
  if (bytes == 0) {
    return lend_nothing(ctx, label, alignment);
  }
  if (stream.made_in_capture()) {
    return lend_memory(pool_for(bytes, stream, label), bytes, stream, alignment);
  }
  return remember(storage::allocate(ctx, bytes, stream, label, alignment));
}

void* lend_memory(const std::shared_ptr<graph_pool>& from, std::size_t bytes, stream_ref stream,
                  std::size_t alignment) {
  require_argument(from, "from");
  if (bytes == 0) {
    return lend_nothing(from->ctx(), from->label(), alignment);
  }
  const graph_pool::piece taken = from->take(bytes, stream, alignment);
  try {
    loans().add(taken.pointer,
                {.memory = nullptr, .pool = from, .piece = taken, .bytes = bytes, .also_used_on = {}});
  } catch (...) {
    from->give_back(taken, {.last = std::nullopt, .others = false});
    throw;
  }
  return taken.pointer;
}

void* lend_ready_memory(const std::shared_ptr<context>& ctx, std::size_t bytes, tag label,
                        std::size_t alignment) {
  require_argument(ctx, "ctx");
  return bytes == 0 ? lend_nothing(ctx, label, alignment)
                    : remember(allocate_ready(ctx, bytes, label, alignment));
}

std::shared_ptr<storage> find_lent(const void* address) { return loans().find(address); }

void note_lent_use(void* address, stream_handle stream) noexcept {
  try {
    if (address != nullptr && !loans().note_use(address, stream)) {
      report_unknown("note_lent_use", address, " was not lent");
    }
  } catch (...) {
    report_current_exception("note_lent_use");
  }
}

void take_back_memory(void* address, std::size_t bytes, std::optional<stream_handle> stream) noexcept {
  if (address == nullptr) {
    return;
  }
  try {
    const std::optional<loan> ended = loans().remove(address);
    if (!ended) {
      report_unknown("take_back_memory", address, " was not lent, or was already returned");
      return;
    }
    end(*ended, stream); // before anything that may throw
    if (ended->bytes != bytes) {
      report("take_back_memory",
             concat("the memory at ", address, " has ", ended->bytes, " bytes and was returned as ", bytes));
    }
  } catch (...) {
    report_current_exception("take_back_memory");
  }
}

} // namespace saeta
