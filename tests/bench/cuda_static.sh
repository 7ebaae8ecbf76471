#!/usr/bin/env bash
# The decode kernels' code for six architectures, counted, and what a layer of a 7B should take on
# five cards by it. Needs CUDA toolkit 13 and nvdisasm (on PATH, in the toolkit, or as the package
# nvidia-cuda-nvdisasm of a Python that SASS_PYTHON names); no GPU.
#
#   tests/bench/cuda_static.sh [--before COMMIT] [--at-once N] [--output FILE]
#
# BUILD_DIR (build/cuda-static) may be set: it is configured, and holds what is compiled.
# Writes tests/bench/results/cuda_static.json.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD_DIR:-$root/build/cuda-static}
configure() {  # SOURCE BUILD
  cmake -S "$1" -B "$2" -G Ninja -D CMAKE_BUILD_TYPE=Release -D SPECBOUND_CUDA=ON \
    -D SPECBOUND_TESTS=OFF -D SPECBOUND_SERVER=OFF -D SPECBOUND_GUI=OFF \
    -D SPECBOUND_FAULTS=OFF >&2
}
configure "$root" "$build/now"
flags=()
if [[ ${1:-} == --before ]]; then
  commit=$(git -C "$root" rev-parse --short=12 "${2:?a commit}")
  tree=$build/$commit.tree
  [[ -d $tree ]] || git -C "$root" worktree add --detach "$tree" "$commit" >&2
  trap 'git -C "$root" worktree remove --force "$tree"' EXIT
  configure "$tree" "$build/$commit"
  flags=(--before "$commit" "$build/$commit")
  shift 2
fi
python3 -B "$here/cuda_static.py" --build "$build/now" --folder "$build/cubins" "${flags[@]}" "$@"
