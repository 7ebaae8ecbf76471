#!/usr/bin/env bash
# Time from start to first token of the demo model and the random one, with weights that are
# repacked and with those that an earlier start kept.
#
#   tests/bench/start.sh [--processes N] [--threads N...] [--output FILE]
#
# BUILD_DIR (build/release), RANDOM_MODEL (made on first use, 322 MB) may be set.
# Writes tests/bench/results/start.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/prepare.sh" specbound
exec python3 "$here/start.py" --program "$program" "$@" -- "${models[@]}"
