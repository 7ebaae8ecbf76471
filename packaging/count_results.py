#!/usr/bin/env python3
"""Counts what really ran in a ctest run: `count_results.py JUNIT.xml` prints the numbers passed,
failed and skipped on the first line, then one line for each skip and each failure.

A ctest test counts as one, except a doctest or unittest program, which counts as its test cases. A
test says that it left something out by a line (or doctest MESSAGE) that starts with SKIP; each
different one counts as a skip, and the doctest case that said so does not count as passed. Said by
a program that runs no case, it is about all of them.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

# "[doctest] test cases: 42 | 40 passed | 1 failed | 1 skipped"
DOCTEST = re.compile(
    r"^\[doctest\] test cases: +\d+ \| +(\d+) passed \| +(\d+) failed \| +(\d+) skipped",
    re.MULTILINE)
# "Ran 42 tests in 3.1s", then "OK (skipped=1)" or "FAILED (failures=1, errors=1, skipped=1)"
UNITTEST = re.compile(r"^Ran (\d+) tests? in [\d.]+s\n\n(?:OK|FAILED|NO TESTS RAN)(.*)",
                      re.MULTILINE)
CASE = re.compile(r"^TEST CASE: +(.*)")
SKIP = re.compile(r"^(?:.* MESSAGE: )?SKIP[ :] *(.*)")


def find_skips(output):
    """The different skips in a test's output, and how many doctest cases said them."""
    case, said, cases = None, {}, set()
    for number, line in enumerate(output.splitlines()):
        if CASE.match(line):
            case = CASE.match(line).group(1)
        elif line.startswith("====="):
            case = None
        elif SKIP.match(line):
            reason = SKIP.match(line).group(1)
            said[case, reason] = f"SKIP {case}: {reason}" if case else f"SKIP {reason}"
            cases.add(case or number)
    return list(said.values()), len(cases)


def find_cases(output):
    """[passed, failed, skipped] of each doctest or unittest summary in a test's output."""
    for found in DOCTEST.findall(output):
        yield [int(n) for n in found]
    for ran, details in UNITTEST.findall(output):
        count = dict(re.findall(r"(failures|errors|skipped)=(\d+)", details))
        failed = int(count.get("failures", 0)) + int(count.get("errors", 0))
        skipped = int(count.get("skipped", 0))
        yield [max(0, int(ran) - failed - skipped), failed, skipped]


def count_test(test):
    """(passed, failed, skipped, notes) of one <testcase>."""
    name, status = test.get("name"), test.get("status")
    output = test.findtext("system-out") or ""
    notes, skipping_cases = find_skips(output)
    if status == "disabled":
        return 0, 0, 1, [f"SKIP {name}: disabled"]
    if status == "notrun":
        reason = test.find("skipped").get("message")
        # ctest also says "skipped" of a program that it cannot start.
        if not reason.startswith("SKIP_"):
            return 0, 1, 0, [f"FAILED {name}: {reason}"]
        return 0, 0, 1, notes[:1] or [f"SKIP {name}: {reason}"]

    skipped = len(notes)
    passed, failed = (1, 0) if status == "run" else (0, 1)
    cases = list(find_cases(output))
    if cases:
        marked = sum(c[2] for c in cases)
        if marked and notes and not any(c[0] + c[1] for c in cases):
            # The program said once why it leaves out everything.
            skipped = marked
            notes = [f"SKIP {name}, {marked} cases: {notes[0].removeprefix('SKIP ')}"]
        elif marked:
            skipped += marked
            notes.append(f"SKIP {name}: {marked} cases marked as skipped")
        passed = max(0, sum(c[0] for c in cases) - skipping_cases)
        # A sanitizer may fail a run whose cases all passed.
        failed = max(failed, sum(c[1] for c in cases))
        if passed + failed + skipped == 0:
            failed, notes = 1, [f"FAILED {name}: no test case ran"]
    elif notes and status == "run":
        passed = 0  # all that it had to say
    if status != "run":
        notes.append(f"FAILED {name}")
    return passed, failed, skipped, notes


def main():
    totals, notes = [0, 0, 0], []
    for test in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        *counts, said = count_test(test)
        totals = [a + b for a, b in zip(totals, counts)]
        notes += said
    print(*totals)
    for line in notes:
        print(line)


main()
