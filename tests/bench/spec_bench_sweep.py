#!/usr/bin/env python3
"""The SpecBound paper's Figures 3 and 4: Spec-Bench with one setting at a time moved away from
where it is, and with each bound left out, all with the controller off, which would make up for it.

    spec_bench_sweep.py --out FOLDER [--specbound PROGRAM] [--json FILE] -- -f question.jsonl ...

What follows -- are flags of `specbound spec-bench`: the questions, the model, the heads. FOLDER
gets the answers and figure3-tau.svg, ..., figure4.svg; an interrupted run goes on from its answers.
Needs nothing but Python.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import plots

PARAMETERS = ("tau", "alpha", "d_max", "w_max")
MOST_ROWS = 16
FIXED = "--controller off"


def around(values, given):
    """`values` and the one that is set, ascending. A float's 0.55 is the 0.55 of the list."""
    return sorted(values if any(abs(v - given) < 1e-6 for v in values) else [*values, given])


def depths(head_layers):
    """The bounds that let in more heads each, 8 at most. A head before any layer is within every
    bound."""
    found = sorted({max(layer, 1) for layer in head_layers})
    kept = min(8, len(found))
    return [found[i * (len(found) - 1) // (kept - 1) if kept > 1 else 0] for i in range(kept)]


def sweep_points(setting, learned=True):
    """[(parameter, value or label of a bar, answer file, flags)] around what `spec-bench` says of
    a drafter's parameters. d_max walks over all layers that have a head, each checked, and so does
    the variant without a depth bound. `learned`: with the temperatures that heads files hold too,
    which --alpha and --no-anneal exclude."""
    if not setting["head_layers"]:
        sys.exit("expected a drafter with exit heads, whose settings can move (--speculator "
                 "specbound)")
    moved = {
        "tau": around([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], setting["tau"]),
        "alpha": around([0, 0.1, 0.2, 0.4, 0.8], setting["alpha"]),
        "d_max": depths(setting["head_layers"]),
        "w_max": [w for w in around([2, 3, 4, 6, 8, 12, MOST_ROWS], setting["w_max"]) if w > 1],
    }
    points = []
    for parameter, values in moved.items():
        more = " --check-layers all" if parameter == "d_max" else ""
        points += [(parameter, value, f"{parameter}-{value:g}",
                    f"--{parameter.replace('_', '-')} {value:g}{more} {FIXED}")
                   for value in values]
    return points + [
        (None, "all", "setting", FIXED),
        (None, "no annealing", "no-annealing", f"--no-anneal {FIXED}"),
        *([(None, "annealing learned", "anneal-learned", f"--anneal-learned {FIXED}")]
          if learned else []),
        (None, "no depth bound", "no-depth-bound",
         f"--no-depth-bound --check-layers all {FIXED}"),
        (None, "no width bound", "no-width-bound", f"--no-width-bound {FIXED}"),
    ]


def sweep_figures(points, results):
    """{"figure_3": {parameter: [{value, speedup, ...}]}, "figure_4": [{variant, ...}]}."""
    figures = {"figure_3": {parameter: [] for parameter in PARAMETERS}, "figure_4": []}
    scores = {result["name"]: result["overall"] for result in results}
    for parameter, value, name, _ in points:
        score = {key: scores[name][key]
                 for key in ("speedup", "speedup_interval_95", "compression_rate")}
        if parameter:
            figures["figure_3"][parameter].append(dict(**score, value=value))
        else:
            figures["figure_4"].append(dict(**score, variant=value))
    return figures


def write_svgs(figures, folder):
    for parameter, points in figures["figure_3"].items():
        series = {name: [(p["value"], p[key]) for p in points]
                  for name, key in (("SD", "speedup"), ("CR", "compression_rate"))}
        plot = plots.line_plot(parameter, "speedup and tokens a round", series)
        (folder / f"figure3-{parameter}.svg").write_text(plot)
    bars = [(p["variant"], p["speedup"]) for p in figures["figure_4"]]
    (folder / "figure4.svg").write_text(plots.bar_plot("speedup", bars))


def sweep_table(figures):
    rows = [(f"{parameter} {p['value']:g}", p) for parameter, points in figures["figure_3"].items()
            for p in points] + [(p["variant"], p) for p in figures["figure_4"]]
    lines = ["Figures 3 and 4: one setting moved at a time, the controller off",
             f"{'':16}  {'CR':>5}  {'SD':>6}  95 % interval"]
    for name, p in rows:
        low, high = p["speedup_interval_95"]
        lines.append(f"{name:16}  {p['compression_rate']:5.2f}  {p['speedup']:5.2f}x  "
                     f"[{low:.3f}, {high:.3f}]")
    return "\n".join(lines) + "\n"


def spec_bench(specbound, flags):
    """What `specbound spec-bench` with these flags writes with --json."""
    with tempfile.TemporaryDirectory() as name:
        result = pathlib.Path(name) / "result.json"
        done = subprocess.run([str(word) for word in (specbound, "spec-bench", *flags, "--json",
                                                      result)], stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(done.returncode)
        return json.loads(result.read_text())


def sweep(specbound, flags, folder):
    """Measures, draws into `folder`, and returns what spec-bench says with a "sweep" in it."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = [flag for flag in flags if flag != "--fresh"]
    probe = spec_bench(specbound, [*asked, "--limit", 1, "-n", 1])
    [setting] = probe["parameters"].values()
    others = any(str(flag).split("=")[0] in ("--alpha", "--no-anneal") for flag in flags)
    points = sweep_points(setting, learned=not others)
    named = [word for _, _, name, flag in points for word in ("--setting", f"{name}: {flag}")]
    told = spec_bench(specbound, [*flags, "--compare", "plain", *named, "--out", folder])
    told["sweep"] = sweep_figures(points, told["strategies"][0]["results"])
    write_svgs(told["sweep"], folder)
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--specbound", default="specbound", help="the program")
    parser.add_argument("--out", type=pathlib.Path, required=True,
                        help="folder for the figures and the answers")
    parser.add_argument("--json", type=pathlib.Path, help="write every figure as JSON")
    parser.add_argument("flags", nargs="+", help="of specbound spec-bench, behind --")
    a = parser.parse_args()
    told = sweep(a.specbound, a.flags, a.out)
    print(sweep_table(told["sweep"]), end="")
    if a.json:
        a.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
