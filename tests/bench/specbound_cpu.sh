#!/usr/bin/env bash
# Speculation against plain decoding on the bundled model: the assistant's turns of the first 40
# held-out dialogues, on the reference history, greedy and at T 0.7; the tree of all sources, exit
# heads alone as shipped and as the paper has them, each ablation (paper Figure 4), prompt lookup,
# and llama.cpp's plain decoding.
#
#   tests/bench/specbound_cpu.sh [--count N] [--repeats N] [--threads N...] [--output FILE]
#                                [--only NAME...]
#
# BUILD_DIR (build/release), LLAMACPP_PYTHON (a Python with llama-cpp-python; without one that row
# is left out), FULL_HEADS (full heads for the paper's setting; trained on first use) may be set.
# Writes tests/bench/results/specbound_cpu.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/prepare.sh" bench_decode
bench_decode=$program
source "$here/prepare.sh" bench_dialogues
model=${models[1]}
full_heads "$model"
exec python3 "$here/specbound_cpu.py" --bench-dialogues "$program" --bench-decode "$bench_decode" \
  --full-heads "$full" "$@" -- "$model"
