#include "saeta/share/exported.hpp"

#include "saeta/base/os_error.hpp"
#include "saeta/base/required.hpp"
#include "saeta/memory/export_hold.hpp"
#include "saeta/memory/loans/imported_pool.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/share/broker.hpp"
#include "saeta/share/sealed_file.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/random.h>

namespace saeta {
namespace {

/// The bytes of a shared buffer pass between processes as they are.
static_assert(sizeof(shared_bytes) == sizeof(allocation_name) + 4 * sizeof(std::uint64_t));

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void append_number(std::vector<std::byte>& to, std::uint64_t number) {
  append(to, std::as_bytes(std::span(&number, 1)));
}

share_token::id secret() {
  share_token::id made{};
  if (::getrandom(made.data(), made.size(), 0) != static_cast<ssize_t>(made.size())) {
    throw os_error("a table can't be shared: the system has no random bytes", errno);
  }
  return made;
}

struct known_identity final : context_service {
  explicit known_identity(const context& of) {
    const auto found = of.device_backend()->properties().uuid;
    std::ranges::transform(found, value.begin(), [](std::uint8_t each) { return std::byte{each}; });
  }
  share_token::id value{};
};

} // namespace

share_token::id device_identity(const context& of) {
  return of.services().of<known_identity>([&] { return std::make_unique<known_identity>(of); }).value;
}

exported::exported(key /*own*/, std::shared_ptr<context> home) : home_(std::move(home)) {
  token_.key = secret();
}

std::shared_ptr<exported> exported::packed(const std::shared_ptr<context>& home, ipc::packed_table packed) {
  require_argument(home, "home");
  auto made = std::make_shared<exported>(key{}, home);
  const std::uint64_t body_bytes = packed.body.size();
  made->token_.machine = machine_id();
  made->token_.nbytes = body_bytes + packed.metadata.size();
  append_number(made->reply_, body_bytes);
  append_number(made->reply_, packed.metadata.size());
  if (home->on_host()) {
    made->charged_ = home->with_reservation(made->token_.nbytes);
    if (packed.body.present()) {
      synchronize_handover({&packed.body, 1});
      use_token token(home->work_stream(), {reads(packed.body)});
      made->file_ = sharing::make_sealed_file("saeta table",
                                              {token.span<const std::byte>(packed.body), packed.metadata});
      token.finish();
    } else {
      made->file_ = sharing::make_sealed_file("saeta table", {packed.metadata});
    }
    return made;
  }
  made->token_.device = device_identity(*home);
  made->body_ = shareable(packed.body, "share");
  if (body_bytes != 0) {
    const shared_bytes shared = share_bytes(made->body_);
    append(made->reply_, std::as_bytes(std::span(&shared, 1)));
  }
  made->metadata_ = std::move(packed.metadata);
  if (made->reply_.size() + made->metadata_.size() < current_share_limits().largest_reply) {
    append(made->reply_, made->metadata_);
  } else {
    made->file_ = sharing::make_sealed_file("saeta metadata", {made->metadata_});
  }
  return made;
}

std::shared_ptr<exported> exported::bytes(const std::shared_ptr<context>& home, buffer bytes) {
  require_argument(home, "home");
  auto made = std::make_shared<exported>(key{}, home);
  made->token_.machine = machine_id();
  made->token_.device = device_identity(*home);
  made->token_.nbytes = bytes.size();
  if (bytes.size() != 0) {
    const shared_bytes shared = share_bytes(bytes);
    append(made->reply_, std::as_bytes(std::span(&shared, 1)));
  }
  made->body_ = std::move(bytes);
  return made;
}

} // namespace saeta
