#!/usr/bin/env bash
# Spec-Bench on the bundled model, by how tokens are picked (the paper's Table 2) and by setting
# (its Figures 3 and 4: the threshold, its annealing, the bounds of depth and width), with the
# bundled heads and with heads at every layer. About 12 minutes.
#
#   tests/bench/spec_bench_settings.sh [--questions N] [--sweep-questions N] [--threads N...]
#                                      [--output FILE]
#
# BUILD_DIR (build/release) and FULL_HEADS (trained on first use) may be set. Writes
# tests/bench/results/spec_bench_settings.json and, into the build folder's figures/, the SVGs.
# Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
model=${models[0]}
full_heads "$model"
exec python3 "$here/spec_bench_settings.py" --specbound "$program" --full-heads "$full" \
  --figures "$build/figures" "$@" "$model"
