#!/usr/bin/env bash
# Greedy text of ours and of llama.cpp on the same files: one for each quantization, and more for
# each architecture.
#
#   LLAMACPP_PYTHON=/path/to/python tests/bench/quant_vs_llamacpp.sh [--gen N] [--output FILE]
#
# needs: a Python with  CMAKE_ARGS=-DGGML_NATIVE=on pip install llama-cpp-python numpy
# BUILD_DIR (build/release) may be set. Writes tests/bench/results/quant_vs_llamacpp.json.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/llamacpp.sh" numpy
RANDOM_MODEL=none
source "$here/prepare.sh" specbound
quantize=$program
source "$here/prepare.sh" bench_logits
exec "$LLAMACPP_PYTHON" -B "$here/quant_vs_llamacpp.py" --bench-logits "$program" \
  --specbound "$quantize" "$@"
