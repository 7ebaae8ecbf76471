#!/usr/bin/env bash
# The desktop app on a software renderer: frame times while decoding, the engine beside it, and at
# rest.
#
#   tests/bench/gui_frames.sh [--processes N] [--seconds S] [--size WxH...] [--output FILE]
#
# Needs Xvfb and xdotool. BUILD_DIR (build/release, configured with the desktop app) may be set.
# Writes tests/bench/results/gui_frames.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none
source "$here/prepare.sh" specbound
export SPECBOUND_BINARY=$program
exec python3 -B "$here/gui_frames.py" "$@"
