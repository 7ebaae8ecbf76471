#!/usr/bin/env bash
# Takes the docs' pictures of the desktop app: gui/screenshots/*.png.
#
#   packaging/desktop/screenshots.sh [FOLDER]
#
# Needs Xvfb and xdotool, no screen. SPECBOUND_BINARY (build/release/specbound) may be set.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
export SPECBOUND_BINARY=${SPECBOUND_BINARY:-$root/build/release/specbound}
cd "$root"  # so that paths on the pictures are short
exec python3 -B packaging/desktop/screenshots.py "${1:-gui/screenshots}"
