#!/usr/bin/env bash
# What requests that come together get of `specbound serve` with a real model: tokens a second and
# the time to the first token, at once with drafts and plainly, and one after the other plainly and
# with drafts.
#
#   tests/bench/serve_parallel.sh [--model NAME] [--requests N] [--tokens N] [--repeats N]
#                                 [--temperature T] [--heads FILE] [--output FILE]
#
# NAME: as models/fetch.py knows it. FILE of --heads: what it brings to look up. BUILD_DIR
# (build/release) may be set. Writes tests/bench/results/serve_parallel.json. Leave the machine
# alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none
source "$here/prepare.sh" specbound
exec env SPECBOUND_BINARY="$program" python3 "$here/serve_parallel.py" "$@"
