#!/usr/bin/env bash
# Runs every static check, then lists those that failed. A check whose tool is missing counts as failed.
#
#   scripts/lint.sh [--allow-missing] [--changed]
#
# --allow-missing   skips checks whose tool is missing; not for CI
# --changed         checks formatting, ruff and clang-tidy only for files that differ from the main branch
#                   (scripts/changed_files.sh), and the rules of the whole tree, which take a second; no mypy
set -euo pipefail
cd "$(dirname "$0")/.."

python=python3
[[ -x .deps/venv/bin/python ]] && python=.deps/venv/bin/python
build=build/lint
failed=()
not_checked=()
allow_missing=no
changed=no
for option in "$@"; do
  case $option in
  --allow-missing) allow_missing=yes ;;
  --changed) changed=yes ;;
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

files() { # files <folder>... -- <ending>...: prints all files, or with --changed those that differ
  local folders=() names=()
  while [[ $1 != -- ]]; do folders+=("$1") && shift; done
  shift
  for ending in "$@"; do names+=(-o -name "*.$ending"); done
  if [[ $changed == yes ]]; then
    scripts/changed_files.sh | grep -E "^($(IFS='|' && echo "${folders[*]}"))/.*\.($(IFS='|' && echo "$*"))$" || true
  else
    find "${folders[@]}" -type f \( "${names[@]:1}" \)
  fi
}

clang_tidy() { # clang_tidy <commands> <option>... -- <file>...
  local commands=$1 options=()
  shift
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  shift
  # Removes counts of warnings in system headers, and the command lines.
  run-clang-tidy -quiet -j "${JOBS:-$(nproc)}" -p "$build/tidy/$commands" "${options[@]}" \
    -extra-arg=-Wno-unknown-warning-option "${@/%/\$}" 2>&1 | grep -Ev '^(clang-tidy|.*warnings?( and [0-9]+ errors?)? (generated|treated)|$)'
  return "${PIPESTATUS[0]}"
}

mapfile -t cxx < <(files saeta python/src tests bench examples -- hpp cpp cu cuh)
mapfile -t sources < <(files saeta -- cpp)
python_files=(.)
if [[ $changed == yes ]]; then
  mapfile -t python_files < <(files python scripts tests bench examples -- py)
fi

check structure "$python" scripts/lint_structure.py
if has codespell "$python" -m codespell_lib --version; then
  check codespell "$python" -m codespell_lib
fi
if has clang-format clang-format --version && ((${#cxx[@]})); then
  check clang-format clang-format --dry-run -Werror "${cxx[@]}"
fi
if has ruff "$python" -m ruff --version && ((${#python_files[@]})); then
  check ruff "$python" -m ruff check "${python_files[@]}"
  check "ruff format" "$python" -m ruff format --check "${python_files[@]}"
fi
# mypy needs the stubs of the compiled modules, which make package builds.
if [[ $changed == no ]] && has mypy "$python" -m mypy --version; then
  check mypy "$python" -m mypy
fi
if has clang-tidy run-clang-tidy -h && ((${#sources[@]})); then
  sources=("${sources[@]/#/$PWD/}")
  # Writes the compile commands, and the headers that CMake generates.
  cmake --preset dev -B "$build" -DSAETA_UNITY=ON >/dev/null
  "$python" scripts/tidy_commands.py "$build"
  if [[ $changed == yes ]]; then
    check clang-tidy clang_tidy single -- "${sources[@]}"
  else
    # The unity sources, in half the time of each source by itself, which --changed checks.
    check clang-tidy clang_tidy batch -- '.*'
  fi
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
