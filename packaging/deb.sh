#!/usr/bin/env bash
# A Debian package of the release build, for the release of Debian or Ubuntu that it runs on.
#
#   packaging/deb.sh                     builds build/release first, as quickstart.sh does, then the
#                                        package beside it
#   packaging/deb.sh BUILD [FOLDER]      packs the build in BUILD as it is, into FOLDER (or BUILD)
#
# The last line of stdout names the file. Everything but that goes to stderr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
say() { echo "deb: $*" >&2; }
. "$root/packaging/dependencies.sh"

case $# in
  0)
    build="$root/build/release" out="$build"
    ensure_installed $build_needs $gui_needs $package_needs
    forget_moved_build "$build"
    program_settings
    cmake -S "$root" --preset release "${settings[@]}" >&2
    cmake --build "$build" --target specbound specbound_shared >&2
    ;;
  1 | 2)
    build=$(cd "$1" && pwd -P) out=$(cd "${2:-$1}" && pwd -P)
    ensure_installed $package_needs
    ;;
  *)
    echo "usage: packaging/deb.sh [BUILD [FOLDER]]" >&2
    exit 2
    ;;
esac

stage=$(cd "$(mktemp -d)" && pwd -P)
trap 'rm -rf "$stage"' EXIT
umask 022
tree="$stage/tree" doc="$stage/tree/usr/share/doc/specbound"
version=$(cached_by_cmake CMAKE_PROJECT_VERSION)
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=$(source_date)

# ---- the tree, where Debian wants things ----

cmake --install "$build" --prefix "$tree/usr" --strip >&2
libraries="usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
mkdir "$tree/$libraries" "$tree/usr/share/lintian" "$tree/usr/share/lintian/overrides"
mv "$tree"/usr/lib/libspecbound.so* "$tree/usr/lib/pkgconfig" "$tree/$libraries"
sed -i -e 's|^\(prefix=.*\)$|\1/..|' -e "s|^libdir=.*|libdir=\${prefix}/${libraries#usr/}|" \
  "$tree/$libraries/pkgconfig/specbound.pc"
mv "$tree/usr/share/zsh/site-functions" "$tree/usr/share/zsh/vendor-completions"
gzip -9n "$tree/usr/share/man/man1/specbound.1"
mv "$doc/CHANGELOG.md" "$doc/changelog"
rm "$doc/LICENSE"  # Debian has it, and `copyright` says where
cp "$root/packaging/debian/copyright" "$doc/copyright"
cp "$root/packaging/debian/lintian-overrides" "$tree/usr/share/lintian/overrides/specbound"
cat >"$doc/changelog.Debian" <<EOF
specbound ($version-1) unstable; urgency=medium

  * Version $version; changelog.gz says what is new.

 -- SpecBound authors <specbound@specbound.invalid>  $(date -uRd "@$SOURCE_DATE_EPOCH")
EOF
gzip -9n "$doc/changelog" "$doc/changelog.Debian"
copy_notices "$doc/third-party"

# ---- what dpkg is told ----

mkdir -p "$tree/DEBIAN" "$stage/debian"
printf 'Source: specbound\n\nPackage: specbound\nArchitecture: any\n' >"$stage/debian/control"
library=$(readlink -f "$tree/$libraries/libspecbound.so")
depends=$(cd "$stage" && dpkg-shlibdeps -O tree/usr/bin/specbound "tree${library#"$tree"}" \
  2>"$stage/shlibdeps.log") || { cat "$stage/shlibdeps.log" >&2 && exit 1; }
cat >"$tree/DEBIAN/control" <<EOF
Package: specbound
Version: $version-1
Architecture: $architecture
Maintainer: SpecBound authors <specbound@specbound.invalid>
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$tree" | cut -f1)
Depends: ${depends#shlibs:Depends=}
Recommends: libglfw3, libmd4c0, libcurl4
Suggests: libopenblas0-pthread
Section: science
Priority: optional
Description: language models with exact self-speculation
 Runs Llama-family models from GGUF files: in a terminal, in a window, as a
 server with OpenAI's interface, and as a C library. Shallow layers of a model
 draft tokens, all layers verify them together; the text is the same to the
 byte with speculation and without it.
 .
 A small demo model comes with it. The window needs libglfw3, and libmd4c0 to
 render replies; downloading models needs libcurl4; training exit heads is
 faster with OpenBLAS.
EOF
echo "libspecbound ${version%%.*} specbound (>= $version)" >"$tree/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$tree/DEBIAN/triggers"
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hcd "@$SOURCE_DATE_EPOCH" {} +

package="$out/specbound_$version-1_$architecture.deb"
# 9 for a dictionary that reaches from the kernels of the library back to those of the program.
dpkg-deb --build --root-owner-group -Z"${DPKG_DEB_COMPRESSOR_TYPE:-xz}" \
  -z"${DPKG_DEB_COMPRESSOR_LEVEL:-9}" "$tree" "$package" >&2
echo "$package"
