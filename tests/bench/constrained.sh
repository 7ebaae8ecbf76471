#!/usr/bin/env bash
# Replies at temperature 1 that 40 JSON schemas hold: whether the jsonschema package finds them
# valid, how many tokens a round has with what the schema forces drafted and without, and what masks
# cost.
#
#   tests/bench/constrained.sh [--judged MODEL] [--seeds N] [--timed MODEL] [--timed-seeds N]
#                              [--output FILE]
#
# MODEL: a GGUF file or a name that models/fetch.py knows. BUILD_DIR (build/release) may be set.
# Needs the package jsonschema. Writes tests/bench/results/constrained.json.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none
source "$here/prepare.sh" bench_grammar
exec python3 "$here/constrained.py" --program "$program" "$@"
