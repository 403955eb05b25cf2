#include "saeta/share/shared_table.hpp"

#include "saeta/base/os_error.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/share/broker.hpp"
#include "saeta/share/imported_pools.hpp"
#include "saeta/share/lease.hpp"
#include "saeta/share/sealed_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <unistd.h>

namespace saeta {
namespace {

using namespace sharing;

constexpr std::string_view opening = "the table can't be opened";
constexpr std::size_t sizes_bytes = 2 * sizeof(std::uint64_t);

/// Says at the beginning of the messages of the system and of other processes what they have refused.
template <class Call>
auto saying(std::string_view what, Call&& call) {
  try {
    return call();
  } catch (const error& failure) {
    const bool is_ours =
        failure.code() == errc::closed || failure.code() == errc::exchange || failure.code() == errc::io;
    if (!is_ours) {
      throw;
    }
    throw error(failure.code(), concat(what, ": ", failure.message()), failure.error_number(),
                failure.where());
  }
}

struct packed_sizes {
  std::uint64_t body = 0;
  std::uint64_t metadata = 0;
};

packed_sizes sizes_of(std::span<const std::byte> reply) {
  packed_sizes found;
  std::memcpy(&found.body, reply.data(), sizeof found.body);
  std::memcpy(&found.metadata, reply.data() + sizeof found.body, sizeof found.metadata);
  return found;
}

void open_file(opened_form& into, int file, packed_sizes sizes, std::shared_ptr<void> held) {
  if (sizes.metadata > std::uint64_t(-1) - sizes.body) {
    throw error(errc::format, concat("the process that shared the table sent the sizes ", sizes.body, " and ",
                                     sizes.metadata, ", which are more than a number holds"));
  }
  const auto mapping = std::make_shared<file_mapping>(file, sizes.body + sizes.metadata, std::move(held));
  const std::span<const std::byte> bytes = mapping->bytes();
  const std::span<const std::byte> metadata = bytes.subspan(sizes.body);
  into.metadata.assign(metadata.begin(), metadata.end());
  external_memory memory;
  memory.pointer = const_cast<std::byte*>(bytes.data()); // read-only
  memory.bytes = sizes.body;
  memory.device = into.home->device();
  memory.kind = memory_kind::host;
  memory.keepalive = mapping;
  memory.tag = "packed body";
  into.body = buffer::adopt(into.home, std::move(memory));
}

std::vector<std::byte> read_file(int file, std::uint64_t bytes) {
  require_sealed(file, bytes);
  std::vector<std::byte> found(bytes);
  for (std::size_t at = 0; at < found.size();) {
    const auto read = ::pread(file, found.data() + at, found.size() - at, static_cast<off_t>(at));
    if (read < 0 && errno == EINTR) {
      continue;
    }
    if (read <= 0) {
      throw os_error(concat(opening, ": its metadata can't be read"), read < 0 ? errno : EIO);
    }
    at += static_cast<std::size_t>(read);
  }
  return found;
}

void open_on_device(opened_form& into, const share_token& token, leased found, packed_sizes sizes) {
  const std::span<const std::byte> reply = std::span(found.reply).subspan(sizes_bytes);
  std::span<const std::byte> shared = reply;
  if (found.file.is_open()) {
    into.metadata = read_file(found.file.number(), sizes.metadata);
  } else {
    if (sizes.metadata > reply.size()) {
      throw error(errc::format, concat("the process that shared the table sent ", found.reply.size(),
                                       " bytes, which can't have metadata of ", sizes.metadata, " bytes"));
    }
    shared = reply.first(reply.size() - sizes.metadata);
    const auto metadata = reply.last(sizes.metadata);
    into.metadata.assign(metadata.begin(), metadata.end());
  }
  if (sizes.body != 0) {
    into.body =
        saying(opening, [&] { return open_device_bytes(into.home, token, shared, found.held, "share"); });
  }
}

void open_own(opened_form& into, const std::shared_ptr<exported>& memory,
              const opened_form::choose_context& choose) {
  const share_token& token = memory->token();
  into.here = memory;
  if (token.device) {
    into.home = memory->home();
    into.body = memory->body();
    into.metadata.assign(memory->metadata().begin(), memory->metadata().end());
    return;
  }
  into.home = choose(token, true);
  require_argument(into.home, "ctx");
  open_file(into, memory->file(), sizes_of(memory->reply()), memory);
}

request_kind open_kind(const share_token& token) noexcept {
  return token.posted ? request_kind::take : request_kind::open;
}

void require_this_machine(const share_token& token) {
  if (token.machine != machine_id()) {
    throw error(errc::exchange, concat(opening, ": the token was made on another machine, or before this one "
                                                "was started again"));
  }
}

std::shared_ptr<broker> own_broker(std::string_view what) {
  return saying(what, [] { return broker::own(); });
}

} // namespace

const share_token& shared_table::token() const { return held_by(memory_, "shared_table").token(); }

shared_table share(const std::shared_ptr<context>& ctx, ipc::packed_table packed) {
  std::shared_ptr<exported> memory = exported::packed(ctx, std::move(packed));
  own_broker("the table can't be shared")->add(memory);
  return shared_table(std::move(memory));
}

shared_table share(const table& source) { return share(source.ctx(), ipc::pack(source)); }

opened_form opened_form::open(const share_token& token, const choose_context& choose) {
  require_this_machine(token);
  opened_form made;
  const std::shared_ptr<broker> own = own_broker(opening);
  if (token.broker == own->name()) {
    const std::shared_ptr<exported> memory = own->find(token.key);
    if (memory == nullptr) {
      throw error(errc::closed,
                  concat(opening, ": it is not shared any more: keep the token until it is opened"));
    }
    open_own(made, memory, choose);
    if (token.posted) {
      own->note_arrival(memory);
    }
    return made;
  }
  leased found = saying(opening, [&] { return ask(token.broker, open_kind(token), token.key); });
  if (found.reply.size() < sizes_bytes || (!found.file.is_open() && !token.device)) {
    throw error(errc::format, "the process that shared the table sent no table");
  }
  const bool in_file = found.file.is_open() && (!token.device || found.reply.size() == sizes_bytes);
  const packed_sizes sizes = sizes_of(found.reply);
  made.home = choose(token, in_file);
  require_argument(made.home, "ctx");
  made.lease = found.held;
  if (in_file) {
    open_file(made, found.file.number(), sizes, std::move(found.held));
  } else {
    open_on_device(made, token, std::move(found), sizes);
  }
  return made;
}

bool opened_form::producer_ended() const {
  const auto held = std::static_pointer_cast<const sharing::lease>(lease.lock());
  return here == nullptr && (held == nullptr || held->ended());
}

table open_shared(const std::shared_ptr<context>& ctx, const share_token& token, validation check) {
  require_argument(ctx, "ctx");
  const opened_form found = opened_form::open(token, [&](const share_token& of, bool on_host) {
    if (on_host != ctx->on_host() || (!on_host && *of.device != device_identity(*ctx))) {
      throw error(errc::invalid_argument,
                  concat("the shared table is on ", on_host ? "the host" : "a GPU",
                         ", and can't be opened in a "
                         "context of ",
                         to_string(ctx->device()), ": open it in one of ", on_host ? "the host" : "that GPU",
                         ", and copy it (compute/copy_to.hpp)"));
    }
    return ctx;
  });
  return ipc::unpack(found.home, found.metadata, found.body, found.here ? validation::structure : check);
}

void post_shared(const share_token& token) {
  saying("the table can't be sent on",
         [&] { static_cast<void>(ask(token.broker, request_kind::post, token.key)); });
}

void note_shared_arrival(const share_token& token) {
  if (const std::shared_ptr<broker> own = broker::running(); own != nullptr && own->name() == token.broker) {
    if (const std::shared_ptr<exported> memory = own->find(token.key)) {
      own->note_arrival(memory);
    }
    return;
  }
  try {
    saying(opening, [&] { static_cast<void>(ask(token.broker, open_kind(token), token.key)); });
  } catch (const error& failure) {
    if (failure.code() != errc::closed) {
      throw;
    }
  }
}

buffer open_shared_bytes(const std::shared_ptr<context>& ctx, const share_token& token, std::string tag) {
  require_argument(ctx, "ctx");
  const std::shared_ptr<broker> own = broker::own();
  const bool here = token.broker == own->name();
  leased found;
  if (here) {
    const std::shared_ptr<exported> memory = own->find(token.key);
    if (memory == nullptr) {
      throw error(errc::closed,
                  "the buffer is not shared any more: keep it, or its handle, until it is opened");
    }
    if (memory->body().present()) {
      return memory->body();
    }
  } else {
    found = ask(token.broker, request_kind::open, token.key);
  }
  std::uint64_t bytes = 0;
  if (found.reply.size() >= sizeof bytes) {
    std::memcpy(&bytes, found.reply.data() + found.reply.size() - sizeof bytes, sizeof bytes);
  }
  if (bytes != token.nbytes) {
    throw error(errc::exchange,
                concat("the handle is of ", token.nbytes, " bytes, but the shared buffer has ", bytes));
  }
  if (found.reply.empty()) {
    return buffer::allocate(ctx, 0, ctx->work_stream(), std::move(tag));
  }
  return open_device_bytes(ctx, token, found.reply, std::move(found.held), std::move(tag));
}

std::vector<std::string> imported_brokers(const context& ctx) { return sharing::imported_brokers(ctx); }

void close_idle_connections() { sharing::close_idle_connections(); }

} // namespace saeta
