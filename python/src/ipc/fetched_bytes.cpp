#include "python/src/ipc/fetched_bytes.hpp"

#include "python/src/core/python_bytes.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace saeta::py {
namespace {

std::uint64_t end_of_range(const ipc::byte_range& range) noexcept { return range.offset + range.bytes; }

std::span<const std::byte> slice(std::span<const std::byte> content, std::uint64_t first,
                                 std::uint64_t end) noexcept {
  return content.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
}

/// Places of ranges, as long as it lives.
class held_places {
public:
  held_places(std::shared_ptr<fetched_bytes> in, std::vector<ipc::byte_range> ranges)
      : in_(std::move(in)), ranges_(std::move(ranges)) {
    in_->place(ranges_);
  }
  held_places(const held_places&) = delete;
  held_places& operator=(const held_places&) = delete;
  ~held_places() { in_->forget(ranges_); }

private:
  std::shared_ptr<fetched_bytes> in_;
  std::vector<ipc::byte_range> ranges_;
};

} // namespace

void fetched_bytes::place(std::span<const ipc::byte_range> ranges) {
  const std::lock_guard lock(mutex_);
  for (const ipc::byte_range& range : ranges) {
    if (range.memory != nullptr && range.bytes != 0) {
      places_.insert_or_assign(range.offset, range);
    }
  }
}

void fetched_bytes::forget(std::span<const ipc::byte_range> ranges) {
  for (const ipc::byte_range& range : ranges) {
    if (range.memory == nullptr) {
      continue;
    }
    const auto is_in_place = [&](const part& part) { return part.owner == range.memory; };
    const parts dropped = take(range.offset, end_of_range(range), is_in_place);
    const std::lock_guard lock(mutex_);
    if (const auto known = places_.find(range.offset);
        known != places_.end() && known->second.memory == range.memory) {
      places_.erase(known);
    }
  }
}

bool fetched_bytes::add(std::uint64_t offset, std::span<const std::byte> content,
                        const std::shared_ptr<const void>& owner) {
  parts fresh = content.empty() ? parts() : bring(offset, content, owner);
  const bool is_kept = fresh.size() == 1 && fresh.begin()->second.owner == owner;
  parts replaced;
  const std::lock_guard lock(mutex_);
  while (!fresh.empty()) {
    auto added = fresh.extract(fresh.begin());
    replaced.insert(parts_.extract(added.key()));
    parts_.insert(std::move(added));
  }
  return is_kept;
}

void fetched_bytes::remove(std::uint64_t offset, std::uint64_t end) {
  const parts dropped = take(offset, end, [](const part&) { return true; });
}

bool fetched_bytes::copy(std::uint64_t offset, std::span<std::byte> target) const {
  const std::uint64_t end = offset + target.size();
  const auto found = find(offset, end);
  for (const auto& [begin, part] : found) {
    const std::uint64_t first = std::max(begin, offset);
    const auto bytes = slice(part.bytes, first - begin, std::min(end, begin + part.bytes.size()) - begin);
    std::byte* const to = target.data() + (first - offset);
    if (to != bytes.data()) {
      std::memcpy(to, bytes.data(), bytes.size());
    }
  }
  return !found.empty() || target.empty();
}

fetched_bytes::parts fetched_bytes::bring(std::uint64_t offset, std::span<const std::byte> content,
                                          const std::shared_ptr<const void>& owner) const {
  const std::uint64_t end = offset + content.size();
  std::vector<ipc::byte_range> places;
  {
    const std::lock_guard lock(mutex_);
    auto place = places_.upper_bound(offset);
    if (place != places_.begin() && end_of_range(std::prev(place)->second) > offset) {
      --place;
    }
    for (; place != places_.end() && place->first < end; ++place) {
      places.push_back(place->second);
    }
  }
  if (places.empty()) {
    return {{offset, {content, owner}}};
  }
  parts kept;
  const auto keep_rest = [&](std::uint64_t first, std::uint64_t last) {
    if (first < last) { // metadata of messages, which are small beside their bodies
      const auto rest = slice(content, first - offset, last - offset);
      const auto copied = std::make_shared<std::vector<std::byte>>(rest.begin(), rest.end());
      kept[first] = {*copied, copied};
    }
  };
  std::uint64_t at = offset;
  for (const ipc::byte_range& place : places) {
    const std::uint64_t first = std::max(place.offset, at);
    const std::uint64_t last = std::min(end_of_range(place), end);
    keep_rest(at, first);
    const auto bytes = slice(content, first - offset, last - offset);
    std::byte* const to = place.memory.get() + (first - place.offset);
    std::memcpy(to, bytes.data(), bytes.size());
    kept[first] = {{to, bytes.size()}, place.memory};
    at = last;
  }
  keep_rest(at, end);
  return kept;
}

std::vector<std::pair<std::uint64_t, fetched_bytes::part>> fetched_bytes::find(std::uint64_t offset,
                                                                               std::uint64_t end) const {
  std::vector<std::pair<std::uint64_t, part>> found;
  const std::lock_guard lock(mutex_);
  while (offset < end) {
    const auto after = parts_.upper_bound(offset);
    if (after == parts_.begin() ||
        std::prev(after)->first + std::prev(after)->second.bytes.size() <= offset) {
      return {};
    }
    found.emplace_back(*std::prev(after));
    offset = found.back().first + found.back().second.bytes.size();
  }
  return found;
}

fetched_bytes::parts fetched_bytes::take(std::uint64_t offset, std::uint64_t end,
                                         const std::function<bool(const part&)>& wanted) {
  parts taken;
  const std::lock_guard lock(mutex_);
  for (auto each = parts_.lower_bound(offset); each != parts_.end() && each->first < end;) {
    const auto here = each++;
    if (wanted(here->second)) {
      taken.insert(parts_.extract(here));
    }
  }
  return taken;
}

std::shared_ptr<void> fetch_ranges(const nb::object& fetch, const std::shared_ptr<fetched_bytes>& fetched,
                                   std::span<const ipc::byte_range> ranges) {
  const auto places =
      std::make_shared<held_places>(fetched, std::vector<ipc::byte_range>(ranges.begin(), ranges.end()));
  const gil_acquire acquire;
  nb::object kept = foreign_call([&] {
    nb::list list;
    for (const auto& each : ranges) {
      list.append(nb::make_tuple(each.offset, each.bytes));
    }
    return nb::object(fetch(list));
  });
  return {kept.release().ptr(),
          [places](PyObject* object) { with_gil_or_leak([object] { Py_DECREF(object); }); }};
}

void bind_fetched_bytes(nb::module_& m) {
  nb::class_<fetched_bytes>(m, "FetchedBytes",
                            "The bytes of a source that were fetched ahead. Any thread may use it.")
      .def(nb::init<>())
      .def(
          "add",
          [](fetched_bytes& self, std::uint64_t offset, nb::handle content) {
            const auto bytes = std::make_shared<python_bytes>(content);
            const gil_release release;
            return self.add(offset, bytes->span(), bytes);
          },
          nb::arg("offset"), nb::arg("content"),
          nb::sig("def add(self, offset: int, content: memoryview) -> bool"),
          "Adds bytes. They are copied to their place if the reader gave one, else kept. Returns whether "
          "they "
          "are kept.")
      .def("remove", &fetched_bytes::remove, nb::arg("offset"), nb::arg("end"),
           "Removes what was added from `offset` on, up to `end`.")
      .def(
          "copy",
          [](const fetched_bytes& self, std::uint64_t offset, nb::handle target) {
            const writable_bytes to(target);
            const gil_release release;
            return self.copy(offset, to.span());
          },
          nb::arg("offset"), nb::arg("target"),
          nb::sig("def copy(self, offset: int, target: memoryview) -> bool"),
          "Copies bytes that were added. False, and nothing is copied, if some are missing.");
}

} // namespace saeta::py
