#!/usr/bin/env bash
# Real models, plain and with speculation, ours and llama.cpp's: same file, same prompts (of
# Spec-Bench, every task), same threads, greedy, taking turns question by question.
#
#   LLAMACPP_PYTHON=/path/to/python tests/bench/speculation_vs_llamacpp.sh [--models NAME...]
#       [--questions N] [--threads N] [--draft-model NAME] [--heads FILE] [--file QUESTIONS]
#       [--output FILE]
#
# needs: a Python with  CMAKE_ARGS=-DGGML_NATIVE=on pip install llama-cpp-python numpy
# Writes tests/bench/results/speculation_vs_llamacpp.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/llamacpp.sh" numpy
RANDOM_MODEL=none source "$here/prepare.sh" specbound
exec python3 "$here/speculation_vs_llamacpp.py" --specbound "$program" \
  --llamacpp-python "$LLAMACPP_PYTHON" "$@"
