"""Reads what nvdisasm prints of a cubin: instructions, and the loops that have no other in them.

    /*0250*/              @!P1 IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4 ;

A loop is what lies between a branch backwards and where it goes: the assembler lays bodies out in
one piece. Counts are static: of the text, not of a run.
"""

import collections
import dataclasses
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Where PyPI's packages have it: nvidia-cuda-nvdisasm, then triton.
PACKAGED = ("nvidia/cu13/bin/nvdisasm", "nvidia/cuda_nvdisasm/bin/nvdisasm",
            "triton/backends/nvidia/bin/nvdisasm")
FUNCTION = re.compile(r"^\s*\.section\s+\.text\.([^,]+),")
LABEL = re.compile(r"^(\.L_[\w.]+):")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?(U?P\w+)\s+)?([A-Z][\w.]*)([^;]*);")
TARGET = re.compile(r"`\((\.L_[\w.]+)\)")
LOAD_BITS = re.compile(r"\.(U8|S8|U16|S16|64|128)\b")


@dataclasses.dataclass(frozen=True)
class Instruction:
    at: int  # bytes from the function's beginning
    opcode: str  # with what follows its dots
    operands: str

    @property
    def name(self):
        return self.opcode.split(".")[0]

    @property
    def bits(self):
        """That a lane loads or stores."""
        found = LOAD_BITS.search(self.opcode)
        return int(found.group(1).lstrip("US")) if found else 32


@dataclasses.dataclass
class Function:
    name: str  # mangled
    instructions: list
    labels: dict  # -> bytes from the function's beginning

    @property
    def code_bytes(self):
        """With the padding behind it."""
        return self.instructions[-1].at + 16 if self.instructions else 0

    def useful(self):
        """Without padding and the branch to itself before it."""
        return [i for i in self.instructions if i.name != "NOP" and self.target(i) != i.at]

    def target(self, instruction):
        found = TARGET.search(instruction.operands) if instruction.name == "BRA" else None
        return self.labels.get(found.group(1)) if found else None

    def innermost_loops(self):
        """[[instruction]] of loops with no loop in them."""
        ranges = {(self.target(i), i.at) for i in self.instructions
                  if self.target(i) is not None and self.target(i) < i.at}
        inner = [(begin, end) for begin, end in sorted(ranges)
                 if not any(other != (begin, end) and begin <= other[0] and other[1] <= end
                            for other in ranges)]
        return [[i for i in self.instructions if begin <= i.at <= end and i.name != "NOP"]
                for begin, end in inner]


def parse(text):
    """{mangled name: Function} of what `nvdisasm -c` printed."""
    functions, current, waiting = {}, None, []
    for line in text.splitlines():
        if found := FUNCTION.match(line):
            current = functions.setdefault(found.group(1), Function(found.group(1), [], {}))
            waiting = []
        elif current is None:
            continue
        elif found := LABEL.match(line):
            waiting.append(found.group(1))
        elif found := INSTRUCTION.match(line):
            at = int(found.group(1), 16)
            current.labels.update(dict.fromkeys(waiting, at))
            waiting = []
            current.instructions.append(
                Instruction(at, found.group(3), found.group(4).strip()))
    return functions


# What runs where, by the first word of an opcode. All else is "other".
CLASSES = {
    "tensor": ("IMMA", "HMMA"),
    "float": ("FADD", "FMUL", "FFMA", "FCHK", "FSWZADD", "DADD", "DMUL", "DFMA", "DSETP", "HADD2",
              "HMUL2", "HFMA2"),
    "multiply": ("IMAD",),
    "integer": ("IADD3", "IADD", "ISETP", "IABS", "IMNMX", "VIMNMX", "VIADD", "LEA", "LOP3",
                "SHF", "SHL", "SHR", "PRMT", "SEL", "BMSK", "SGXT", "BREV", "FLO", "POPC", "PLOP3",
                "P2R", "R2P", "VIADDMNMX", "FSEL", "FSETP", "FSET", "FMNMX", "MOV"),
    "convert": ("I2F", "F2I", "F2F", "I2FP", "F2FP", "I2I", "FRND", "MUFU"),
    "global": ("LDG", "STG", "ATOMG", "RED", "CCTL", "UBLKPF"),
    "shared": ("LDS", "STS", "LDSM", "STSM", "ATOMS", "SHFL"),
    "control": ("BRA", "BSSY", "BSYNC", "EXIT", "RET", "CALL", "BAR", "WARPSYNC", "BREAK", "YIELD",
                "NANOSLEEP", "DEPBAR", "ACQBULK", "PREEXIT", "BMOV"),
    "move": ("S2R", "CS2R", "S2UR", "R2UR", "LDC", "ULDC", "LDCU", "UMOV", "LDL", "STL"),
}
CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names}


def counts(instructions):
    """{class: how many}"""
    found = collections.Counter(
        CLASS_OF.get(i.name) or ("uniform" if i.name.startswith("U") else "other")
        for i in instructions)
    return dict(sorted(found.items()))


def find_disassembler():
    """The path of nvdisasm: on PATH, in the toolkit, or a package of the Python that SASS_PYTHON
    names, or of this one."""
    for path in ("nvdisasm", "/usr/local/cuda/bin/nvdisasm"):
        if found := shutil.which(path):
            return found
    places = []
    if named := os.environ.get("SASS_PYTHON"):
        try:
            places = [subprocess.run(
                [named, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
                capture_output=True, text=True, check=True).stdout.strip()]
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit("SASS_PYTHON: expected a Python that has nvdisasm (pip install "
                     f"nvidia-cuda-nvdisasm), found {named}: {error}")
    elif spec := importlib.util.find_spec("nvidia"):
        places = [pathlib.Path(folder).parent for folder in spec.submodule_search_locations or []]
    for place in places:
        for packaged in PACKAGED:
            if os.access(path := pathlib.Path(place) / packaged, os.X_OK):
                return str(path)
    sys.exit("expected nvdisasm on PATH, in /usr/local/cuda/bin or in a Python that SASS_PYTHON "
             "names, found none: pip install nvidia-cuda-nvdisasm")


def disassemble(program, cubin):
    done = subprocess.run([program, "-c", str(cubin)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{cubin}: nvdisasm failed: {done.stderr.strip()}")
    return parse(done.stdout)
