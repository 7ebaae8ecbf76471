# Sourced by the scripts beside it that build: what is installed, what is missing, how to get it.
# Nothing here writes to stdout, and the network is touched only when something is missing.

# What the program needs, as TOOL:PACKAGE (found on PATH) and plain PACKAGE (a library, by dpkg).
# The desktop app (gui_needs) is built where it can be and left out elsewhere.
# The names are the same on Debian 12, 13 and Ubuntu 22.04, 24.04.
build_needs="g++:g++ cmake:cmake ninja:ninja-build nlohmann-json3-dev libcli11-dev
  liblzma-dev libpcre2-dev libedit-dev libcpp-httplib-dev pkg-config:pkg-config python3:python3"
gui_needs="libimgui-dev libstb-dev libglfw3-dev libmd4c-dev libgl1 libgl1-mesa-dri"
package_needs="dpkg-shlibdeps:dpkg-dev strip:binutils"
# curl also brings the library that `specbound pull` opens, which releases name differently.
test_needs="$gui_needs $package_needs debootstrap
  Xvfb:xvfb xdotool:xdotool ccache:ccache clang++:clang
  clang-format:clang-format curl:curl tmux:tmux
  zsh:zsh fish:fish man-db python3-jsonschema
  pkg-config:pkg-config doctest-dev libsentencepiece-dev libboost-dev
  libboost-context-dev"

# What the programs of gpu_session.sh are built with.
gpu_needs="doctest-dev strip:binutils"

# What a release has in it of cpp-httplib's library, and is packed with.
release_needs="dpkg-source:dpkg-dev zlib1g-dev xz:xz-utils"

# Parts of these end up in the program (zlib's in a release): packages have their notices too.
linked_packages="nlohmann-json3-dev libcli11-dev liblzma-dev libpcre2-dev libedit-dev
  libncurses-dev libbsd-dev libmd-dev libcpp-httplib-dev zlib1g-dev libimgui-dev libstb-dev
  libglfw3-dev libstdc++6"

# Used when it is there and never required: train-heads multiplies matrices with it.
recommended="libopenblas0-pthread"

# The packages among `TOOL:PACKAGE` and `PACKAGE` arguments that are not here, on one line.
missing_packages() {
  local need out=""
  for need in "$@"; do
    case $need in
      *:*) command -v "${need%%:*}" >/dev/null || out="$out ${need#*:}" ;;
      *) dpkg-query -W -f '${Status}' "$need" 2>/dev/null | grep -q ' installed$' ||
           out="$out $need" ;;
    esac
  done
  echo "${out# }"
}

apt_installed=""  # not empty: something was installed

# Installs PACKAGES... through apt, as root or with sudo; otherwise one line says what to type.
# apt's own output goes to a file and is shown only when it fails. Lists that cannot be brought up
# to date, as those of a source that is gone, stop nothing: those that are there may be enough.
apt_install() {
  local sudo="" log install
  install=(apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@")
  if ! command -v apt-get >/dev/null; then
    say "missing: $* (Debian names); this system has no apt-get: install them and run again"
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    # Without a terminal sudo cannot ask for a password.
    if ! command -v sudo >/dev/null || { ! [ -t 2 ] && ! sudo -n true 2>/dev/null; }; then
      say "missing: $*; as root run: apt-get update; ${install[*]}"
      return 1
    fi
    sudo="sudo"
  fi
  say "installing with apt: $*"
  log=$(mktemp)
  # stdin belongs to the program that runs afterwards.
  $sudo apt-get update </dev/null >"$log" 2>&1 ||
    say "apt-get update failed: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
  if ! $sudo env DEBIAN_FRONTEND=noninteractive "${install[@]}" </dev/null >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    say "apt failed (above); to try by hand: ${sudo:+sudo }apt-get update;" \
      "${sudo:+sudo }${install[*]}"
    return 1
  fi
  rm -f "$log"
  apt_installed=yes
}

# Installs what is missing of NEEDS...; returns at once, with no network, when nothing is.
ensure_installed() {
  local packages
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian or Ubuntu system: taking for granted that these are here: $*"
    return 0
  fi
  packages=$(missing_packages "$@")
  [ -z "$packages" ] || apt_install $packages
}

# Path of nvcc, or nothing.
find_nvcc() {
  command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; }
}

# Version of the CUDA toolkit, as 13.0, or nothing.
cuda_version() {
  local nvcc
  if nvcc=$(find_nvcc); then "$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'; fi
}

# What the GPUs of this machine are, as CMAKE_CUDA_ARCHITECTURES has it ("89" or "75;89"), where
# this toolkit and the kernels can serve them; nothing otherwise.
gpu_architectures() {
  local version
  version=$(cuda_version)
  [ -n "$version" ] && [ "${version%%.*}" -ge 13 ] || return 0
  { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } | tr -d '. ' |
    awk '/^[0-9]+$/ && $0 >= 75 && !seen[$0]++ { printf "%s%s", separator, $0; separator = ";" }'
}

# What the program in build/release is configured with, into `settings`: nothing for tests, the
# window where its packages are, the GPU engine where there are GPUs and a toolkit for it. A newer
# compiler than ours may warn of new things; that must stop no newcomer.
program_settings() {
  local archs
  settings=(-D SPECBOUND_TESTS=OFF -D SPECBOUND_WERROR=OFF -D SPECBOUND_GUI=AUTO)
  archs=$(gpu_architectures)
  [ -n "$archs" ] || return 0
  say "with the GPU engine, for sm_${archs//;/, sm_}"
  settings+=(-D SPECBOUND_CUDA=AUTO -D "SPECBOUND_CUDA_ARCHS=$archs")
}

# The value of variable $1 in the CMake cache of folder $build.
cached_by_cmake() {
  sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"
}

# Seconds since 1970 that a package's files bear: the same commit gives the same package.
source_date() {
  echo "${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null ||
    stat -c %Y "$root/CHANGELOG.md")}"
}

# Writes the notices of what has become part of the program in $build into folder $1.
copy_notices() {
  local package notice toolkit
  mkdir -p "$1"
  for package in $linked_packages; do
    notice="/usr/share/doc/$package/copyright"
    [ ! -f "$notice" ] || cp -L "$notice" "$1/$package.copyright"
  done
  toolkit=$(cached_by_cmake CMAKE_CUDA_COMPILER)
  [ -n "$toolkit" ] || return 0
  toolkit=$(dirname "$(readlink -f "$toolkit")")/..
  # NVIDIA's own packages have it at the top, its Python packages beside what they install.
  for notice in "$toolkit"/EULA.txt "$toolkit"/dist-info/nvidia_cuda_runtime*/licenses/License.txt
  do
    [ ! -f "$notice" ] || cp -L "$notice" "$1/cuda-runtime.EULA.txt"
  done
}

# One line on the system and its tools.
describe_system() {
  local os cuda
  os=$(. /etc/os-release 2>/dev/null && echo "${PRETTY_NAME-}") || os=$(uname -s)
  cuda=$(cuda_version)
  cuda=${cuda:+CUDA toolkit $cuda}
  say "$os, $(nproc) cores, g++ $(g++ -dumpfullversion)," \
    "cmake $(cmake --version | sed -n '1s/cmake version //p'), ${cuda:-no CUDA toolkit}"
  if command -v dpkg-query >/dev/null && [ -n "$(missing_packages $recommended)" ]; then
    say "$recommended would speed up train-heads (apt-get install $recommended)"
  fi
}

# True when build folder $1 was configured for another path: a moved or copied checkout. Not one of
# another project.
moved_build() {
  local cache="$1/CMakeCache.txt"
  [ -f "$cache" ] && grep -qx 'CMAKE_PROJECT_NAME:STATIC=specbound' "$cache" &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"
}

# CMake refuses such a folder; this makes it configure again.
forget_moved_build() {
  if moved_build "$1"; then
    say "$1 was configured for another path: starting afresh"
    rm -rf "$1"
    mkdir -p "$1"
  fi
}
