#!/usr/bin/env bash
# A long soak of `specbound serve` with the demo model: several clients, hostile requests and
# disconnects among them; fails when a reply differs or memory, files or threads grow.
#
#   tests/bench/serve_soak.sh [--requests N] [--hostile N] [--disconnects N] [--seed N]
#                             [--output FILE]
#
# BUILD_DIR (build/release) may be set. Writes tests/bench/results/serve_soak.json.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none
source "$here/prepare.sh" specbound
exec env SPECBOUND_BINARY="$program" python3 "$here/serve_soak.py" "$@"
