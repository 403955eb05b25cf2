#!/usr/bin/env bash
# Runs every benchmark at its default size, which takes seconds each: a check that they work, and a first look
# at the numbers.
#
#   scripts/bench.sh BUILD
#
# Each program writes its result, with machine, versions, commit and command, to BUILD/bench/<name>.json.
# Numbers to publish need larger runs by hand: the top of each source lists the options, and docs/benchmarks.md
# has the rules. bench/summary.py updates the tables of bench/results, bench/plot.py draws the results of
# allocate.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
python=$([ -x .deps/venv/bin/python ] && echo .deps/venv/bin/python || echo python3)
# jemalloc needs more static thread-local storage than the loader reserves for libraries opened by dlopen.
export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384${GLIBC_TUNABLES:+:$GLIBC_TUNABLES}
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
if compgen -G "$build/python/saeta/_core.*.so" >/dev/null; then
  for name in allocate_python handover_python kernels_python read_sizes rows staging_python; do
    echo "== $name"
    PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} "$python" "bench/$name.py" --rounds 2 \
      --out "$build/bench/$name.json" --commit "$commit"
  done
  for name in pack spill; do
    echo "== $name"
    PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} "$python" "bench/$name.py" --mib 64 \
      --out "$build/bench/$name.json" --commit "$commit"
  done
  echo "== movement"
  PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} "$python" bench/movement.py --quick \
    --out "$build/bench/movement.json" --commit "$commit"
  echo "== streams"
  PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} "$python" bench/streams.py --quick \
    --out "$build/bench/streams.json" --commit "$commit"
  echo "== scale_check"
  PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} "$python" bench/scale_check.py local --rounds 1 --file-mib 4 \
    --out "$build/bench/scale_check.json" --commit "$commit"
  echo "== cold_reads"
  PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} "$python" bench/cold_reads.py --mib 64 --rounds 2 \
    --folder "$build/bench" --out "$build/bench/cold_reads.json" --commit "$commit" ||
    echo "left out: cold_reads (files of $build/bench stay in memory)"
  echo "== ray_transfers"
  PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH} "$python" bench/ray_transfers.py --mib 64 --rounds 2 \
    --out "$build/bench/ray_transfers.json" --commit "$commit" || echo "left out: ray_transfers"
else
  echo "left out: the programs in Python (the build has no Python package)"
fi
echo "results: $build/bench"
