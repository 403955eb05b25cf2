#include "saeta/spill/spill_tiers.hpp"

#include "saeta/base/report.hpp"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <exception>
#include <map>

namespace saeta {
namespace {

constexpr std::array<std::string_view, spill_tiers_count> names{"device", "pinned", "pageable", "file"};
/// The disk is slower than the link, so that downloading one window after the other costs little.
constexpr std::uint64_t largest_window = std::uint64_t{16} << 20;
constexpr std::uint64_t smallest_window = std::uint64_t{64} << 10;

/// Whether another tier may succeed after this failure.
bool is_of_one_tier(errc code) noexcept {
  return is_lack_of_room(code) || code == errc::io || code == errc::busy;
}

} // namespace

std::string_view to_string(spill_tier tier) noexcept { return names[static_cast<std::size_t>(tier)]; }

spill_tier parse_spill_tier(std::string_view text) {
  const auto match = std::ranges::find(names, text);
  if (match == names.end() || match == names.begin()) {
    throw error(errc::invalid_argument,
                concat("a table can't be spilled to '", text, "', expected pinned, pageable or file"));
  }
  return static_cast<spill_tier>(match - names.begin());
}

spill_tiers::spill_tiers(context& root)
    : root_(root), folder_(root.options().spill.folder),
      window_bytes_(std::clamp(root.pinned_budget()->limit() / 16, smallest_window, largest_window)) {
  const spill_options& chosen = root.options().spill;
  const auto make = [&](spill_tier tier, std::uint64_t limit) {
    limits_[static_cast<std::size_t>(tier)] =
        budget::create(concat("spilled (", to_string(tier), ") of ", to_string(root.device())), limit);
  };
  make(spill_tier::pinned, chosen.pinned.value_or(budget::unlimited));
  make(spill_tier::pageable, chosen.pageable);
  make(spill_tier::file, chosen.files);
}

spilled_pointer spill_tiers::take(const std::shared_ptr<context>& ctx, const buffer& body,
                                  std::optional<spill_tier> only) {
  std::vector<spill_tier> tried;
  if (only) {
    tried = {*only};
  } else if (root_.on_host()) {
    tried = {spill_tier::file};
  } else if (has_pinned_for(body)) {
    tried = {spill_tier::pinned, spill_tier::pageable, spill_tier::file};
  } else {
    tried = {spill_tier::pageable, spill_tier::file, spill_tier::pinned};
  }
  if (folder_.empty() && !only) {
    std::erase(tried, spill_tier::file);
  }
  std::exception_ptr failure;
  try {
    const std::unique_lock lock(window_mutex_, std::try_to_lock);
    if (lock) { // without the lock, another body is using the window or making one
      make_window(ctx);
    }
  } catch (const error& why) { // tried again for a file
    if (!is_of_one_tier(why.code())) {
      throw;
    }
  }
  for (const spill_tier tier : tried) {
    try {
      return take_into(tier, ctx, body);
    } catch (const error& why) {
      if (!is_of_one_tier(why.code())) {
        throw;
      }
      failure = std::current_exception();
      if (why.code() == errc::io && tier != tried.back()) { // the caller learns of the last one alone
        report_failed_file(why);
      }
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  throw error(errc::unsupported,
              concat("tables of the host can be spilled to files only, and ", no_spill_folder));
}

spilled_pointer spill_tiers::take_into(spill_tier tier, const std::shared_ptr<context>& ctx,
                                       const buffer& body) {
  if (tier == spill_tier::device || (root_.on_host() && tier != spill_tier::file)) {
    throw error(errc::unsupported, concat("a table of ", to_string(root_.device()),
                                          " can't be spilled to the "
                                          "tier ",
                                          to_string(tier), ": that would free nothing"));
  }
  if (tier == spill_tier::file && folder_.empty()) {
    throw error(errc::unsupported, std::string(no_spill_folder));
  }
  tier_charge charge(limit_of(tier), body.size());
  if (tier == spill_tier::pinned) {
    return pinned_body(ctx, body, std::move(charge));
  }
  if (tier == spill_tier::pageable) {
    return pageable_body(ctx, body, std::move(charge));
  }
  const std::lock_guard lock(window_mutex_);
  make_window(ctx);
  return file_body(ctx, body, std::move(charge), folder_, {window_.memory.get(), window_bytes_});
}

void spill_tiers::report_failed_file(const error& why) noexcept {
  if (reported_.exchange(why.error_number()) != why.error_number()) {
    report("spill", concat("tables can't be spilled to files: ", why.message()));
  }
}

std::optional<spill_tier> spill_tiers::slower_with_room(spill_tier from, std::uint64_t bytes) const {
  const auto has_room = [&](spill_tier tier) { return limit_of(tier)->statistics().remaining >= bytes; };
  if (from < spill_tier::pageable && has_room(spill_tier::pageable) &&
      root_.pinned_budget()->statistics().remaining >= bytes) {
    return spill_tier::pageable;
  }
  return !folder_.empty() && has_room(spill_tier::file) ? std::optional(spill_tier::file) : std::nullopt;
}

spilled_pointer spill_tiers::move_on(const spilled_body& body, spill_tier to) {
  return body.moved(to, [&](const spilled_body& from) {
    const std::uint64_t bytes = from.stored_bytes();
    tier_charge charge(limit_of(to), bytes);
    return to == spill_tier::file
               ? moved_to_file(from, bytes, std::move(charge), folder_)
               : moved_to_pageable(root_.shared_from_this(), from, bytes, std::move(charge));
  });
}

void spill_tiers::make_window(const std::shared_ptr<context>& ctx) {
  if (window_.memory == nullptr && !root_.on_host() && !folder_.empty()) {
    window_ = host_pool_of(ctx)->take(window_bytes_, ctx->charge_host(window_bytes_, "spill"));
  }
}

bool spill_tiers::has_pinned_for(const buffer& body) {
  const budget& limit = *limit_of(spill_tier::pinned);
  const std::uint64_t room =
      std::min(limit.statistics().remaining, root_.pinned_budget()->statistics().remaining);
  if (room < body.size()) {
    return false;
  }
  root_.drain(); // blocks whose copies have finished go back to the pool
  std::map<std::size_t, std::size_t> kept;
  std::vector<std::size_t> missing;
  for (const std::size_t bytes : pinned_sizes(body.size())) {
    const auto [left, first] = kept.try_emplace(bytes, 0);
    if (first) {
      left->second = root_.kept_pinned(bytes);
    }
    if (left->second == 0) {
      missing.push_back(bytes);
    } else {
      --left->second;
    }
  }
  const bool complete = missing.empty();
  if (!complete) {
    grow(std::move(missing));
  }
  return complete;
}

void spill_tiers::grow(std::vector<std::size_t> sizes) {
  if (growing_.exchange(true)) {
    return;
  }
  const bool started = grower_.start([this, wanted = std::move(sizes)] {
    page_lock(wanted);
    growing_ = false;
  });
  if (!started) {
    report("spill", "no thread can be started that page-locks memory for spilled tables");
    growing_ = false;
  }
}

/// Page-locks memory and returns it to the pool, which keeps it for later bodies. Nothing stays charged.
void spill_tiers::page_lock(const std::vector<std::size_t>& sizes) noexcept {
  std::vector<block> blocks;
  try {
    blocks.reserve(sizes.size());
    for (const std::size_t bytes : sizes) {
      if (root_.pinned_budget()->statistics().remaining < bytes) {
        break;
      }
      blocks.push_back(root_.pinned().allocate({bytes, 0, "spill", nullptr, nullptr}, root_.work_stream()));
    }
  } catch (const error& refused) {
    if (!is_lack_of_room(refused.code())) {
      report_current_exception("page-locking memory for spilled tables");
    }
  } catch (...) {
    report_current_exception("page-locking memory for spilled tables");
  }
  for (const block& block : blocks) {
    if (!root_.pinned().deallocate(block, {})) {
      with_report_text([](std::string_view text) { report("spill", text); },
                       "page-locked memory could not be given back", "page-locked memory of ", block.bytes,
                       " bytes could not be given back");
    }
  }
}

} // namespace saeta
