// Makes the columns that view the slab of a whole read.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/ipc/read/planned_dictionaries.hpp"
#include "saeta/ipc/read/whole_plan.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace saeta::ipc::detail {

class whole_columns {
public:
  whole_columns(std::shared_ptr<context> ctx, const whole_plan& plan, const scattered& made,
                const planned_dictionaries& dictionaries)
      : ctx_(std::move(ctx)), plan_(plan), made_(made), dictionaries_(dictionaries) {}

  /// Makes the column of node `number` of a group, with its children. Groups with the same dictionary share
  /// it.
  [[nodiscard]] column make(const planned_table& table, const planned_group& group, std::size_t number);

private:
  [[nodiscard]] buffer in_slab(const slab_place& place) const;
  [[nodiscard]] dictionary_state longest(const planned_table& table, const piece_group& group,
                                         std::size_t number) const;
  [[nodiscard]] std::shared_ptr<const column> dictionary(const dictionary_state& state, std::size_t number);

  std::shared_ptr<context> ctx_;
  const whole_plan& plan_;
  const scattered& made_;
  const planned_dictionaries& dictionaries_;
  /// Dictionaries by number, group and rows.
  std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, std::shared_ptr<const column>> known_;
};

} // namespace saeta::ipc::detail
