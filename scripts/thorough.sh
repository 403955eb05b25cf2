#!/usr/bin/env bash
# What takes too long for every change: each installed header alone and a static library in another project, every C++
# test under AddressSanitizer with UndefinedBehaviorSanitizer and under ThreadSanitizer, longer tests of shared tables, a
# minute of each fuzzer, the tests of the site, and a wheel in a clean environment. Some 70 minutes on two cores.
# `make thorough` builds the preset dev before it.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

part() { # part <name>
  echo "== $((SECONDS / 60)) min: $1"
}

part "headers and a static library"
ctest --preset dev -C thorough -R '^(headers|consumer_static)$'
part "shared tables"
SAETA_SHARING_ROUNDS=200 PYTHONPATH=$PWD/build/dev/python .deps/venv/bin/python -m pytest -q tests/python/test_sharing.py
part "AddressSanitizer"
cmake --preset asan
cmake --build --preset asan -j "$jobs"
# libarrow's own allocator would hide what runs past a decoded buffer.
ARROW_DEFAULT_MEMORY_POOL=system ctest --preset asan -j "$jobs"
part "fuzzers"
# The same inputs for every change: what chance finds in old code is looked for by `make explore`.
SEED=1 RUNS=5000 scripts/fuzz.sh 60
part "site"
make docs
part "wheel"
# What the wheels are made of, and that they work: one for the newest Pythons, unoptimised, without CUDA and for two
# releases of pyarrow, which takes a twentieth of the time of those that are shipped.
wheels=build/wheel-check
scripts/build_wheels.py --newest --pyarrow 25,26 --no-cuda --output "$wheels" \
  -C build-dir="$wheels/build" -C cmake.build-type=Debug -C cmake.define.CMAKE_CXX_FLAGS_DEBUG=-O0
scripts/check_wheels.py --wheels "$wheels" --pyarrow 25 --quick
part "ThreadSanitizer"
cmake --preset tsan
cmake --build --preset tsan -j "$jobs"
ctest --preset tsan -j "$jobs"
