# Sourced by the bench scripts with the name of a bench program: builds it, makes the random models.
# Sets program (its path) and models: paths of the random model, unless RANDOM_MODEL is "none", and
# of the demo model; with TYPES ("q4_0 q4_k_m", see make_random_model.py) of a random model of each
# type instead. Gives full_heads().
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
random_model() {  # TYPE PATH
  if [[ ! -e $2 ]]; then
    python3 "$here/make_random_model.py" "$2" --type "$1" >&2
  fi
  models+=("$2")
}
full_heads() {  # MODEL; sets full: heads at every layer of it, trained on first use
  full=${FULL_HEADS:-$build/full.heads.gguf}
  [[ -f $full ]] || BUILD_DIR=$build "$here/make_full_heads.sh" "$1" "$full"
}
models=()
if [[ -n ${TYPES:-} ]]; then
  for type in $TYPES; do
    random_model "$type" "$build/random-24l-1024d-$type.gguf"
  done
else
  if [[ ${RANDOM_MODEL:-} != none ]]; then
    random_model q8_0 "${RANDOM_MODEL:-$build/random-24l-1024d-q8_0.gguf}"
  fi
  models+=("$root"/models/demo-chat-*-q8_0.gguf)
fi
