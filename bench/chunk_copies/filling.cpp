#include "chunk_copies/filling.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <exception>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace saeta::bench {
namespace {

error failed(const char* what) {
  return error(errc::io, concat(what, ": ", std::generic_category().message(errno)));
}

/// The state of one slot, shared by the filling threads.
struct slot_turn {
  std::atomic<std::size_t> chunk{0};   ///< number of the chunk that may be filled now
  std::atomic<std::size_t> missing{0}; ///< slices of that chunk that are not filled yet
  std::atomic<std::size_t> sent{0};    ///< number of the last chunk sent from this slot, plus one
  std::atomic<bool> asked{false};      ///< a thread is querying whether the previous copy has finished
};

class filling {
public:
  filling(const chunk_memory& memory, sender& target, const source_file& source, std::size_t threads)
      : memory_(memory), sender_(target), source_(source), threads_(threads), turns_(memory.all().slots) {
    for (std::size_t slot = 0; slot < turns_.size(); ++slot) {
      turns_[slot].chunk = slot;
      turns_[slot].missing = threads;
    }
  }

  void run() {
    {
      std::vector<std::jthread> team;
      for (std::size_t member = 0; member < threads_; ++member) {
        team.emplace_back([this, member] { fill_all(member); });
      }
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

private:
  void fill_all(std::size_t member) noexcept {
    try {
      for (std::size_t chunk = 0; chunk < memory_.all().chunks && !stop_; ++chunk) {
        fill(member, chunk);
      }
    } catch (...) {
      if (!stop_.exchange(true)) {
        failure_ = std::current_exception();
      }
    }
  }

  void fill(std::size_t member, std::size_t chunk) {
    const std::size_t bytes = memory_.all().chunk_bytes;
    const std::size_t slot = chunk % turns_.size();
    slot_turn& turn = turns_[slot];
    while (turn.chunk.load(std::memory_order_acquire) != chunk) {
      if (stop_) {
        return;
      }
      open(slot, chunk);
      std::this_thread::yield();
    }
    const std::size_t begin = bytes * member / threads_;
    const std::size_t end = bytes * (member + 1) / threads_;
    source_.read(chunk * bytes + begin, {memory_.slot(slot) + begin, end - begin});
    if (turn.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      sender_.send(slot, chunk);
      turn.sent.store(chunk + 1, std::memory_order_release);
    }
  }

  /// Lets threads fill the slot with `chunk` once the copy of the slot's previous chunk has finished.
  void open(std::size_t slot, std::size_t chunk) {
    slot_turn& turn = turns_[slot];
    const std::size_t before = chunk - turns_.size();
    if (turn.sent.load(std::memory_order_acquire) != before + 1 || turn.asked.exchange(true)) {
      return;
    }
    if (turn.chunk.load() == before && sender_.left(slot)) {
      turn.missing.store(threads_, std::memory_order_relaxed);
      turn.chunk.store(chunk, std::memory_order_release);
    }
    turn.asked = false;
  }

  const chunk_memory& memory_;
  sender& sender_;
  const source_file& source_;
  std::size_t threads_;
  std::vector<slot_turn> turns_;
  std::atomic<bool> stop_{false};
  std::exception_ptr failure_;
};

} // namespace

source_file::source_file(const std::filesystem::path& folder, std::size_t bytes)
    : descriptor_(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
  if (descriptor_ < 0) {
    throw failed(folder.c_str());
  }
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> some((std::size_t{1} << 20) / sizeof(std::uint64_t));
  std::ranges::generate(some, random);
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t written = ::pwrite(
        descriptor_, some.data(), std::min(bytes - at, some.size() * sizeof some[0]), static_cast<off_t>(at));
    if (written <= 0) {
      const error refused = failed(folder.c_str());
      ::close(descriptor_);
      throw refused;
    }
    at += static_cast<std::size_t>(written);
  }
}

source_file::~source_file() { ::close(descriptor_); }

void source_file::read(std::size_t at, std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t got = ::pread(descriptor_, target.data(), target.size(), static_cast<off_t>(at));
    if (got <= 0) {
      throw failed("the file of the measurement");
    }
    at += static_cast<std::size_t>(got);
    target = target.subspan(static_cast<std::size_t>(got));
  }
}

void send_unfilled(const chunk_memory& memory, sender& target) {
  const sizes& all = memory.all();
  for (std::size_t chunk = 0; chunk < all.chunks; ++chunk) {
    const std::size_t slot = chunk % all.slots;
    while (chunk >= all.slots && !target.left(slot)) {
      std::this_thread::yield();
    }
    target.send(slot, chunk);
  }
}

void send_filled(const chunk_memory& memory, sender& target, const source_file& source, std::size_t threads) {
  filling(memory, target, source, threads).run();
}

} // namespace saeta::bench
