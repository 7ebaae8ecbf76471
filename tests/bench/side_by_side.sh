#!/usr/bin/env bash
# Tokens a second of 1 to 16 replies written side by side, on real models.
#
#   tests/bench/side_by_side.sh [--models NAME...] [--processes N] [--repeats N] [--threads N...]
#                               [--output FILE]
#
# NAME: as models/fetch.py knows it. BUILD_DIR (build/release) may be set.
# Writes tests/bench/results/side_by_side.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" bench_side_by_side
exec python3 "$here/side_by_side.py" --program "$program" "$@"
