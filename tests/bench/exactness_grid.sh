#!/usr/bin/env bash
# Speculation against plain decoding, bit for bit, over a grid: `specbound verify --bits`.
#
#   tests/bench/exactness_grid.sh [--quick] [--jobs N] [--output FILE] [--fresh]
#
# BUILD_DIR (build/release) may be set. Writes tests/bench/results/exactness_grid.json (not with
# --quick). What is done is kept in the build folder: started again, it goes on where it was.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD_DIR:-$root/build/release}
if [[ ! -f $build/CMakeCache.txt ]]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >&2
fi
cmake --build "$build" --target specbound >&2
demo=$(echo "$root"/models/demo-chat-*-q8_0.gguf)
f16=$build/demo-chat-f16.gguf
[[ $f16 -nt $demo ]] || python3 "$here/make_f16_model.py" "$demo" "$f16" >&2
exec nice -n 19 python3 "$here/exactness_grid.py" --program "$build/specbound" --build "$build" \
  --demo "$demo" --f16 "$f16" --stories "$root/tests/data/models/stories260K.gguf" "$@"
