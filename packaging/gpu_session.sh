#!/usr/bin/env bash
# Everything that needs a GPU: all GPU tests, whole models verified, both under compute-sanitizer,
# the code of every architecture by JIT, and the benches of kernels and of the engine.
#
#   packaging/gpu_session.sh                   builds (build/gpu-session) and runs every stage here
#   packaging/gpu_session.sh --prepare DIR     builds only: DIR can be taken to a machine with a GPU
#   packaging/gpu_session.sh --run DIR         runs there, with no toolkit and no network
#   packaging/gpu_session.sh --list            says what stages there are and which of them were run
#   ... --stage NAME                           of a run: this one (racecheck, jit: all parts of it)
#   ... --seconds N, --total N                 of a run: at most, of each stage (480), of all
#   ... --again                                of a run: also stages that were run for this commit
#
# A stage takes eight minutes at most and leaves a small file; the same command goes on with those
# that have none of this commit yet, and says which it did not reach. What a stage has no time for
# is skipped, the rest counts. One line a stage, then `N passed, N failed, N skipped`; exit status
# 1 when anything failed. Results are JSON in $OUT, or in tests/bench/results/ when OUT is not set.
# SPECBOUND_CUDA_ARCHS: what to build for (CMakeLists.txt says for what by default).
# SPECBOUND_F16_MODEL: a GGUF file to verify beside the bundled model, such as make_f16_model.py's.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
say() { echo "gpu_session: $*" >&2; }

usage() {
  sed -n '5,11s/^# *//p' "$root/packaging/gpu_session.sh" >&2
  exit 2
}

prepare=yes run=yes folder="$root/build/gpu-session" flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --list | --again)
      [ "$1" = --again ] || prepare=no
      flags+=("$1")
      shift
      continue
      ;;
  esac
  [ -n "${2-}" ] || usage
  case $1 in
    --prepare) folder=$2 run=no ;;
    --run) folder=$2 prepare=no ;;
    --stage | --seconds | --total) flags+=("$1" "$2") ;;
    *) usage ;;
  esac
  shift 2
done

# Programs that need nothing but a driver: the product, every kernel for all architectures, and once
# more as PTX of one architecture alone. Line numbers are for compute-sanitizer.
build() {
  local build="$folder/build" programs=(gpu_tests gpu_kernels) arch program
  local archs=(-U SPECBOUND_CUDA_ARCHS)  # not those of an earlier call
  if [ -n "${SPECBOUND_CUDA_ARCHS:-}" ]; then
    archs=(-D "SPECBOUND_CUDA_ARCHS=$SPECBOUND_CUDA_ARCHS")
  fi
  . "$root/packaging/dependencies.sh"
  ensure_installed $build_needs $gpu_needs
  forget_moved_build "$build"
  for arch in 75 80 86 89 90 120; do
    programs+=("gpu_tests_ptx$arch")
  done
  mkdir -p "$folder"
  cmake -S "$root" -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D SPECBOUND_CUDA=ON \
    -D SPECBOUND_FAULTS=OFF -D SPECBOUND_WERROR=OFF -D CMAKE_CUDA_FLAGS=-lineinfo \
    -D SPECBOUND_SERVER=OFF -D SPECBOUND_GUI=OFF "${archs[@]}" >&2
  cmake --build "$build" --target specbound gpu_train "${programs[@]}" >&2
  strip -o "$folder/specbound" "$build/specbound"
  strip -o "$folder/gpu_train" "$build/tests/cuda/gpu_train"
  for program in "${programs[@]}"; do
    strip -o "$folder/$program" "$build/kernels/$program"
  done
  python3 -B -c "import bench; print(bench.commit())" >"$folder/commit"
  say "ready: $(du -ch "$folder"/{specbound,gpu_*} | tail -n 1 | cut -f 1) in $folder" \
    "(without $build);" \
    "to run they need the glibc of this system ($(getconf GNU_LIBC_VERSION)) or newer"
}

export PYTHONPATH="$root/tests/bench"
[ $prepare = no ] || build
[ $run = no ] || exec python3 -B "$root/packaging/gpu_stages.py" "$folder" "${flags[@]}"
