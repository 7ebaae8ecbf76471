#!/usr/bin/env bash
# Spec-Bench on the bundled model: its 480 questions, every drafter in one table; and the controller
# against a grid of fixed settings, there, on the first 40 and 120 held-out dialogues, and on the
# questions and 40 dialogues together. About 30 minutes.
#
#   tests/bench/spec_bench.sh [--questions N] [--count N] [--repeats N] [--threads N...]
#                             [--output FILE]
#
# BUILD_DIR (build/release) and FULL_HEADS (full heads for the paper's setting; trained on first
# use) may be set. Writes tests/bench/results/spec_bench.json; fails where the controller may
# fall short. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
specbound=$program
RANDOM_MODEL=none source "$here/prepare.sh" bench_dialogues
model=${models[0]}
full_heads "$model"
exec python3 "$here/spec_bench.py" --specbound "$specbound" --bench-dialogues "$program" \
  --full-heads "$full" "$@" -- "$model"
