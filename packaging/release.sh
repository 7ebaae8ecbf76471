#!/usr/bin/env bash
# A release: a tarball and a Debian package of one program with the GPU engine in it, that start on
# any Linux with glibc 2.35 (Ubuntu 22.04, Debian 12) or newer, with a GPU or without.
#
#   packaging/release.sh [FOLDER]       builds build/release-gpu, packs it into FOLDER (dist)
#   packaging/release.sh --check ROOT...
#                                       tries what lies in dist in bare systems, as root: a ROOT is
#                                       what `debootstrap --variant=minbase SUITE ROOT` makes;
#                                       writes tests/bench/results/release.json
#
# To build: glibc 2.36 or older (Debian 12, Ubuntu 22.04), CUDA toolkit 13, and the first time a
# network for cpp-httplib's source, of the version that is installed. On two cores the kernels take
# minutes. What release_check.py refuses does not get into FOLDER. The last lines of stdout name the
# files.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build="$root/build/release-gpu"
say() { echo "release: $*" >&2; }
. "$root/packaging/dependencies.sh"

usage() {
  sed -n '5,9s/^# //p' "$root/packaging/release.sh" >&2
  exit 2
}

case ${1-} in
  --check)
    [ $# -gt 1 ] || usage
    shift
    exec python3 -B "$root/packaging/release_check.py" "$root/dist" "$@"
    ;;
  -*) usage ;;
esac
[ $# -le 1 ] || usage
# Programs need the symbols that this system's headers name. Of glibc 2.36 that is one, which they
# bring (arc4random.cpp); 2.38 has newer ones for what every program calls.
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null || echo none)
if ! printf '%s\n' "${glibc#glibc }" 2.36 | sort -CV; then
  say "expected glibc 2.36 or older to build with (Debian 12, Ubuntu 22.04), found" \
    "${glibc#glibc }: the packages would not start on older systems"
  exit 1
fi
out=${1:-$root/dist}
mkdir -p "$out"
out=$(cd "$out" && pwd -P)

# The header that has all of cpp-httplib: Debian's packages have it as a shared library only, whose
# name differs between releases; their source has it whole, with Debian's fixes.
fetch_httplib() {
  local folder=$1 version apt
  version=$(dpkg-query -W -f '${source:Version}' libcpp-httplib-dev)
  [ "$(cat "$folder/version" 2>/dev/null)" != "$version" ] || return 0
  say "fetching the source of cpp-httplib $version"
  rm -rf "$folder"
  mkdir -p "$folder/apt/lists/partial" "$folder/apt/sources"
  # apt's own lists of this system, but of sources; its keys hold for them.
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ ! -f "$list" ] || sed -E 's/^deb /deb-src /; s/^Types:.*/Types: deb-src/' "$list" \
      >"$folder/apt/sources/$(basename "$list")"
  done
  apt=(-o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$folder/apt/sources"
    -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt"
    -o "APT::Sandbox::User=root")
  apt-get "${apt[@]}" update >&2 || say "not every list of packages has one of sources"
  (cd "$folder" && apt-get "${apt[@]}" source --download-only "cpp-httplib=$version" >&2)
  dpkg-source --extract "$folder"/*.dsc "$folder/source" >&2
  mkdir "$folder/include"
  cp "$folder/source/httplib.h" "$folder/include"
  rm -rf "$folder/apt"
  echo "$version" >"$folder/version"
}

ensure_installed $build_needs $gui_needs $package_needs $release_needs
describe_system
forget_moved_build "$build"
fetch_httplib "$build/httplib"
cmake -S "$root" --preset release -B "$build" -D SPECBOUND_TESTS=OFF -D SPECBOUND_WERROR=OFF \
  -D SPECBOUND_CUDA=ON -D SPECBOUND_GUI=ON -D SPECBOUND_SERVER=ON \
  -D "SPECBOUND_HTTPLIB=$build/httplib/include" >&2
cmake --build "$build" --target specbound specbound_shared >&2

# The tree of `cmake --install`, under a name of its own; the same commit gives the same bytes.
version=$(cached_by_cmake CMAKE_PROJECT_VERSION)
name="specbound-$version-linux-$(uname -m)"
stage=$(mktemp -d "$out/.release-XXXXXX")
trap 'rm -rf "$stage"' EXIT
umask 022
export SOURCE_DATE_EPOCH=$(source_date)
cmake --install "$build" --prefix "$stage/$name" --strip >&2
copy_notices "$stage/$name/share/doc/specbound/third-party"
packed="$stage/packed"
mkdir "$packed"
# A dictionary that reaches from the kernels of the library back to those of the program.
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  -c "$name" | xz --lzma2=preset=6,dict=64MiB >"$packed/$name.tar.xz"
package=$("$root/packaging/deb.sh" "$build" "$packed")
python3 -B "$root/packaging/release_check.py" "$packed" >&2
mv "$packed"/* "$out"
printf '%s\n' "$out/$name.tar.xz" "$out/${package##*/}"
