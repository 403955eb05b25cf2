#include "saeta/share/broker.hpp"

#include "saeta/base/interruptible_wait.hpp"
#include "saeta/base/os_error.hpp"
#include "saeta/base/process.hpp"
#include "saeta/base/report.hpp"
#include "saeta/base/required.hpp"
#include "saeta/executor/background_thread.hpp"
#include "saeta/share/wire.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

namespace saeta {
namespace {

using namespace sharing;
using clock = std::chrono::steady_clock;

/// Length of the socket's queue. Any user can connect, so the queue holds more connections than can arrive
/// while one is refused.
constexpr int most_waiting = 512;
constexpr int most_at_once = 256;       ///< connections that are accepted before the existing ones are served
constexpr std::size_t most_read = 4096; ///< bytes of a message of a peer; what is longer is not a request
constexpr std::chrono::milliseconds pause{10};

/// What the events of the thread are about: one of these, or the number of a connection.
enum : std::uint64_t { listening, waking, first_connection };

descriptor required_descriptor(descriptor made) {
  if (!made.is_open()) {
    throw system_error(errno);
  }
  return made;
}

void require(int result) {
  if (result != 0) {
    throw system_error(errno);
  }
}

descriptor make_spare() {
  return descriptor::opened([] { return ::memfd_create("saeta spare", MFD_CLOEXEC); });
}

std::string new_name() {
  std::array<std::uint8_t, 16> random{};
  require(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()) ? 0 : -1);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string name = concat("saeta-", ::getpid(), "-");
  for (const std::uint8_t each : random) {
    name += digits[each >> 4];
    name += digits[each & 15];
  }
  return name;
}

descriptor make_listener(const std::string& name) {
  descriptor made = required_descriptor(
      descriptor::opened([] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
  const address at(name);
  require(::bind(made.number(), reinterpret_cast<const sockaddr*>(at.bytes.data()), at.size));
  require(::listen(made.number(), most_waiting));
  return made;
}

std::span<const std::byte> bytes_of(std::string_view text) noexcept { return std::as_bytes(std::span(text)); }

/// A connection from another process, and the export that it has open.
struct peer {
  descriptor connection;
  clock::time_point since = clock::now();
  std::shared_ptr<exported> lease{};
};

struct watched {
  descriptor connection;
  std::function<void()> ended;
};

struct posted_export {
  std::shared_ptr<exported> memory;
  std::size_t tokens = 0;
};

struct own_brokers {
  std::mutex mutex;
  std::vector<std::shared_ptr<broker>> all; ///< the latest last; the others are those of earlier users
};

own_brokers& brokers() {
  static per_process<own_brokers> made;
  return made.get();
}

} // namespace

struct SAETA_LOCAL broker::state {
  const std::string name = new_name();
  const uid_t user = ::geteuid();

  std::mutex mutex; ///< guards what follows; no export is dropped under it
  std::map<share_token::id, std::weak_ptr<exported>> known;
  std::size_t sweep_at = 16; ///< the size of `known` at which ended exports are removed
  std::map<share_token::id, posted_export> posted;
  std::condition_variable arrived;
  std::vector<std::function<void()>> asked; ///< to run on the thread

  descriptor listener = make_listener(name);
  descriptor wake =
      required_descriptor(descriptor::opened([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }));
  descriptor spare = required_descriptor(make_spare()); ///< closed to accept when no other is free
  descriptor events = required_descriptor(descriptor::opened([] { return ::epoll_create1(EPOLL_CLOEXEC); }));

  // Only for the thread.
  bool going_on = true;
  std::unordered_map<std::uint64_t, peer> peers;
  std::set<std::uint64_t> silent; ///< peers without a request, the oldest first
  std::unordered_map<std::uint64_t, watched> watches;
  std::uint64_t next = first_connection;
  std::optional<clock::time_point> refused_since;

  background_thread thread{"saeta-broker"};

  state() {
    listen_to(listener.number(), listening);
    listen_to(wake.number(), waking);
    if (!thread.start([this] { serve(); })) {
      throw system_error(EAGAIN);
    }
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() { end(); }

  void listen_to(int number, std::uint64_t about) const {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.u64 = about;
    require(::epoll_ctl(events.number(), EPOLL_CTL_ADD, number, &wanted));
  }
  /// Before the descriptor is closed: in a child of fork a copy may stay open for a moment.
  void ignore(int number) const noexcept { ::epoll_ctl(events.number(), EPOLL_CTL_DEL, number, nullptr); }

  void ask(std::function<void()> request) {
    {
      const std::lock_guard lock(mutex);
      asked.push_back(std::move(request));
    }
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake.number(), &one, sizeof one) ==
                      0); // if it fails, the thread is woken already
  }

  void end() {
    if (thread.joinable()) {
      ask([this] { going_on = false; });
      thread.join();
    }
    watches.clear();
    silent.clear();
    peers.clear();
  }

  void serve() {
    std::array<epoll_event, 64> found{};
    while (going_on) {
      const int count =
          ::epoll_wait(events.number(), found.data(), static_cast<int>(found.size()), timeout());
      if (count < 0 && errno != EINTR) {
        return; // the program has closed all descriptors, as daemons do when they start
      }
      for (int i = 0; i < count; ++i) {
        try {
          handle(found[static_cast<std::size_t>(i)].data.u64);
        } catch (...) {
          report_current_exception("a connection of another process failed");
        }
      }
      while (!silent.empty() && silence_ends() <= clock::now()) {
        drop(*silent.begin());
      }
    }
  }

  [[nodiscard]] clock::time_point silence_ends() const {
    return peers.at(*silent.begin()).since + current_share_limits().silent;
  }

  /// Milliseconds until the oldest silent connection is closed; -1 without one.
  [[nodiscard]] int timeout() const {
    if (silent.empty()) {
      return -1;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(silence_ends() - clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }

  void handle(std::uint64_t about) {
    if (about == listening) {
      accept_waiting();
    } else if (about == waking) {
      run_requests();
    } else if (peers.contains(about)) {
      read(about);
    } else if (const auto over = watches.extract(about)) {
      ignore(over.mapped().connection.number());
      over.mapped().connection.close();
      over.mapped().ended();
    } // else it was dropped by an event before
  }

  void run_requests() {
    std::uint64_t count = 0;
    static_cast<void>(::read(wake.number(), &count, sizeof count) == 0);
    std::vector<std::function<void()>> requests;
    {
      const std::lock_guard lock(mutex);
      requests.swap(asked);
    }
    for (const std::function<void()>& each : requests) {
      each();
    }
  }

  /// Accepts waiting connections. Connections of other users are refused at once, so that they don't use up
  /// the places of connections of this user.
  void accept_waiting() {
    for (int attempt = 0; attempt < most_at_once; ++attempt) {
      descriptor connection = descriptor::opened(
          [this] { return ::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
      if (!connection.is_open()) {
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
          note_refusal(errno);
        }
        return;
      }
      refused_since.reset();
      const std::optional<uid_t> of = user_of(connection.number());
      if (of != ::geteuid()) {
        static_cast<void>(send_now(connection.number(), reply_code::forbidden,
                                   bytes_of(concat("the buffer was exported by user ", ::geteuid(),
                                                   ", not by user ", of.value_or(0)))));
        continue;
      }
      read(admit(std::move(connection))); // a peer usually sends its request right after it has connected
    }
  }

  /// The peer is gone, or this process has no free descriptor. Connections stay in the queue and are accepted
  /// later. After a while without a descriptor, peers get the reason as their answer.
  void note_refusal(int failure) {
    const auto now = clock::now();
    refused_since = refused_since.value_or(now);
    if ((failure != EMFILE && failure != ENFILE) ||
        now - *refused_since < current_share_limits().starvation) {
      std::this_thread::sleep_for(pause);
      return;
    }
    spare.close();
    { // closed before there is another spare one
      const descriptor connection = descriptor::opened(
          [this] { return ::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
      if (connection.is_open()) { // otherwise another thread has used the descriptor that was just closed
        static_cast<void>(
            send_now(connection.number(), reply_code::failed,
                     bytes_of(concat("the process that exported the buffer can't open a connection: ",
                                     std::generic_category().message(failure)))));
      }
    }
    spare = make_spare();
  }

  std::uint64_t admit(descriptor connection) {
    if (silent.size() >= current_share_limits().most_silent) {
      drop(*silent.begin());
    }
    const std::uint64_t made = next++;
    listen_to(connection.number(), made);
    peers.emplace(made, peer{.connection = std::move(connection)});
    silent.insert(made);
    return made;
  }

  void drop(std::uint64_t which) {
    silent.erase(which);
    if (const auto dropped = peers.extract(which)) {
      ignore(dropped.mapped().connection.number());
    }
  }

  void read(std::uint64_t which) {
    peer& from = peers.at(which);
    std::array<std::byte, most_read> content; // NOLINT: not initialised
    const auto bytes = ::recv(from.connection.number(), content.data(), content.size(), MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      return;
    }
    const auto sent = std::span(content).first(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    if (is_end_of_lease(sent)) {
      from.lease = nullptr;
      return;
    }
    if (sent.empty() || from.lease != nullptr) { // a connection holds one lease
      drop(which);
      return;
    }
    silent.erase(which);
    if (!answer(from, sent)) {
      drop(which);
    }
  }

  /// Returns false if the connection is to be closed.
  [[nodiscard]] bool answer(peer& to, std::span<const std::byte> sent) {
    const int connection = to.connection.number();
    const auto refuse = [&](reply_code code, std::string_view text) {
      static_cast<void>(send_now(connection, code, bytes_of(text)));
      return false;
    };
    const std::optional<request> asked_for = decode(sent);
    if (!asked_for) {
      return refuse(reply_code::failed, "the process that exported the buffer does not know this request");
    }
    const std::shared_ptr<exported> memory = find(asked_for->key);
    if (memory == nullptr) {
      return refuse(reply_code::gone, "the buffer is not shared any more: its handle or the buffer that was "
                                      "exported must be kept until it is opened");
    }
    switch (asked_for->kind) {
    case request_kind::pool:
      try {
        const descriptor pool = descriptor::opened([&] { return memory->home()->export_pool(); });
        return send_now(connection, reply_code::done, {}, pool.number());
      } catch (const std::exception& failed) {
        return refuse(reply_code::failed, concat("the pool of the buffer can't be shared: ", failed.what()));
      }
    case request_kind::post:
      post(memory);
      return send_now(connection, reply_code::done, {});
    default:
      break;
    }
    to.lease = memory;
    const bool replied = send_now(connection, reply_code::done, memory->reply(), memory->file());
    if (asked_for->kind ==
        request_kind::take) { // after the reply: a process that waits for arrivals then ends
      note_arrival(memory->token().key);
    }
    return replied;
  }

  [[nodiscard]] std::shared_ptr<exported> find(const share_token::id& key) {
    const std::lock_guard lock(mutex);
    const auto found = known.find(key);
    return found == known.end() ? nullptr : found->second.lock();
  }

  void post(const std::shared_ptr<exported>& memory) {
    const std::lock_guard lock(mutex);
    posted_export& entry = posted[memory->token().key];
    entry.memory = memory;
    ++entry.tokens;
  }

  void note_arrival(const share_token::id& key) {
    std::shared_ptr<exported> dropped; // without the lock
    const std::lock_guard lock(mutex);
    const auto found = posted.find(key);
    if (found != posted.end() && --found->second.tokens == 0) {
      dropped = std::move(found->second.memory);
      posted.erase(found);
      arrived.notify_all();
    }
  }
};

broker::broker(key /*own*/) : state_(std::make_unique<state>()) {}
broker::~broker() = default;

std::shared_ptr<broker> broker::make() { return std::make_shared<broker>(key{}); }

std::shared_ptr<broker> broker::own() {
  own_brokers& mine = brokers();
  const std::lock_guard lock(mine.mutex);
  if (mine.all.empty() || mine.all.back()->state_->user != ::geteuid()) {
    mine.all.push_back(make());
  }
  return mine.all.back();
}

std::shared_ptr<broker> broker::running() {
  own_brokers& mine = brokers();
  const std::lock_guard lock(mine.mutex);
  return mine.all.empty() ? nullptr : mine.all.back();
}

const std::string& broker::name() const noexcept { return state_->name; }

void broker::add(const std::shared_ptr<exported>& memory) {
  require_argument(memory, "memory");
  memory->token_.broker = state_->name;
  const std::lock_guard lock(state_->mutex);
  if (state_->known.size() >= state_->sweep_at) {
    std::erase_if(state_->known, [](const auto& each) { return each.second.expired(); });
    state_->sweep_at = 2 * state_->known.size() + 16;
  }
  state_->known[memory->token_.key] = memory;
}

std::shared_ptr<exported> broker::find(const share_token::id& which) const { return state_->find(which); }

void broker::post(const std::shared_ptr<exported>& memory) {
  require_argument(memory, "memory");
  state_->post(memory);
}

void broker::note_arrival(const std::shared_ptr<exported>& memory) {
  require_argument(memory, "memory");
  state_->note_arrival(memory->token().key);
}

broker::posted_exports broker::posted() const {
  posted_exports found;
  const std::lock_guard lock(state_->mutex);
  for (const auto& each : state_->posted) {
    found.emplace_back(each.second.memory, each.second.tokens);
  }
  return found;
}

bool broker::wait_for_arrivals(std::chrono::milliseconds longest) {
  std::unique_lock lock(state_->mutex);
  return wait_interruptibly(state_->arrived, lock, wait_now() + longest,
                            [this] { return state_->posted.empty(); });
}

int broker::retire() {
  state_->end();
  return state_->listener.number();
}

void broker::watch(descriptor connection, std::function<void()> ended) {
  // A function must be copyable, so it shares what it moves on.
  auto moved = std::make_shared<watched>(watched{std::move(connection), std::move(ended)});
  state_->ask([of = state_.get(), moved] {
    const std::uint64_t made = of->next++;
    of->listen_to(moved->connection.number(), made);
    of->watches.emplace(made, std::move(*moved));
  });
}

} // namespace saeta
