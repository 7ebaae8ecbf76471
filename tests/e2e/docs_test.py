#!/usr/bin/env python3
"""Whether the documentation is about this repository: its links lead somewhere, the files, scripts
and tables that it names are there, and the sections that comments cite are those that it has."""
import pathlib
import re
import unittest

from specbound_process import ROOT

ROOT = pathlib.Path(ROOT)

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "kernels/README.md",
                                  "models/README.md")] + sorted((ROOT / "docs").glob("*.md"))
FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)+(?:\.(?:h|cpp|cu|cuh|py|sh|md|json|cmake|c)|/)")


def read(path):
    return path.read_text(encoding="utf-8")


def anchors(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def sections():
    """The numbers of docs/architecture.md: "3", "3.2"."""
    return set(re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", read(ROOT / "docs/architecture.md"),
                          re.MULTILINE))


class Docs(unittest.TestCase):
    def test_the_readme_is_short(self):
        self.assertLessEqual(len(read(ROOT / "README.md").splitlines()), 150)

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                path = (page.parent / name) if name else page
                self.assertTrue(path.exists(), (page.name, target))
                if anchor:
                    self.assertIn(anchor, anchors(path), (page.name, target))

    def test_files_that_are_named_are_there(self):
        named = 0
        for page in PAGES:
            for code in re.findall(r"`([^`\n]+)`", read(page)):
                if not FILE.fullmatch(code) or "NAME" in code or code.startswith("build/"):
                    continue
                named += 1
                places = (ROOT, ROOT / "src", page.parent)
                self.assertTrue(any((place / code).exists() for place in places), (page, code))
        self.assertGreater(named, 30)

    def test_measured_numbers_name_recorded_scripts(self):
        bench = ROOT / "tests/bench"
        for page in ("README.md", "docs/benchmarks.md"):
            scripts = set(re.findall(r"`(?:[^`\s]+ )*(?:[\w/]+/)?(\w+)\.sh`", read(ROOT / page)))
            scripts -= {"test", "quickstart", "gpu_session", "deb", "release"}
            self.assertGreater(len(scripts), 4, page)
            for script in scripts:
                self.assertTrue((bench / f"{script}.sh").exists(), (page, script))
                self.assertTrue(list((bench / "results").glob(f"{script}*.json")), (page, script))

    def test_tables_that_recipes_name_are_there(self):
        recipes = read(ROOT / "CONTRIBUTING.md").split("\n## Recipes\n")[1].split("\n## ")[0]
        self.assertEqual(len(re.findall(r"^### .+: \d files?", recipes, re.MULTILINE)), 4)
        rows = re.findall(r"^\d\. `([^`]+)`: a row of `(\w+)`", recipes, re.MULTILINE)
        self.assertGreaterEqual(len(rows), 2)
        for path, table in rows:
            self.assertRegex(read(ROOT / path), rf"\b{table}\b", path)

    def test_rooms(self):
        """Section 7 has the rooms of src/, which are those that the lint knows."""
        house = read(ROOT / "docs/architecture.md").split("\n## 7.")[1].split("```")[1]
        shown = set(re.findall(r"(\w+)/ {2,}", house.split("\nkernels/")[0]))
        rooms = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
        self.assertEqual(shown, rooms)
        arrows = read(ROOT / "tests/lint.py").split("\nMAY_INCLUDE = {")[1].split("\n}")[0]
        known = set(re.findall(r'^    "(\w+)": ', arrows, re.MULTILINE))
        self.assertEqual(known - {"kernels"}, rooms)

    def test_sections_that_comments_cite(self):
        known = sections()
        cites = 0
        for folder in ("src", "kernels", "gui", "tests", "packaging"):
            for path in (ROOT / folder).rglob("*"):
                if path.suffix not in (".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake"):
                    continue
                text = read(path)
                self.assertFalse(re.search(r"\bDESIGN" r" \d", text), path)
                for numbers in re.findall(r"docs/architecture\.md (\d[\d., ]*\d|\d)", text):
                    cites += 1
                    self.assertLessEqual(set(numbers.split(", ")), known, path)
        self.assertGreater(cites, 40)


if __name__ == "__main__":
    unittest.main()
