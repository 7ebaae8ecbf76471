#!/usr/bin/env python3
"""What packaging/quickstart.sh and packaging/test.sh ask of a machine, where it lacks something:
both end at the first command that fails."""
import os
import subprocess
import unittest

from specbound_process import ROOT, FolderCase

SOURCED = """set -euo pipefail
root=$1
say() { echo "$*"; }
. "$root/packaging/dependencies.sh"
"""
MACHINE = SOURCED + """find_nvcc() { %s; }
nvidia-smi() { printf '8.9\\n7.5\\n8.9\\n6.1\\n'; }
missing_packages() { :; }
describe_system
echo "GPUs: $(gpu_architectures)"
"""
# As root; the update of the lists fails.
APT = SOURCED + """id() { echo 0; }
apt_install %s
"""
APT_GET = """#!/bin/sh
echo "$@" >>"${0%/*}/asked"
case "$*" in
  update) echo "Reading"; echo "E: The repository 'x' has no Release file." >&2; exit 100 ;;
  *missing*) echo "E: Unable to locate package missing" >&2; exit 100 ;;
esac
"""


class Dependencies(FolderCase):
    def said(self, find_nvcc):
        return subprocess.run(["bash", "-c", MACHINE % find_nvcc, "bash", ROOT], check=True,
                              capture_output=True, text=True).stdout

    def test_a_machine_without_a_toolkit_is_told_of_as_such(self):
        said = self.said("return 1")
        self.assertIn("no CUDA toolkit\n", said)
        self.assertIn("GPUs: \n", said)

    def test_a_toolkit_serves_the_gpus_that_the_kernels_know(self):
        for version, gpus in (("13.0", "89;75"), ("12.4", "")):
            nvcc = os.path.join(self.folder, "nvcc")
            with open(nvcc, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V1'\n")
            os.chmod(nvcc, 0o755)
            said = self.said(f"echo {nvcc}")
            self.assertIn(f"CUDA toolkit {version}\n", said)
            self.assertIn(f"GPUs: {gpus}\n", said)

    def test_lists_that_cannot_be_brought_up_to_date_stop_nothing(self):
        apt_get = os.path.join(self.folder, "apt-get")
        with open(apt_get, "w", encoding="ascii") as file:
            file.write(APT_GET)
        os.chmod(apt_get, 0o755)
        for package, status in (("here", 0), ("missing", 1)):
            done = subprocess.run(
                ["bash", "-c", APT % package, "bash", ROOT], capture_output=True, text=True,
                env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, status, done)
            self.assertIn("failed: E: The repository 'x' has no Release file.\n", done.stdout)
            self.assertEqual("by hand: apt-get update; apt-get install -y" in done.stdout,
                             status == 1)
            self.assertEqual("Unable to locate" in done.stderr, status == 1)
            with open(os.path.join(self.folder, "asked"), encoding="ascii") as file:
                self.assertIn("DPkg::Lock::Timeout=120 " + package, file.read())

    def test_a_build_of_another_path_is_forgotten_and_another_projects_is_not(self):
        for project, there in (("specbound", False), ("other", True)):
            build = os.path.join(self.folder, project)
            os.mkdir(build)
            cache = os.path.join(build, "CMakeCache.txt")
            with open(cache, "w", encoding="ascii") as file:
                file.write("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n"
                           f"CMAKE_PROJECT_NAME:STATIC={project}\n")
            subprocess.run(["bash", "-c", SOURCED + 'forget_moved_build "$2"', "bash", ROOT, build],
                           check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(os.path.exists(cache), there, project)


if __name__ == "__main__":
    unittest.main()
