#!/usr/bin/env bash
# What the bundled model's drafts would give a model whose weights lie in memory (random weights,
# 322 MB): its rounds are replayed there, layers, checks and verification are real.
#
#   tests/bench/specbound_memory.sh [--count N] [--repeats N] [--threads N...] [--output FILE]
#
# BUILD_DIR (build/release), RANDOM_MODEL (made on first use) may be set.
# Writes tests/bench/results/specbound_memory.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/prepare.sh" bench_replay
replay=$program
source "$here/prepare.sh" bench_dialogues
exec python3 "$here/specbound_memory.py" --bench-dialogues "$program" --bench-replay "$replay" \
  "$@" -- "${models[@]}"
