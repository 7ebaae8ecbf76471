#!/usr/bin/env bash
# Perplexity of held-out dialogues, ours through both paths and llama.cpp's on the same file, and
# what quantization costs: the demo model's Q8_0 file against the F16 file of the same weights.
#
#   LLAMACPP_PYTHON=/path/to/python F16_MODEL=/path/to/demo-chat-16l-f16.gguf \
#     tests/bench/ppl.sh [--texts N] [--threads N] [--output FILE]
#   tests/bench/ppl.sh --only-windows MODEL --output FILE   # another model, on plain text
#
# needs: a Python with  CMAKE_ARGS=-DGGML_NATIVE=on pip install llama-cpp-python numpy
# Without F16_MODEL only the bundled file is measured. BUILD_DIR (build/release) may be set. Writes
# tests/bench/results/ppl.json.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/llamacpp.sh" numpy
RANDOM_MODEL=none
source "$here/prepare.sh" specbound
exec "$LLAMACPP_PYTHON" -B "$here/ppl.py" --specbound "$program" \
  ${F16_MODEL:+--f16 "$F16_MODEL"} "$@" "${models[@]}"
