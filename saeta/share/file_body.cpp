// Bodies in files that have no name: the system removes them with their last descriptor.
#include "saeta/base/os_error.hpp"
#include "saeta/memory/use_token.hpp"
#include "saeta/share/spilled_body.hpp"
#include "saeta/staging/staging_ring.hpp"
#include "saeta/staging/transfer_plan.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace saeta {
namespace {

error failed(std::string_view action, const std::string& folder, int number) {
  return os_error(concat("can't ", action, " a spill file in '", folder, "'"), number);
}

/// An open file without a name.
class nameless_file {
public:
  explicit nameless_file(std::string folder) : folder_(std::move(folder)), descriptor_(open(folder_)) {}
  nameless_file(nameless_file&& other) noexcept
      : folder_(std::move(other.folder_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  nameless_file& operator=(nameless_file&&) = delete;
  ~nameless_file() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }

  void write(std::span<const std::byte> bytes, std::size_t offset) const {
    while (!bytes.empty()) {
      const ssize_t done = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) {
        continue;
      }
      if (done <= 0) {
        throw failed(concat("write ", bytes.size(), " bytes to"), folder_, done == 0 ? ENOSPC : errno);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(done));
      offset += static_cast<std::size_t>(done);
    }
  }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }

private:
  static int open(const std::string& folder) {
    int made = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (made < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) { // a file system without such files
      std::string name = (std::filesystem::path(folder) / ".saeta-spill-XXXXXX").string();
      made = ::mkostemp(name.data(), O_CLOEXEC);
      if (made >= 0) {
        ::unlink(name.c_str());
      }
    }
    if (made < 0) {
      throw failed("make", folder, errno);
    }
    return made;
  }

  std::string folder_;
  int descriptor_;
};

/// The address range of a file. The staging ring names bytes of files by it, and reads them by pread.
class file_mapping {
public:
  file_mapping(const nameless_file& file, std::size_t bytes)
      : memory_(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), 0)), bytes_(bytes) {
    if (memory_ == MAP_FAILED) {
      throw failed(concat("map ", bytes, " bytes of"), file.folder(), errno);
    }
  }
  file_mapping(const file_mapping&) = delete;
  file_mapping& operator=(const file_mapping&) = delete;
  ~file_mapping() { ::munmap(memory_, bytes_); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(memory_), bytes_};
  }

private:
  void* memory_;
  std::size_t bytes_;
};

class body_in_file final : public spilled_body {
public:
  body_in_file(tier_charge charge, nameless_file file, std::size_t bytes)
      : spilled_body(std::move(charge)), file_(std::move(file)), bytes_(bytes) {}

  [[nodiscard]] spill_tier tier() const noexcept override { return spill_tier::file; }

  [[nodiscard]] buffer restore(const std::shared_ptr<context>& into) const override {
    const file_mapping mapped(file_, bytes_);
    transfer_plan plan;
    plan.add(mapped.bytes());
    plan.finish();
    const file_region region{mapped.bytes().data(), bytes_, file_.descriptor(), 0};
    return staging_ring::of(into)->upload(into, plan, "spill", region).slice(0, bytes_);
  }

  [[nodiscard]] std::vector<std::span<const std::byte>> parts() const override { return {}; } // the last tier

private:
  nameless_file file_;
  std::size_t bytes_;
};

} // namespace

spilled_pointer file_body(const std::shared_ptr<context>& ctx, const buffer& body, tier_charge charge,
                          const std::string& folder, std::span<std::byte> window) {
  nameless_file file(folder);
  if (ctx->on_host()) {
    use_token token(ctx->work_stream(), {reads(body)});
    file.write({token.data<std::byte>(body), body.size()}, 0);
    token.finish();
  } else {
    const auto ring = staging_ring::of(ctx);
    for (std::size_t at = 0; at < body.size(); at += window.size()) {
      const std::size_t bytes = std::min(window.size(), body.size() - at);
      const download_range part{body.slice(at, bytes), window.data()};
      ring->download({&part, 1});
      file.write(window.first(bytes), at);
    }
  }
  return std::make_shared<body_in_file>(std::move(charge), std::move(file), body.size());
}

spilled_pointer moved_to_file(const spilled_body& from, std::size_t bytes, tier_charge charge,
                              const std::string& folder) {
  nameless_file file(folder);
  std::size_t at = 0;
  for (const auto& part : from.parts()) {
    file.write(part, at);
    at += part.size();
  }
  return std::make_shared<body_in_file>(std::move(charge), std::move(file), bytes);
}

} // namespace saeta
