#!/usr/bin/env bash
# The decode loop with speculation off against a bare loop: random model (memory), demo (cache).
#
#   tests/bench/loop.sh [--processes N] [--repeats N] [--threads N...] [--output FILE]
#
# BUILD_DIR (build/release), RANDOM_MODEL (made on first use, 322 MB) may be set.
# Writes tests/bench/results/loop.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/prepare.sh" bench_loop
exec python3 "$here/loop.py" --bench-loop "$program" "$@" -- "${models[@]}"
