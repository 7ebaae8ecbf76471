#!/usr/bin/env bash
# What learning while idle does on a real model: how soon it gives way to a message, what a first
# byte takes then and without it, what its round says of the heads that it made, and whether every
# reply stays the same.
#
#   tests/bench/idle_learning.sh [--model NAME] [--minutes N] [--messages N] [-n N] [--output FILE]
#
# NAME: as models/fetch.py knows it. BUILD_DIR (build/release) may be set. Writes
# tests/bench/results/idle_learning.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none
source "$here/prepare.sh" specbound
exec env SPECBOUND_BINARY="$program" python3 "$here/idle_learning.py" "$@"
