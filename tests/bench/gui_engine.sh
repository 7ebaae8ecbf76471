#!/usr/bin/env bash
# The engine on one thread beside the window's work against a bare session: the demo model.
#
#   tests/bench/gui_engine.sh [--processes N] [--repeats N] [--threads N...] [--output FILE]
#
# BUILD_DIR (build/release, configured with the desktop app) may be set.
# Writes tests/bench/results/gui_engine.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none
source "$here/prepare.sh" bench_gui_engine
exec python3 "$here/gui_engine.py" --bench-gui-engine "$program" "$@" -- "${models[@]}"
