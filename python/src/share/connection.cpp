// The importer's side of shared memory: connections to the process that shares it, and leases.
//
// All waits end if a signal handler raises. Descriptors that were received until then are closed.
#include "python/src/core/module.hpp"
#include "python/src/share/descriptor.hpp"
#include "saeta/base/interrupt.hpp"

#include <nanobind/stl/vector.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

namespace saeta::py {
namespace {

/// Calls the system without the GIL, again after signals whose handlers did not raise.
template <class Call>
auto call_system(Call&& call) {
  while (true) {
    int failure = 0;
    const auto result = without_gil([&] {
      const auto found = call();
      failure = errno;
      return found;
    });
    if (result >= 0) {
      return result;
    }
    if (failure != EINTR) {
      errno = failure;
      throw_system_error();
    }
    check_interrupt();
  }
}

void limit_waits(int socket, double seconds) {
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(seconds);
  limit.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(limit.tv_sec)) * 1e6);
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(socket, SOL_SOCKET, option, &limit, sizeof limit) != 0) {
      throw_system_error();
    }
  }
}

/// The descriptors that a message carries, if there is one. The system has closed any beyond the first.
std::vector<descriptor> descriptors_of(msghdr& message) {
  std::vector<descriptor> found;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(each), sizeof number);
      found.emplace_back(number);
    }
  }
  return found;
}

/// A connection to the socket of another process, which passes whole messages.
class connection {
public:
  /// @param name  of the socket, in the abstract namespace of Linux.
  connection(const nb::bytes& name, double seconds)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    if (number() < 0) {
      throw_system_error();
    }
    limit_waits(number(), seconds);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name.size() >= sizeof address.sun_path) {
      errno = ENAMETOOLONG;
      throw_system_error();
    }
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    call_system([&] { return ::connect(number(), reinterpret_cast<const sockaddr*>(&address), bytes); });
  }

  [[nodiscard]] int number() const noexcept { return socket_.number(); }

  [[nodiscard]] unsigned peer_user() const {
    ucred found{};
    socklen_t bytes = sizeof found;
    if (::getsockopt(number(), SOL_SOCKET, SO_PEERCRED, &found, &bytes) != 0) {
      throw_system_error();
    }
    return found.uid;
  }

  void send(const nb::bytes& data) const {
    call_system([&] { return ::send(number(), data.data(), data.size(), MSG_NOSIGNAL); });
  }

  [[nodiscard]] nb::tuple receive(std::size_t most) const {
    std::vector<char> data(most);
    iovec into{data.data(), data.size()};
    alignas(cmsghdr) std::byte beside[CMSG_LEN(sizeof(int))];
    msghdr message{};
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = beside;
    message.msg_controllen = sizeof beside;
    const auto bytes = call_system([&] { return ::recvmsg(number(), &message, MSG_CMSG_CLOEXEC); });
    std::vector<descriptor> found = descriptors_of(message);
    if (found.empty() && (message.msg_flags & MSG_CTRUNC) != 0) {
      errno = EMFILE; // the process had no free descriptor for the one in the message
      throw_system_error();
    }
    return nb::make_tuple(nb::bytes(data.data(), static_cast<std::size_t>(bytes)), std::move(found));
  }

  /// Whether the other process has closed the connection.
  [[nodiscard]] bool ended() const noexcept {
    char byte = 0;
    const auto found = ::recv(number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return found == 0 || (found < 0 && errno != EAGAIN && errno != EINTR);
  }

  void close() noexcept { socket_.close(); }

private:
  descriptor socket_;
};

/// A lease of an exporter's memory. When it is dropped, it tells the exporter that the memory is not used any
/// more, and leaves the connection to the next lease.
class lease {
public:
  lease(nb::list idle, nb::bytes broker, nb::object by, nb::bytes end)
      : idle_(std::move(idle)), broker_(std::move(broker)), of_(nb::cast<const connection*>(by)),
        kept_(std::move(by)), end_(std::move(end)) {}
  lease(const lease&) = delete;
  lease& operator=(const lease&) = delete;
  ~lease() {
    const int number = of_->number();
    if (::send(number, end_.data(), end_.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      return; // the exporter has ended, or this is a child of fork
    }
    try {
      idle_.append(nb::make_tuple(broker_, kept_));
      if (nb::len(idle_) > most_idle) {
        PyList_SetSlice(idle_.ptr(), 0, 1, nullptr);
      }
    } catch (const nb::python_error&) { // no memory to keep the connection: it is closed
    }
  }

  [[nodiscard]] bool ended() const { return of_->ended(); }

private:
  static constexpr std::size_t most_idle = 8;

  nb::list idle_;
  nb::bytes broker_;
  const connection* of_;
  nb::object kept_; ///< keeps `of_` alive
  nb::bytes end_;
};

} // namespace

void bind_connections(nb::module_& m) {
  nb::class_<connection>(m, "_Connection",
                         "A connection to the socket of another process. Its waits end after some seconds "
                         "(BlockingIOError), and when a signal's handler raises.")
      .def(nb::init<const nb::bytes&, double>(), nb::arg("name"), nb::arg("seconds"))
      .def("fileno", &connection::number)
      .def("peer_user", &connection::peer_user)
      .def("send", &connection::send, nb::arg("data"))
      .def("receive", &connection::receive, nb::arg("most"),
           nb::sig("def receive(self, most: int) -> tuple[bytes, list[_Descriptor]]"),
           "One message, empty at the end, and at most one descriptor.")
      .def("close", &connection::close);
  nb::class_<lease>(m, "_Lease", nb::is_weak_referenceable(),
                    "Says when it is dropped, with the message `end`, that memory of another process is not "
                    "used any more. Appends the broker and the connection to `idle` then.")
      .def(nb::init<nb::list, nb::bytes, nb::object, nb::bytes>(), nb::arg("idle"), nb::arg("broker"),
           nb::arg("connection"), nb::arg("end"),
           nb::sig("def __init__(self, idle: list[tuple[bytes, _Connection]], broker: bytes, connection: "
                   "_Connection, end: bytes) -> None"))
      .def("ended", &lease::ended,
           "Whether the exporter has ended: what is open stays, and nobody else can open it.");
}

} // namespace saeta::py
