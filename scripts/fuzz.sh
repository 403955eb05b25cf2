#!/usr/bin/env bash
# Builds the fuzzers of tests/fuzz with clang and runs each for a while.
#
#   scripts/fuzz.sh [SECONDS] [FUZZER...]     seconds for each, 60 by default; all of them unless named
#   scripts/fuzz.sh --keep FUZZER INPUT NAME  adds an input to those that the fuzzer starts from
#
# Each fuzzer starts from its folder of tests/fuzz/corpus.tar.gz, unpacked into build/asan/first, and adds
# inputs with new coverage to build/asan/corpus/<name>, where the next run continues. Failing inputs are written
# to build/asan/findings/; run build/asan/bin/fuzz_<name> with such a file to reproduce the failure. JOBS is the
# number of fuzzers that run at the same time, SEED the seed, and RUNS the maximum number of inputs. With SEED
# and RUNS, a run from a fresh tree tries the same inputs on every machine. Exit code 1 if a fuzzer failed.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/asan
archive=tests/fuzz/corpus.tar.gz
rm -rf "$build/first"
mkdir -p "$build/first"
tar -xzf "$archive" -C "$build/first"
if [[ ${1:-} == --keep ]]; then
  mkdir -p "$build/first/$2"
  cp "$3" "$build/first/$2/$4"
  # The same inputs give the same archive.
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=a=rX,u+w -C "$build/first" -cf - . |
    gzip -9n >"$archive"
  exit
fi

seconds=${1:-60}
shift || true
jobs=${JOBS:-$(nproc)}

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
  local first=$build/first/$name
  [[ $name == ipc || $name == message || $name == packed* ]] && longest=8192 # inputs that are whole files
  [[ $name == packed_stream ]] && first=$build/first/packed                  # decodes the same inputs, and compares
  mkdir -p "$build/corpus/$name" "$build/findings" "$first"
  # -len_control=0: long inputs from the start, because a short one is read as zeros. -detect_leaks=0: leaks are
  # checked once at the end, because a check for each input would take nearly all of the time, as would
  # -entropic.
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
