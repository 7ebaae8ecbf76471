#!/usr/bin/env bash
# verify --bits on real models: greedy and sampled replies by every source of drafts, each row and
# each key and value compared with plain decoding. Writes tests/bench/results/verify_real.json;
# fails where anything differs.
#
#   tests/bench/verify_real.sh [--models NAME...] [--output FILE]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
exec python3 "$here/verify_real.py" --specbound "$program" "$@"
