#!/usr/bin/env bash
# What each drafter has of a model's distribution (1 - TV) on text that the model writes, as
# `specbound theory` measures it: by layer and step, greedy and at T 0.7.
#
#   tests/bench/overlap.sh [--model NAME] [--replies N] [--threads N] [--heads KEY=FILE...]
#                          [--output FILE]
#
# KEY: what the table calls a heads file (as table_heads.sh makes them); the lookups and the model
# with layers left out need none. The machine need not be quiet: nothing is timed.
#
# Writes tests/bench/results/overlap.json.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
exec python3 "$here/overlap.py" --specbound "$program" "$@"
