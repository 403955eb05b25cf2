#include "saeta/transfer/host_array.hpp"

#include "saeta/base/text.hpp"

#include <algorithm>

namespace saeta {

dictionary_cache::key dictionary_cache::key_of(const host_array& dictionary) {
  key made;
  append_key(dictionary, made);
  return made;
}

void dictionary_cache::append_key(const host_array& of, key& made) {
  for (const auto& range : of.buffers) {
    made.first.push_back(range.data());
  }
  made.second.insert(made.second.end(), {of.offset, of.length});
  for (const host_array& child : of.children) {
    append_key(child, made);
  }
  if (of.dictionary != nullptr) {
    append_key(*of.dictionary, made);
  }
}

std::shared_ptr<const column> dictionary_cache::find(const host_array& dictionary) const {
  const auto [first, last] = known_.equal_range(key_of(dictionary));
  const auto found = std::find_if(
      first, last, [&](const auto& each) { return each.second.uploaded->type() == dictionary.type; });
  return found != last ? found->second.uploaded : nullptr;
}

void dictionary_cache::remember(const host_array& dictionary, std::shared_ptr<const column> uploaded,
                                std::shared_ptr<void> source) {
  known_.emplace(key_of(dictionary), entry{std::move(uploaded), nullptr, std::move(source)});
}

std::shared_ptr<const symbol_mapping> dictionary_cache::find_symbols(const host_array& dictionary) const {
  const auto found = known_symbols_.find(key_of(dictionary));
  return found != known_symbols_.end() ? found->second.symbols : nullptr;
}

void dictionary_cache::remember(const host_array& dictionary, std::shared_ptr<const symbol_mapping> symbols,
                                std::shared_ptr<void> source) {
  known_symbols_[key_of(dictionary)] = {nullptr, std::move(symbols), std::move(source)};
}

} // namespace saeta
