#!/usr/bin/env bash
# K/V of 8 bits beside FP16: perplexity, memory, and tokens a second behind long texts.
#
#   tests/bench/kv.sh [--processes N] [--repeats N] [--threads N] [--chunks N] [--output FILE]
#                     [MODEL...]
#
# MODEL: as models/fetch.py knows it (default: SmolLM2), beside the demo model. BUILD_DIR
# (build/release) may be set. Writes tests/bench/results/kv.json. Leave the machine alone while it
# runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
exec python3 -B "$here/kv.py" --program "$program" --demo "${models[0]}" "$@"
