#!/usr/bin/env bash
# Full heads at layers 1 to 10, as the SpecBound paper has them, for --preset paper: not shipped.
#
#   CHATS=dialogue-train.jsonl.xz tests/bench/make_full_heads.sh MODEL OUT
#
# BUILD_DIR (build/release) may be set.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD_DIR:-$root/build/release}
if [[ -z ${CHATS:-} ]]; then
  echo "CHATS: expected a file of conversations to train full heads on, found nothing" >&2
  exit 2
fi
cmake --build "$build" --target specbound >&2
exec "$build/specbound" train-heads -m "$1" --data "$CHATS" --kinds full \
  --layers 1-10 --self-generate 60000 --epochs 3 -o "$2"
