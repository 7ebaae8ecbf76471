#!/usr/bin/env python3
"""`check_fault.py PROGRAM CASE...` passes when each test case, run alone in a test program with a
planted fault, fails by an assertion of its own, or by what the SIMT executor says of a kernel. Any
other end (a pass, a crash, another exception, no such case) means that the fault went unnoticed
there.
"""
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def failed_assertion(program, case):
    """What the case found wrong; raises ValueError when it did not fail as it should."""
    # A comma would split the filter; `?` stands for any one character.
    run = subprocess.run([program, "-r=xml", "-tc=" + case.replace(",", "?")],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    if run.returncode != 1:
        raise ValueError(f"exit status {run.returncode} instead of 1\n{run.stdout}{run.stderr}")
    try:
        root = ElementTree.fromstring(run.stdout)
    except ElementTree.ParseError as error:
        raise ValueError(f"{error}\n{run.stdout}{run.stderr}") from error
    ran = [t for t in root.iter("TestCase") if t.get("skipped") != "true"]
    if [t.get("name") for t in ran] != [case]:
        raise ValueError(f"ran {[t.get('name') for t in ran]}")
    thrown = [e.text.strip().strip('"') for e in root.iter("Exception")]
    if thrown and thrown[0].startswith("simt: "):
        return thrown[0][:300]
    if thrown:
        raise ValueError(f"stopped by an exception or a signal: {thrown[0]}")
    for found in ran[0].iter("Expression"):
        if found.get("success") == "false":
            place = f"{found.get('filename').rsplit('/', 1)[-1]}:{found.get('line')}"
            return f"{place}: {' '.join(found.findtext('Expanded').split())[:160]}"
    raise ValueError("no assertion failed")


def main():
    program, *cases = sys.argv[1:]
    missed = 0 if cases else 1
    for case in cases:
        try:
            print(f"caught by \"{case}\"\n  {failed_assertion(program, case)}")
        except ValueError as error:
            missed += 1
            print(f"NOT CAUGHT by \"{case}\": {error}")
    return 1 if missed else 0


sys.exit(main())
