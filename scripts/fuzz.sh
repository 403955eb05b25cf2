#!/usr/bin/env bash
# Builds the fuzzers of tests/fuzz with clang and runs each for a while.
#
#   scripts/fuzz.sh [SECONDS] [FUZZER...]     seconds for each, 60 by default; all of them unless named
#
# Each starts from tests/fuzz/corpus/<name> and keeps what it finds interesting in build/asan/corpus/<name>,
# so that the next run goes on from there. An input that fails is kept in build/asan/findings/; give it to
# build/asan/bin/fuzz_<name> to see it again. JOBS says how many run side by side, SEED where chance begins
# and RUNS how many inputs there are at most: with both, every fresh tree meets the same inputs, on a fast
# machine no others than on a slow one. Exit code 1 when one of them failed.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
jobs=${JOBS:-$(nproc)}
build=build/asan

cmake --preset asan >/dev/null
cmake --build --preset asan -j "$jobs" --target fuzzers | tail -n 1

names=("$@")
if ((${#names[@]} == 0)); then
  for program in "$build"/bin/fuzz_*; do
    names+=("${program##*/fuzz_}")
  done
fi

run() { # run <name>
  local name=$1 log=$build/fuzz_$1.log longest=512
  local first=tests/fuzz/corpus/$name
  [[ $name == ipc || $name == message || $name == packed* ]] && longest=8192 # whole files
  [[ $name == packed_stream ]] && first=tests/fuzz/corpus/packed             # the same inputs, compared
  mkdir -p "$build/corpus/$name" "$build/findings" "$first"
  # Long inputs from the start, because short ones draw nothing but zeros. Leaks are looked for once, at the
  # end: for each input that would take nearly all of the time. So would the counts that entropic keeps.
  local options=(-max_total_time="$seconds" -seed="${SEED:-0}" -runs="${RUNS:--1}" -max_len="$longest" -len_control=0 -entropic=0 -detect_leaks=0 -timeout=20 -rss_limit_mb=2560
    -print_final_stats=1 -artifact_prefix="$build/findings/$name-")
  if "$build/bin/fuzz_$name" "${options[@]}" "$build/corpus/$name" "$first" >"$log" 2>&1; then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, nothing found"
  else
    echo "$name: failed; $log ends with"
    grep -aE '^broken:|ERROR:|runtime error:|SUMMARY|Test unit written' "$log" || tail -n 20 "$log"
    return 1
  fi
}

failed=0
running=0
for name in "${names[@]}"; do
  run "$name" &
  if ((++running >= jobs)); then
    wait -n || failed=1
    ((running--))
  fi
done
while ((running-- > 0)); do
  wait -n || failed=1
done
exit "$failed"
