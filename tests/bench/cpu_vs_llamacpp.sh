#!/usr/bin/env bash
# Decode and prompt speed of our CPU engine against llama.cpp, same file, same threads.
#
#   LLAMACPP_PYTHON=/path/to/python tests/bench/cpu_vs_llamacpp.sh [--processes N] [--repeats N]
#       [--threads N...] [--output FILE]
#
# needs: a Python with  CMAKE_ARGS=-DGGML_NATIVE=on pip install llama-cpp-python numpy
# BUILD_DIR (build/release), RANDOM_MODEL (made on first use, 322 MB) may be set.
# Writes tests/bench/results/cpu_vs_llamacpp.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [[ -z ${LLAMACPP_PYTHON:-} ]]; then
  echo "LLAMACPP_PYTHON: expected the path of a Python that has llama-cpp-python, found nothing" >&2
  exit 2
fi
if ! "$LLAMACPP_PYTHON" -c 'import llama_cpp, numpy' >/dev/null; then
  echo "$LLAMACPP_PYTHON: expected llama-cpp-python and numpy: CMAKE_ARGS=-DGGML_NATIVE=on" \
    "pip install llama-cpp-python numpy" >&2
  exit 2
fi
source "$here/prepare.sh" bench_decode
exec python3 "$here/cpu_vs_llamacpp.py" --bench-decode "$program" \
  --llamacpp-python "$LLAMACPP_PYTHON" "$@" -- "${models[@]}"
