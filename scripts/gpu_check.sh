#!/usr/bin/env bash
# Runs every check that needs a GPU, for a release or a pull request that touches CUDA: build, the C++ and Python
# tests, the stress test of early releases, three minutes of tests/soak/soak.py, compute-sanitizer on the
# conformance suite, the demo and the benchmarks.
#
#   scripts/gpu_check.sh OUT [STEP...]     steps: build test sanitize python jax storm soak demo examples bench.
#                                          Without names all of these run. The step peers, for two GPUs, runs
#                                          only when it is named
#
# Needs no network: it uses .deps/ as it is and the system's Python. Writes a log for each step to OUT and a
# line for each to the terminal. Continues after a failed step; the exit code is then 1.
set -uo pipefail
cd "$(dirname "$0")/.."
if (($# == 0)); then
  echo "scripts/gpu_check.sh OUT [STEP...]: a folder for the logs is wanted"
  exit 2
fi
out=$(mkdir -p "$1" && cd "$1" && pwd) || exit 2
shift
steps=${*:-build test sanitize python jax storm soak demo examples bench}
build=build/gpu
python=$([ -x .deps/venv/bin/python ] && echo .deps/venv/bin/python || echo python3)
# The system's compiler: one on the PATH may link libstdc++ statically, which would put a copy into every library.
export CC=/usr/bin/gcc CXX=/usr/bin/g++
export PYTHONPATH=$PWD/$build/python${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)} # COMMIT: for a tree without .git
failed=0

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2 begun=$SECONDS
  shift 2
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  local status=$?
  echo "== $name: exit $status after $((SECONDS - begun)) s"
  if [ "$status" -ne 0 ]; then
    failed=1
    tail -n 40 "$out/$name.log"
  fi
}

for s in $steps; do
  case $s in
  build)
    step configure 60 cmake --preset dev -B "$build" -DCMAKE_CUDA_ARCHITECTURES=native \
      -DSAETA_PYTHON_EXECUTABLE="$(command -v "$python")"
    step build 420 cmake --build "$build" -j "$(nproc)"
    ;;
  test)
    step unit 240 "$build/bin/saeta_unit_tests" --gtest_brief=1
    step conformance 240 "$build/bin/saeta_conformance_tests" --gtest_brief=1
    for adaptor in rmm rapidsmpf; do
      if [ -x "$build/bin/saeta_${adaptor}_tests" ]; then
        step "$adaptor" 240 "$build/bin/saeta_${adaptor}_tests" --gtest_brief=1
      else
        echo "left out: the tests of the adaptor for $adaptor (it was not found when the build was configured)"
      fi
    done
    ;;
  sanitize)
    # No reports of API errors: tests provoke errors of the driver on purpose (out of memory, an active capture).
    step memcheck 400 compute-sanitizer --tool memcheck --report-api-errors no --leak-check full --error-exitcode 9 \
      "$build/bin/saeta_conformance_tests" '--gtest_filter=*cuda*' --gtest_brief=1
    step racecheck 200 compute-sanitizer --tool racecheck --error-exitcode 9 \
      "$build/bin/saeta_conformance_tests" '--gtest_filter=*kernels*cuda*' --gtest_brief=1
    ;;
  python) step python 400 "$python" -m pytest -q -p no:cacheprovider -rs tests/python tests/interop ;;
  jax) # a step of its own, because JAX takes most of a GPU's memory; in other steps JAX runs on the CPU
    JAX_PLATFORMS=cuda,cpu step jax 200 "$python" -m pytest -q -p no:cacheprovider -rs -m gpu \
      tests/interop/test_gpu_order_of_numba_and_jax.py
    ;;
  storm) step storm 300 "$python" -m pytest -q -p no:cacheprovider -rs -m gpu tests/interop/test_gpu_storm.py tests/interop/test_capture.py ;;
  soak) step soak 300 "$python" tests/soak/soak.py --seconds "${SOAK_SECONDS:-180}" --device cuda:0 --guard ;;
  demo) step demo 240 "$python" -m saeta demo ${DEMO_FILE:+"$DEMO_FILE"} ;;
  examples)
    for example in trip train out_of_core share; do
      step "$example" 120 "$python" "examples/$example.py"
    done
    ;;
  peers)
    step peers_tests 300 "$python" -m pytest -q -p no:cacheprovider -rs -m gpu tests/interop/test_gpu_peers.py
    step peers_conformance 300 "$build/bin/saeta_conformance_tests" '--gtest_filter=*peer*:*two_devices*' --gtest_brief=1
    step peers 300 "$python" bench/peers.py --folder "${BENCH_DIR:-/dev/shm}" --out "$out/peers.json" --commit "$commit"
    ;;
  bench)
    results=$(mktemp -d)
    step ipc_read 300 "$build/bin/ipc_read" --gib "${BENCH_GIB:-4}" --dir "${BENCH_DIR:-/dev/shm}" \
      --out "$results/ipc_read.json" --commit "$commit"
    step allocate 400 "$build/bin/allocate" --out "$results/allocate.json" --commit "$commit"
    step allocate_python 300 "$python" bench/allocate_python.py --out "$results/allocate_python.json" --commit "$commit"
    step handover_python 200 "$python" bench/handover_python.py --out "$results/handover_python.json" --commit "$commit"
    step movement 400 "$python" bench/movement.py --folder "${BENCH_DIR:-/dev/shm}" --out "$results/movement.json" --commit "$commit"
    step streams 600 "$python" bench/streams.py --folder "${BENCH_DIR:-/dev/shm}" --out "$results/streams.json" --commit "$commit"
    step cold_reads 120 "$python" bench/cold_reads.py --out "$results/cold_reads.json" --commit "$commit"
    step staging_python 200 "$python" bench/staging_python.py --mib 1024 --pinned 32MiB,96MiB,288MiB \
      --folder "${BENCH_DIR:-/dev/shm}" --out "$results/staging_python.json" --commit "$commit"
    step read_sizes 200 "$python" bench/read_sizes.py --mib 1,16,64,256,1024,2048 --folder "${BENCH_DIR:-/dev/shm}" \
      --out "$results/read_sizes.json" --commit "$commit"
    step chunk_copies 120 "$build/bin/chunk_copies" --chunks 512 --threads 0,16 --dir "${BENCH_DIR:-/dev/shm}" \
      --out "$results/chunk_copies.json" --commit "$commit"
    step registered_pages 120 "$python" bench/registered_pages.py --folder "${BENCH_DIR:-/dev/shm}" \
      --out "$results/registered_pages.json" --commit "$commit"
    step kernels_python 200 "$python" bench/kernels_python.py --out "$results/kernels_python.json" --commit "$commit"
    step rows 200 "$python" bench/rows.py --out "$results/rows.json" --commit "$commit"
    step races 120 "$python" bench/races.py --out "$results/races.json" --commit "$commit"
    step pack 120 "$python" bench/pack.py --out "$results/pack.json" --commit "$commit"
    step share 60 "$python" bench/share.py --device cuda:0
    step spill 200 "$python" bench/spill.py --folder "${SPILL_DIR:-/tmp}" --out "$results/spill.json" --commit "$commit"
    step compressed_spill 300 "$python" bench/compressed_spill.py --folder "${SPILL_DIR:-/tmp}" \
      --out "$results/compressed_spill.json" --commit "$commit"
    step torch_training 400 "$python" bench/torch_training.py --rounds 3 --out "$results/torch_training.json" --commit "$commit"
    step costs 120 "$build/bin/costs" --out "$results/costs.json" --commit "$commit"
    # All results in one archive, to be copied from the machine.
    tar -C "$results" -czf "$out/bench.tar.gz" .
    rm -r "$results"
    ;;
  *) echo "no step '$s'" && exit 2 ;;
  esac
done
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
exit $failed
