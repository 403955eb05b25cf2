#!/usr/bin/env bash
# Runs every benchmark at its default size, which takes seconds: whether they work, and a first look at the numbers.
#
#   scripts/bench.sh BUILD
#
# A program of bench/ writes its result, with machine, versions, commit and command, to BUILD/bench/<name>.json. For
# figures to publish, run one by hand with a size of its own; each says its options at the top of its source.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
mkdir -p "$build/bench"

shopt -s nullglob
for source in bench/*.cpp bench/micro/*.cpp; do
  name=$(basename "$source" .cpp)
  program=$build/bin/$name
  if [[ ! -x $program ]]; then
    echo "left out: $name (the end of the configuration says why)"
    continue
  fi
  echo "== $name"
  if [[ $source == bench/micro/* ]]; then
    "$program" --benchmark_min_time=0.05 --benchmark_out="$build/bench/$name.json" --benchmark_out_format=json
  else
    "$program" --out "$build/bench/$name.json" --commit "$commit"
  fi
done
echo "results: $build/bench"
