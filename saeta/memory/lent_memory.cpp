#include "saeta/memory/lent_memory.hpp"

#include "saeta/base/process.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"
#include "saeta/memory/buffer.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/order/captures.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace saeta {
namespace {

struct loan {
  std::shared_ptr<storage> memory;
  std::vector<stream_ref> also_used_on; ///< distinct
  bool streams_known = true;            ///< false where a use could not be noted
};

/// Addresses are unique in the process, over all devices, as long as the memory behind them is out.
class loan_table {
public:
  void add(loan made) {
    void* const address = made.memory->pointer();
    shard& part = of(address);
    const std::lock_guard lock(part.mutex);
    part.loans.insert_or_assign(address, std::move(made));
  }

  std::optional<loan> remove(void* address) {
    shard& part = of(address);
    const std::lock_guard lock(part.mutex);
    const auto found = part.loans.find(address);
    if (found == part.loans.end()) {
      return std::nullopt;
    }
    loan ended = std::move(found->second);
    part.loans.erase(found);
    return ended;
  }

  bool note_use(void* address, stream_handle stream) {
    shard& part = of(address);
    const std::lock_guard lock(part.mutex);
    const auto found = part.loans.find(address);
    if (found == part.loans.end()) {
      return false;
    }
    loan& noted = found->second;
    try {
      const stream_ref used(*noted.memory->where()->device_backend(), stream);
      if (std::ranges::find(noted.also_used_on, used) == noted.also_used_on.end()) {
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

  shard& of(void* address) noexcept {
    // Blocks begin at multiples of 64 bytes or more; the high half of the product depends on all bits above.
    const std::uint64_t mixed =
        (reinterpret_cast<std::uintptr_t>(address) >> 6) * std::uint64_t{0x9E3779B97F4A7C15};
    return shards_[mixed >> (64 - 6)];
  }

  std::array<shard, shards> shards_;
};

/// Never destroyed: borrowers give back from their own static destructors.
loan_table& loans() {
  static constinit per_process<loan_table> all;
  return all.get();
}

/// In a child of fork, what its parent lent is not in the table and comes back to nobody.
void report_unknown(const char* where, void* address, const char* what) {
  if (fork_generation() == 0) {
    report(where, concat("the memory at ", address, what));
  }
}

/// Ends the loan after every stream that is known to have used it; where one is not known, the work is unknown.
void end(const loan& ended, std::optional<stream_handle> stream) noexcept {
  storage& memory = *ended.memory;
  point_set last;
  bool known = stream.has_value() && ended.streams_known;
  try {
    context& home = *memory.where();
    const auto add = [&](stream_ref used) {
      // Not while the stream captures a graph: an event recorded there would belong to the graph.
      if (!is_ours(used) && home.clocks()->graph_captures().note(used)) {
        known = false;
      } else {
        last.add(mark(used));
      }
    };
    for (const stream_ref& noted : ended.also_used_on) {
      const stream_ref now(*home.device_backend(), noted.native_handle());
      known = known &&
              now == noted; // another thread's default stream, or a new stream with the handle of an old one
      add(now);
    }
    if (stream) {
      add(stream_ref(*home.device_backend(), *stream));
    }
  } catch (...) {
    report_current_exception("memory that comes back can't be marked on its stream and waits for all work");
    known = false;
  }
  if (known) {
    memory.ordering().end_export(access::write, last);
  } else {
    memory.ordering().end_export(access::write);
  }
}

} // namespace

void* lend_memory(const std::shared_ptr<context>& where, std::size_t bytes, stream_ref stream, tag label,
                  std::size_t alignment) {
  std::shared_ptr<storage> memory = storage::allocate(where, bytes, stream, label, alignment);
  if (bytes == 0) {
    return nullptr;
  }
  void* const address = memory->pointer();
  memory->ordering().begin_export(access::write);
  loans().add({.memory = std::move(memory), .also_used_on = {}});
  return address;
}

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
      report_unknown("take_back_memory", address, " was not lent, or came back before");
      return;
    }
    end(*ended, stream); // before anything that may fail
    if (ended->memory->bytes() != bytes) {
      report("take_back_memory", concat("the memory at ", address, " has ", ended->memory->bytes(),
                                        " bytes and came back as ", bytes));
    }
  } catch (...) {
    report_current_exception("take_back_memory");
  }
}

} // namespace saeta
