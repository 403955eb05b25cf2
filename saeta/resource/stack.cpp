#include "saeta/resource/stack.hpp"

#include "saeta/base/text.hpp"
#include "saeta/resource/cache/classes.hpp"
#include "saeta/resource/decorators/logging_resource.hpp"
#include "saeta/resource/driver/driver_resources.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace saeta {
namespace {

template <class Kind>
struct word {
  std::string_view text;
  Kind kind;
};

constexpr std::array<word<decorator_kind>, 5> decorator_words{{{"logging", decorator_kind::logging},
                                                               {"statistics", decorator_kind::statistics},
                                                               {"budget", decorator_kind::budget},
                                                               {"guard", decorator_kind::guard},
                                                               {"fault", decorator_kind::fault}}};
constexpr std::array<word<resource_kind>, 3> base_words{{{"caching", resource_kind::caching},
                                                         {"async", resource_kind::async},
                                                         {"direct", resource_kind::direct}}};

template <class Words>
auto kind_of(const Words& words, std::string_view text) {
  const auto match = std::ranges::find_if(words, [&](const auto& word) { return word.text == text; });
  return match == words.end() ? std::nullopt : std::optional(match->kind);
}

template <class Words, class Kind>
std::string_view word_of(const Words& words, Kind kind) {
  return std::ranges::find_if(words, [&](const auto& word) { return word.kind == kind; })->text;
}

std::string_view trim_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

void require_once(const std::vector<decorator_kind>& layers) {
  for (const auto& decorator_word : decorator_words) {
    if (std::ranges::count(layers, decorator_word.kind) > 1) {
      throw error(errc::invalid_argument,
                  concat("'", decorator_word.text, "' appears more than once in a stack"));
    }
  }
}

/// Returns the requested decorators, with `budget` added if it is missing.
std::vector<decorator_kind> complete(std::vector<decorator_kind> layers) {
  require_once(layers);
  if (std::ranges::find(layers, decorator_kind::budget) == layers.end()) {
    const auto first_below = std::ranges::find_if(layers, [](decorator_kind kind) {
      return kind != decorator_kind::logging && kind != decorator_kind::statistics;
    });
    layers.insert(first_below, decorator_kind::budget);
  }
  return layers;
}

/// Refuses an exportable pool that the stack would not allocate from.
void require_pool(const stack_options& options) {
  const bool cached = options.base == resource_kind::caching;
  const bool custom = options.custom_base || (cached && options.custom_slabs);
  if (options.exportable_pool &&
      (custom || (cached ? options.slabs_from : options.base) != resource_kind::async)) {
    throw error(errc::invalid_argument,
                "an exportable pool needs the base 'async', or 'caching' with slabs from 'async'");
  }
}

void require_parts(const std::vector<decorator_kind>& layers, const stack_parts& parts) {
  if (!parts.device || !parts.limit) {
    throw error(errc::invalid_argument, concat("a stack needs ", parts.device ? "a budget" : "a device"));
  }
  if (!parts.log && std::ranges::find(layers, decorator_kind::logging) != layers.end()) {
    throw error(errc::invalid_argument, "a stack with 'logging' needs an event log");
  }
}

std::shared_ptr<resource> driver_resource(resource_kind kind, const stack_options& options,
                                          const std::shared_ptr<backend>& device) {
  if (kind == resource_kind::direct) {
    return std::make_shared<direct_resource>(device);
  }
  return std::make_shared<async_resource>(device, options.pool_threshold, options.exportable_pool);
}

std::shared_ptr<resource> custom_resource(const resource_source& source,
                                          const std::shared_ptr<backend>& device, std::string_view place) {
  auto result = source(device);
  if (!result) {
    throw error(errc::invalid_argument, concat("the custom ", place, " of a stack is null"));
  }
  return result;
}

std::shared_ptr<resource> make_base(const stack_options& options, const stack_parts& parts,
                                    resource_stack& built) {
  if (options.custom_slabs && (options.custom_base || options.base != resource_kind::caching)) {
    throw error(errc::invalid_argument,
                concat("custom slabs need the base 'caching', but the base of the stack is ",
                       options.custom_base ? "custom" : word_of(base_words, options.base)));
  }
  if (options.custom_base) {
    return custom_resource(options.custom_base, parts.device, "base");
  }
  if (options.base != resource_kind::caching) {
    return driver_resource(options.base, options, parts.device);
  }
  if (options.slabs_from == resource_kind::caching) {
    throw error(errc::invalid_argument,
                "slabs of the cache come from 'async' or 'direct', not from 'caching'");
  }
  // A guard holds more bytes than requested, and keeps freed blocks for a while, so the limit can't bound it.
  const bool guarded = std::ranges::find(options.layers, decorator_kind::guard) != options.layers.end();
  const std::shared_ptr<const budget> bound = guarded ? nullptr : parts.limit;
  built.cache = std::make_shared<caching_resource>(
      options.custom_slabs ? custom_resource(options.custom_slabs, parts.device, "slab source")
                           : driver_resource(options.slabs_from, options, parts.device),
      parts.device, options.caching, bound);
  return built.cache;
}

std::shared_ptr<resource> decorate(decorator_kind kind, std::shared_ptr<resource> below,
                                   const stack_options& options, const stack_parts& parts,
                                   resource_stack& built) {
  switch (kind) {
  case decorator_kind::logging:
    return std::make_shared<logging_resource>(std::move(below), parts.log, parts.limit,
                                              parts.device->device());
  case decorator_kind::statistics:
    return built.statistics = std::make_shared<statistics_resource>(std::move(below));
  case decorator_kind::budget:
    return std::make_shared<budget_resource>(std::move(below), parts.limit, parts.make_room);
  case decorator_kind::guard:
    return built.guard = std::make_shared<guard_resource>(std::move(below), parts.device, options.guard);
  case decorator_kind::fault:
    return built.fault = std::make_shared<fault_resource>(std::move(below));
  }
  throw error(errc::invalid_argument, concat("no decorator has the number ", static_cast<int>(kind)));
}

} // namespace

void parse_stack(std::string_view text, stack_options& into) {
  std::vector<decorator_kind> layers;
  std::optional<resource_kind> base;
  std::optional<resource_kind> slabs;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view word = trim_blanks(text.substr(begin, comma - begin));
    const auto resource = kind_of(base_words, word);
    if (base == resource_kind::caching && !slabs && resource && resource != resource_kind::caching) {
      slabs = resource;
    } else if (base) {
      throw error(errc::invalid_argument, concat("'", word_of(base_words, *base), "' in '", text,
                                                 "' is a base resource, which must come last"));
    } else if (const auto decorator = kind_of(decorator_words, word)) {
      layers.push_back(*decorator);
    } else if (base = resource; !base) {
      throw error(errc::invalid_argument, concat("'", word, "' in '", text,
                                                 "' is not a resource: expected logging, statistics, budget, "
                                                 "guard or fault, and at the end caching, async or direct"));
    }
    begin = comma + 1;
  }
  require_once(layers);
  into.layers = std::move(layers);
  into.base = base.value_or(into.base);
  into.slabs_from = slabs.value_or(into.slabs_from);
  if (slabs == resource_kind::direct) {
    into.caching.largest_cached = cache_classes::most_cached;
  }
}

std::string to_string(const stack_options& options) {
  std::string text;
  for (const decorator_kind layer : options.layers) {
    text += concat(text.empty() ? "" : ", ", word_of(decorator_words, layer));
  }
  if (!options.custom_base) {
    text += concat(text.empty() ? "" : ", ", word_of(base_words, options.base));
    if (options.base == resource_kind::caching && !options.custom_slabs &&
        options.slabs_from != stack_options().slabs_from) {
      text += concat(", ", word_of(base_words, options.slabs_from));
    }
  }
  return text;
}

resource_stack build_stack(const stack_options& options, const stack_parts& parts) {
  const std::vector<decorator_kind> layers = complete(options.layers);
  require_parts(layers, parts);
  require_pool(options);
  resource_stack built;
  std::shared_ptr<resource> top = make_base(options, parts, built);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    top = decorate(*layer, std::move(top), options, parts, built);
  }
  built.top = std::move(top);
  return built;
}

} // namespace saeta
