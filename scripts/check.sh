#!/usr/bin/env bash
# The quick check: lint of the changed files, the unit tests, and the conformance tests on `host` and `sim`.
# Takes minutes; .ci/run takes twenty.
#
#   scripts/check.sh [BUILD]     a configured build folder, build/dev by default
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/dev}
jobs=${JOBS:-$(nproc)}

scripts/lint.sh --changed
cmake --build "$build" -j "$jobs" --target saeta_check
ctest --test-dir "$build" -j "$jobs" -L 'unit|conformance' -LE gpu --output-on-failure
