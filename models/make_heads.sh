#!/usr/bin/env bash
# Makes the bundled model's heads file anew: exit heads, and the text that they learn from, which
# the model writes. About ten minutes on two cores.
#
#   CHATS=dialogue-train.jsonl.xz models/make_heads.sh [OUT]
#
# OUT: models/demo-chat-16l-q8_0.heads.gguf unless given. SPECBOUND (build/release/specbound) may be
# set. CHATS is the training dialogues of the model's card, never its held-out ones. Heads and text
# of the shipped file come from two runs, and its settings from specbound tune: see its card.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if [[ -z ${CHATS:-} ]]; then
  echo "CHATS: expected a file of conversations to train on, found nothing" >&2
  exit 2
fi
model=$root/models/demo-chat-16l-q8_0.gguf
exec "${SPECBOUND:-$root/build/release/specbound}" train-heads -m "$model" --data "$CHATS" \
  --self-generate 400000 --epochs 6 --shortlist 1536 --layers 0,4,8,12 \
  -o "${1:-${model%.gguf}.heads.gguf}"
