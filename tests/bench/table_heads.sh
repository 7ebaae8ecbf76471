#!/usr/bin/env bash
# Heads for the tables of drafters.sh and parts.sh: each kind learns the same text for as long. The
# model writes it once, into FOLDER/texts.
#
#   tests/bench/table_heads.sh FOLDER [--model FILE.gguf] [--tokens N] [--minutes N] [--threads N]
#                              [KIND...]
#
# KIND: quick, exits, unroll-1, chained, chained-text, layer, medusa, hydra, eagle, eagle3,
# kangaroo; all of these where none is given; full. Makes FOLDER/KIND.heads.gguf and
# FOLDER/text.heads.gguf, and beside each what the training said. quick and full are least squares
# and take the time that they take, from the same text. exits stand at layers of SmolLM2, the last
# ones AdaDecode's; full, for figures_real.sh, behind every layer of it, for 35 KB of disk a token.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?"expected a folder, see the head of this script"}
shift
model=~/.cache/specbound/models/smollm2-135m-instruct-q4_1.gguf tokens=100000 minutes=9 threads=2
all=(quick exits unroll-1 chained chained-text layer medusa hydra eagle eagle3 kangaroo)
kinds=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --model | --tokens | --minutes | --threads)
      declare "${1#--}=${2:?"expected a value behind $1"}"
      shift
      ;;
    *)
      [[ " full ${all[*]} " == *" $1 "* ]] || { echo "table_heads.sh: no kind \"$1\"" >&2; exit 2; }
      kinds+=("$1")
      ;;
  esac
  shift
done
[[ ${#kinds[@]} -gt 0 ]] || kinds=("${all[@]}")
RANDOM_MODEL=none source "$here/prepare.sh" specbound
mkdir -p "$folder"

train() {  # NAME FLAGS...
  local name=$1
  shift
  echo "$name: $*" >&2
  "$program" train-heads -m "$model" --threads "$threads" -o "$folder/$name.heads.gguf" \
    --self-generate "$tokens" --texts "$folder/texts" "$@" > "$folder/$name.txt"
}

[[ -e $folder/texts && -e $folder/text.heads.gguf ]] || train text --kinds text
for kind in "${kinds[@]}"; do
  case $kind in
    quick) train quick --quick --kinds chained,text --layers 0 ;;
    full) train full --quick --kinds full --layers 1-29 --max-disk 60G ;;
    exits) train exits --minutes "$minutes" --kinds full,folded --layers 1,4,8,15,23 ;;
    unroll-1) train unroll-1 --minutes "$minutes" --kinds chained --layers 0 --unroll 1 ;;
    chained) train chained --minutes "$minutes" --kinds chained --layers 0 ;;
    chained-text) train chained-text --minutes "$minutes" --kinds chained,text --layers 0 ;;
    *) train "$kind" --minutes "$minutes" --kinds "$kind" ;;
  esac
done
