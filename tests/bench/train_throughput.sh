#!/usr/bin/env bash
# How fast exit heads learn, beside a plain PyTorch script of the same losses, and how fast the
# hidden states are made that they learn from.
#
#   tests/bench/train_throughput.sh [--processes N] [--threads N] [--rows N] [--models NAME...]
#                                   [--lengths N...] [--seconds N] [--output FILE]
#
# NAME: as models/fetch.py knows it.
# PYTHON must name a Python that has torch (from PyPI); BUILD_DIR (build/release) may be set.
# Writes tests/bench/results/train_throughput.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD_DIR:-$root/build/release}
python=${PYTHON:-python3}
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "$python has no torch: set PYTHON to a Python that does (pip install torch)" >&2
  exit 1
fi
if [[ ! -f $build/CMakeCache.txt ]]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >&2
fi
cmake --build "$build" --target bench_train >&2
exec python3 "$here/train_throughput.py" --bench-train "$build/tests/bench_train" \
  --python "$python" "$@"
