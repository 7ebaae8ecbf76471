"""Imported, leaves nothing that was tuned, set, said or learnt on the machine to the programs that
this process starts: cache, settings, state and data are empty folders, gone at the end, and of the
variables SPECBOUND_* those stay by which tests and benches are told something."""
import os
import tempfile

_HOME = tempfile.TemporaryDirectory()
for _kind in ("CACHE", "CONFIG", "DATA", "STATE"):
    os.environ[f"XDG_{_kind}_HOME"] = os.path.join(_HOME.name, _kind.lower())
_TOLD = ("SPECBOUND_BINARY", "SPECBOUND_CUDA_ARCHS", "SPECBOUND_F16_MODEL", "SPECBOUND_NETWORK",
         "SPECBOUND_SHARED", "SPECBOUND_SIMT_")
for _name in list(os.environ):
    if _name.startswith("SPECBOUND_") and not _name.startswith(_TOLD):
        del os.environ[_name]
