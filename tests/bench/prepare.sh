# Sourced by the bench scripts with the name of a bench program: builds it, makes the random model.
# Sets program (its path) and models (paths of the random model, unless RANDOM_MODEL is "none", and
# of the demo model).
root=$(cd "$here/../.." && pwd)
build=${BUILD_DIR:-$root/build/release}
if [[ ! -f $build/CMakeCache.txt ]]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >&2
fi
cmake --build "$build" --target "$1" >&2
case $1 in
  specbound) program=$build/specbound ;;
  *) program=$build/tests/$1 ;;
esac
random=${RANDOM_MODEL:-$build/random-24l-1024d-q8_0.gguf}
models=("$root"/models/demo-chat-*-q8_0.gguf)
if [[ $random != none ]]; then
  if [[ ! -e $random ]]; then
    python3 "$here/make_random_model.py" "$random" >&2
  fi
  models=("$random" "${models[@]}")
fi
