#!/usr/bin/env bash
# Decode and prompt speed of our CPU engine against llama.cpp, same file, same threads.
#
#   LLAMACPP_PYTHON=/path/to/python tests/bench/cpu_vs_llamacpp.sh [--processes N] [--repeats N]
#       [--threads N...] [--output FILE]
#
# needs: a Python with  CMAKE_ARGS=-DGGML_NATIVE=on pip install llama-cpp-python numpy
# BUILD_DIR (build/release), RANDOM_MODEL (made on first use, 322 MB) may be set.
# With TYPES="q4_0 q4_k q4_k_m" random models of those quantizations are measured instead.
# Writes tests/bench/results/cpu_vs_llamacpp.json, with TYPES cpu_vs_llamacpp_4bit.json. Leave the
# machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/llamacpp.sh" numpy
source "$here/prepare.sh" bench_decode
name=cpu_vs_llamacpp${TYPES:+_4bit}
exec python3 "$here/cpu_vs_llamacpp.py" --name "$name" --bench-decode "$program" \
  --llamacpp-python "$LLAMACPP_PYTHON" "$@" -- "${models[@]}"
