#!/usr/bin/env bash
# Whole models of random weights on this machine's GPU: decoding, verifying, drafting, checks, and
# replays of published compression rates, held against the targets.
#
#   tests/bench/gpu_engine.sh [--shape 1b|7b|13b] [--seconds N] [--repetitions N]
#
# BUILD_DIR (build/gpu, with code for all architectures) may be set; needs a CUDA toolkit. SKIPs
# without a GPU.
# Writes tests/bench/results/gpu_engine.json, or into $OUT. Leave the GPU alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD_DIR:-$root/build/gpu}
if [[ ! -f $build/CMakeCache.txt ]]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSPECBOUND_CUDA=ON >&2
fi
cmake --build "$build" --target specbound >&2
exec python3 -B "$here/gpu_engine.py" --program "$build/specbound" "$@"
