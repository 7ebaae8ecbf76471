#!/usr/bin/env bash
# How soon the next turn of a conversation of some 900 tokens begins, alone and with another one of
# that length in between, of `specbound serve` with a real model.
#
#   tests/bench/serve_turns.sh [--model NAME] [--turns N] [--tokens N] [--output FILE]
#
# NAME: as models/fetch.py knows it. BUILD_DIR (build/release) may be set. Writes
# tests/bench/results/serve_turns.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none
source "$here/prepare.sh" specbound
exec env SPECBOUND_BINARY="$program" python3 "$here/serve_turns.py" "$@"
