#!/usr/bin/env bash
# Speculation where drafting has nothing to go by (random bytes, repeated tokens, code, other
# languages) against plain decoding; fails where it may be below 0.98 times plain.
#
#   tests/bench/specbound_worst.sh [--repeats N] [--threads N...] [--output FILE]
#
# BUILD_DIR (build/release) may be set. Writes tests/bench/results/specbound_worst.json. Leave the
# machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/prepare.sh" bench_dialogues
exec python3 "$here/specbound_worst.py" --bench-dialogues "$program" "$@" -- "${models[1]}"
