#!/usr/bin/env bash
# Seconds of a pass over M = 1..16 rows, and of exit checks, in memory (random model) and in cache
# (demo model).
#
#   tests/bench/rows.sh [--processes N] [--repeats N] [--threads N...] [--output FILE]
#
# BUILD_DIR (build/release), RANDOM_MODEL (made on first use, 322 MB) may be set.
# Writes tests/bench/results/rows.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/prepare.sh" bench_rows
exec python3 "$here/rows.py" --bench-rows "$program" "$@" -- "${models[@]}"
