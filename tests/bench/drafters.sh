#!/usr/bin/env bash
# Every drafter on one real model, in one table: tokens a round, speed over plain decoding, how many
# drafts in a row are right, what drafting takes, what each learnt from; the SpecBound paper's Table
# 1 beside those that it has.
#
#   tests/bench/drafters.sh [--model NAME] [--questions N] [--threads N] [--temperature T]
#                           [--repeats N] [--rows ROW...] [--heads KEY=FILE...]
#                           [--learnt KEY=TEXT...] [--output FILE]
#
# KEY: exits, chained (table_heads.sh's chained-text), layer, medusa, hydra, eagle, eagle3, mtp,
# kangaroo, masks (heads files of table_heads.sh, convert --heads or make_space_masks.py), datastore
# (of datastore build) or draft (a smaller model); or skip, with layers as skip_layers.py finds them
# in place of FILE. ROW: a key of ROWS in drafters.py. TEXT: what a file learnt, for the table. What
# needs a file that is not given is left out, and said so.
#
# Writes tests/bench/results/drafters.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
exec python3 "$here/drafters.py" --specbound "$program" "$@"
