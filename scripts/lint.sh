#!/usr/bin/env bash
# Every static check. Runs all of them, then says which ones failed; a check whose tool is missing is named as left out.
set -euo pipefail
cd "$(dirname "$0")/.."

python=python3
[[ -x .deps/venv/bin/python ]] && python=.deps/venv/bin/python
build=build/dev
failed=()
left_out=()

check() { # check <name> <command...>
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

has() { # has <name of the check> <command that shows that the tool is there...>
  local name=$1
  shift
  "$@" >/dev/null 2>&1 || { left_out+=("$name"); return 1; }
}

cxx_files() {
  find saeta python/src tests bench examples -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null
}

clang_tidy() {
  # The compile commands of the dev build, and the headers that it generates.
  cmake --preset dev >/dev/null
  # Counts of warnings in system headers and the command lines are no news.
  run-clang-tidy -quiet -j "${JOBS:-$(nproc)}" -p "$build" \
    -extra-arg-before="-isystem$PWD/scripts/clang_tidy/include" -extra-arg=-Wno-unknown-warning-option \
    "$PWD/saeta/.*\.cpp$" 2>&1 | grep -Ev '^(clang-tidy|.*warnings?( and [0-9]+ errors?)? (generated|treated)|$)'
  return "${PIPESTATUS[0]}"
}

check structure "$python" scripts/lint_structure.py
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

for name in "${left_out[@]}"; do
  echo "left out: $name (not installed; scripts/setup.py says how to have it)"
done
if ((${#failed[@]})); then
  echo "lint: failed: ${failed[*]}"
  exit 1
fi
echo "lint: clean"
