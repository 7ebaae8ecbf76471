#!/usr/bin/env python3
"""The tables behind what `specbound spec-bench` and `specbound bench` print, from their --json.

    bench_tables.py FILE.json...

Of spec-bench the SpecBound paper's Tables 1, 2, 3 and 5 and what is faster than the first drafter;
of `bench --compare spec` both sides, where time goes and what was accepted; of `bench --shape`
drafted rows and checks. Recorded results of tests/bench/spec_bench.sh are read too. Needs nothing
but Python.
"""

import argparse
import bisect
import json
import math

TASKS = ("math", "multi-turn", "qa", "rag", "summarization", "translation")
DEFINITIONS = """\
CR: tokens over rounds, the token that verification gives counted; plain decoding has 1.
SD: as Spec-Bench's speed.py: mean over questions of tokens a second of wall time (prefill and
decoding), over the same mean of plain decoding.
token-exact: all tokens over all seconds instead. decode: that without prefill.
Tokens are counted alike on both sides: up to the end token, which counts.
TTFT: from the prompt to its first token, prefill counted; TPOT: of each further token. They and
end-to-end are means over turns, throughput over questions.
What drafters learn from texts they keep from question to question.
"""


def ratio(a, b):
    return a / b if b > 0 else 0.0


def interval(bounds):
    low, high = bounds
    return f"[{low:.3f}, {high:.3f}]"


# ---- spec-bench ----

def quantile(ordered, q):
    """The value that the share q of `ordered` lies below, between two of them by their distance."""
    if not ordered:
        return 0.0
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def buckets(ordered, count=5):
    """[low, high, questions] of `count` stretches of one width from the least to the most."""
    if not ordered:
        return []
    low, high = ordered[0], ordered[-1]
    width = (high - low) / count
    edges = [low + i * width for i in range(count)] + [high]
    found = [[*edge, 0] for edge in zip(edges, edges[1:])]
    for value in ordered:
        found[min(count, max(1, bisect.bisect_right(edges, value))) - 1][2] += 1
    return found


def table_1(results):
    width = max(8, *(len(r["name"]) for r in results))
    head = " " * width + "".join(f"  {task:>13}" for task in TASKS) + "        overall"
    kinds = " " * width + "     CR     SD " * len(TASKS)
    lines = ["Table 1: tokens a round (CR) and speed over plain decoding (SD)", head,
             kinds + "     CR     SD   95 % interval  token-exact  decode   95 % interval"]
    for r in results:
        line = f"{r['name']:{width}}"
        for task in TASKS:
            s = r["tasks"].get(task)
            line += (f"  {s['compression_rate']:5.2f}  {s['speedup']:5.2f}x" if s else
                     "      -      -x")
        s = r["overall"]
        lines.append(f"{line}  {s['compression_rate']:5.2f}  {s['speedup']:5.2f}x  "
                     f"{interval(s['speedup_interval_95'])}       "
                     f"{s['token_exact_speedup']:5.2f}x  {s['decode_speedup']:5.2f}x  "
                     f"{interval(s['decode_speedup_interval_95'])}")
    return lines


def table_2(strategies, drafter):
    results = [s["results"][drafter] for s in strategies]
    width = max(8, *(len(s["name"]) for s in strategies))
    lines = [f"Table 2: SD of {results[0]['name']} by how tokens are picked",
             " " * width + "".join(f"  {task:>13}" for task in TASKS) + "  overall  95 % interval"]
    for strategy, r in zip(strategies, results):
        cells = (f"{r['tasks'][t]['speedup']:.2f}x" if t in r["tasks"] else "-" for t in TASKS)
        s = r["overall"]
        lines.append(f"{strategy['name']:{width}}" + "".join(f"  {cell:>13}" for cell in cells) +
                     f"   {s['speedup']:5.2f}x  {interval(s['speedup_interval_95'])}")
    return lines


def table_3(r):
    lines = ["Table 3: what a user waits for", f"{'':24}  {'plain':>9}  {r['name']:>9}"]
    for name, key, factor in (("TTFT, ms", "ttft_seconds", 1e3), ("TPOT, ms", "tpot_seconds", 1e3),
                              ("throughput, tokens/s", "tokens_per_second", 1),
                              ("end-to-end, ms a turn", "end_to_end_seconds", 1e3)):
        plain, drafted = factor * r["plain"][key], factor * r["drafted"][key]
        gain = ratio(drafted, plain) if factor == 1 else ratio(plain, drafted)
        lines.append(f"{name:24}  {plain:9.2f}  {drafted:9.2f}  {gain:5.2f}x")
    return lines


def table_5(r):
    speedups = r["speedups"]
    lines = [f"Table 5: speedups of the {len(speedups)} questions, {r['name']}"]
    if not speedups:
        return lines
    names = ("min", "5 %", "25 %", "median", "75 %", "95 %", "max")
    shares = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
    lines.append("  ".join(f"{name} {quantile(speedups, q):.2f}" for name, q in zip(names, shares)))
    slower = bisect.bisect_left(speedups, 1.0)
    lines.append(f"slower than plain decoding: {slower} ({100 * slower / len(speedups):.2f} %)")
    for low, high, n in reversed(buckets(speedups)):
        lines.append(f"{low:5.2f}x - {high:5.2f}x  {n:5}  {100 * n / len(speedups):6.2f} %")
    return lines


def faster_than_first(results):
    """A line for each task, and all together, where another has a higher SD than the first."""
    if len(results) < 2:
        return []
    first = results[0]
    lines = []
    for task in (*TASKS, None):
        scores = [r["tasks"].get(task) if task else r["overall"] for r in results]
        if not scores[0]:
            continue
        own = scores[0]["speedup"]
        better = [f"{r['name']} {s['speedup']:.2f}x" for r, s in zip(results[1:], scores[1:])
                  if s["speedup"] > own]
        if better:
            lines.append(f"faster than {first['name']} ({own:.2f}x) on "
                         f"{task or 'all questions together'}: {', '.join(better)}")
    return lines or [f"nothing is faster than {first['name']} on any task"]


def spec_bench_tables(found):
    strategies = found["strategies"]
    results = strategies[0]["results"]
    if len(strategies) > 1:
        parts = [table_2(strategies, i) for i in range(len(results))]
    else:
        parts = [table_1(results)]
        for r in results:
            parts += [table_3(r), table_5(r)]
        parts.append(faster_than_first(results))
    return "\n".join("".join(line + "\n" for line in part) for part in parts if part) + DEFINITIONS


# ---- bench --compare spec ----

def compare_tables(found):
    out = ""
    for model in found["models"]:
        sides = [model["overall"][side] for side in ("plain", "speculative")]
        out += (f"{model['model']['model_filename']}\n"
                f"{'all prompts':34}  {'plain':>11}  speculative\n")
        for title, key, factor, digits in (
                ("prefill, tokens a second", "prefill_tokens_per_second", 1, 1),
                ("decoding, tokens a second", "decode_tokens_per_second", 1, 1),
                ("TTFT, ms", "ttft_seconds", 1e3, 2), ("TPOT, ms", "tpot_seconds", 1e3, 3),
                ("end to end, seconds", "total_seconds", 1, 3),
                ("GB/s of plain decoding's reading", "bytes_per_second", 1e-9, 2),
                ("... % of the read bandwidth", "share_of_read_bandwidth", 100, 1)):
            cells = [f"{factor * side[key]:.{digits}f}" if side[key] is not None else ""
                     for side in sides]
            out += f"{title:34}  {cells[0]:>11}  {cells[1]:>11}".rstrip() + "\n"
        drafted = sides[1]
        places = zip(drafted["acceptance_by_position"], drafted["drafted_by_position"])
        accepted = [f"{i}: {100 * (share or 0):.0f} % of {n}"
                    for i, (share, n) in enumerate(places, 1)]
        out += (f"accepted by position: {', '.join(accepted)}\n" if accepted else
                "nothing was drafted: plain decoding was compared with itself\n")
        for name, side in zip(("plain", "speculative"), sides):
            seconds = side["phase_seconds"]
            total = sum(seconds.values())
            out += f"time, {name}: " + ", ".join(f"{phase} {100 * ratio(s, total):.1f} %"
                                                 for phase, s in seconds.items()) + "\n"
    return out


# ---- bench --shape ----

def shape_tables(found):
    contexts = found["contexts"]
    out = "verify(M) / decode(1)\nM           " + "".join(
        f" {v['rows']:5}" for v in contexts[0]["verify"]) + "\n"
    for c in contexts:
        out += f"context {c['context']:<4}" + "".join(
            f" {v['relative']['median']:5.3f}" for v in c["verify"]) + "\n"
    out += "\n"
    for c in contexts:
        folded = [check for check in found["checks"] if check["kind"] == "folded"]
        if not c["drafted_rows"] or not folded:
            continue
        out += (f"a drafted row at context {c['context']}, folded checks of "
                f"{found['settings']['shortlist']} tokens at most\n"
                "exit  checks at     row us  layers us  checks us  beside both  beside layers\n")
        for row in c["drafted_rows"]:
            layers = ",".join(map(str, row["check_layers"]))
            out += (f"{row['exit_layer']:4}  {layers:9} {1e6 * row['seconds']['median']:10.2f} "
                    f"{1e6 * row['layers_seconds']:10.2f} {1e6 * row['checks_seconds']:10.2f} "
                    f"{100 * row['over_layers_and_checks']:11.1f}% "
                    f"{100 * row['over_layers']:13.1f}%\n")
        out += "\n"
    if found["checks"]:
        layer = found["contexts"][0]["layer"]["seconds"]["median"]
        out += "check      tokens    its work us  asked and answered us  work in layers\n"
        for check in found["checks"]:
            work, call = (check[key]["median"] for key in ("device_seconds", "call_seconds"))
            out += (f"{check['kind']:8} {check['tokens']:8} {1e6 * work:14.2f} {1e6 * call:22.2f} "
                    f"{ratio(work, layer):15.3f}\n")
    if found["launches"]:
        host, graph, layer = (1e6 * found["launches"][key]["median"]
                              for key in ("host_seconds", "graph_seconds", "layer_seconds"))
        out += (f"\nlaunches: the smallest graph {host:.2f} us on the host, {graph:.2f} us until "
                f"it is known to be done;\n          one row through one layer, asked and waited "
                f"for, {layer:.2f} us\n")
    return out


def tables(found):
    if "strategies" in found:
        return spec_bench_tables(found)
    if found.get("mode") == "compare":
        return compare_tables(found)
    if "contexts" in found:
        return shape_tables(found)
    if isinstance(found.get("results"), list):  # recorded by spec_bench.sh
        parts = [f"{entry['threads']} threads\n\n{spec_bench_tables(entry['compared'])}"
                 for entry in found["results"] if "compared" in entry]
        if parts:
            return "\n".join(parts)
    raise ValueError("expected what `specbound spec-bench --json`, `bench --compare spec --json` "
                     "or `bench --shape --json` writes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    for name in parser.parse_args().files:
        with open(name, encoding="utf-8") as file:
            found = json.load(file)
        try:
            print(tables(found), end="")
        except ValueError as error:
            raise SystemExit(f"{name}: {error}") from error


if __name__ == "__main__":
    main()
