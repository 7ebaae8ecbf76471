#!/usr/bin/env bash
# What each part of the speculation brings: lookups, siblings, memory, text, exits, the chained
# head, how deep it learns, the draft layer and its shortlist. A table as that of drafters.sh.
#
#   tests/bench/parts.sh [--model NAME] [--questions N] [--threads N] [--temperature T]
#                        [-n N] [--rows ROW...] [--heads KEY=FILE...] [--learnt KEY=TEXT...]
#                        [--output FILE]
#
# KEY: text, exits, quick, unroll-1, chained, chained-text, layer: as table_heads.sh makes them.
# ROW: a key of ROWS in parts.py. What needs a file that is not given is left out, and said so.
#
# Writes tests/bench/results/parts.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
exec python3 "$here/parts.py" --specbound "$program" "$@"
