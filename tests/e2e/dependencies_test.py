#!/usr/bin/env python3
"""What packaging/quickstart.sh and packaging/test.sh ask of a machine, where it lacks something:
both end at the first command that fails."""
import os
import subprocess
import unittest

from specbound_process import ROOT, FolderCase

SCRIPT = """set -euo pipefail
root=$1
say() { echo "$*"; }
. "$root/packaging/dependencies.sh"
find_nvcc() { %s; }
nvidia-smi() { printf '8.9\\n7.5\\n8.9\\n6.1\\n'; }
missing_packages() { :; }
describe_system
echo "GPUs: $(gpu_architectures)"
"""


class Dependencies(FolderCase):
    def said(self, find_nvcc):
        return subprocess.run(["bash", "-c", SCRIPT % find_nvcc, "bash", ROOT], check=True,
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


if __name__ == "__main__":
    unittest.main()
