#!/usr/bin/env bash
# Every static check. Runs all of them, then says which ones failed. A check whose tool is missing has failed.
#
#   scripts/lint.sh [--allow-missing]     a developer without a tool sees what the others say; never in CI
set -euo pipefail
cd "$(dirname "$0")/.."

python=python3
[[ -x .deps/venv/bin/python ]] && python=.deps/venv/bin/python
build=build/dev
failed=()
not_checked=()
allow_missing=no
for option in "$@"; do
  case $option in
  --allow-missing) allow_missing=yes ;;
  *) echo "no option '$option'" && exit 2 ;;
  esac
done

check() { # check <name> <command...>
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

has() { # has <name of the check> <command that shows that the tool is there...>
  local name=$1
  shift
  "$@" >/dev/null 2>&1 || { not_checked+=("$name"); return 1; }
}

cxx_files() {
  find saeta python/src tests bench examples -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null
}

clang_tidy() {
  # The compile commands of the dev build, and the headers that it generates.
  cmake --preset dev >/dev/null
  "$python" scripts/tidy_commands.py "$build"
  # Counts of warnings in system headers and the command lines are no news.
  run-clang-tidy -quiet -j "${JOBS:-$(nproc)}" -p "$build/tidy" \
    -extra-arg-before="-isystem$PWD/scripts/clang_tidy/include" -extra-arg=-Wno-unknown-warning-option \
    "$PWD/saeta/.*\.cpp$" 2>&1 | grep -Ev '^(clang-tidy|.*warnings?( and [0-9]+ errors?)? (generated|treated)|$)'
  return "${PIPESTATUS[0]}"
}

check structure "$python" scripts/lint_structure.py
check names "$python" scripts/lint_names.py
if has clang-format clang-format --version; then
  check clang-format bash -c 'xargs -r clang-format --dry-run -Werror' < <(cxx_files)
fi
if has ruff "$python" -m ruff --version; then
  check ruff "$python" -m ruff check .
  check "ruff format" "$python" -m ruff format --check .
fi
if has mypy "$python" -m mypy --version; then
  check mypy "$python" -m mypy
fi
if has clang-tidy run-clang-tidy -h; then
  check clang-tidy clang_tidy
fi

for name in "${not_checked[@]}"; do
  echo "not checked: $name (not installed; scripts/setup.py says how to have it)"
done
[[ $allow_missing == yes ]] || failed+=("${not_checked[@]}")
if ((${#failed[@]})); then
  echo "lint: failed: ${failed[*]}"
  exit 1
fi
if ((${#not_checked[@]})); then
  echo "lint: clean, but for what was not checked"
else
  echo "lint: clean"
fi
