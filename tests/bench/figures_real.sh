#!/usr/bin/env bash
# The SpecBound paper's Figures 3 and 4 on a real model: its setting with full heads behind every
# layer, one part moved or left out at a time.
#
#   tests/bench/figures_real.sh --heads FILE [--learnt TEXT] [--model NAME] [--questions N]
#                               [--threads N] [-n N] [--output FILE]
#
# The heads are those of `table_heads.sh FOLDER --tokens N full`; TEXT is what they learnt, to be
# recorded. BUILD_DIR (build/release) may be set. Writes tests/bench/results/figures_real.json and,
# into the build folder's figures/, the SVGs. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
exec python3 "$here/figures_real.py" --specbound "$program" --figures "$build/figures/real" "$@"
