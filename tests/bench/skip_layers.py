"""Which layers Draft&Verify leaves out while it drafts, searched offline as its paper does
(arXiv:2309.08168; there by Bayesian optimization of the clock, here by hill climbing without one).

    skip_layers.py --specbound PROGRAM -m MODEL.gguf --layers N

Every candidate answers the same questions of Spec-Bench. A round costs the pass that verifies it
and the layers that its drafts ran through: the best candidate gives the most tokens for that.
Prints each better one as the flag --skip-layers. Needs nothing but Python.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import bench


def value(tokens, drafts, skipped, n_layers, pass_cost):
    """Tokens for the time of a plain one, of those and of the drafts of a round."""
    return tokens / (pass_cost + drafts * (n_layers - len(skipped)) / n_layers)


def spelled(layers):
    """3,5-7: ranges, as --skip-layers has them."""
    parts = []
    for layer in sorted(layers):
        if parts and parts[-1][1] == layer - 1:
            parts[-1][1] = layer
        else:
            parts.append([layer, layer])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


def neighbour(skipped, n_layers, rng):
    """One layer in or out, or one in place of another. The first and the last always run."""
    inside = sorted(skipped)
    outside = [layer for layer in range(2, n_layers) if layer not in skipped]
    moves = []
    if outside:
        moves.append(lambda: skipped | {rng.choice(outside)})
    if len(inside) > 1:
        moves.append(lambda: skipped - {rng.choice(inside)})
    if inside and outside:
        moves.append(lambda: skipped - {rng.choice(inside)} | {rng.choice(outside)})
    return frozenset(rng.choice(moves)())


def search(evaluate, n_layers, generations, per_generation, rng, told=print):
    """evaluate([layers]) -> [value]; the best set and its value."""
    best = frozenset(range(3, n_layers - 1, 2))
    [score] = evaluate([best])
    told(best, score)
    seen = {best}
    for _ in range(generations):
        others = set()
        for _ in range(50 * per_generation):  # where few are left
            if len(others) < per_generation:
                others.add(neighbour(best, n_layers, rng))
                others -= seen
        if not others:
            break
        candidates = sorted(others, key=sorted)
        seen |= others
        found, top = max(zip(evaluate(candidates), candidates), key=lambda pair: pair[0])
        if found > score:
            best, score = top, found
            told(best, score)
    return best, score


def rounds_of(flags, candidates):
    """[(tokens, drafts) a round] of each."""
    beside = []
    for i, layers in enumerate(candidates):
        beside += ["--setting", f"c{i}: --speculator draft-verify --skip-layers {spelled(layers)} "
                                f"--w-max {flags.rows}"]
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        subprocess.run([flags.specbound, "spec-bench", "-m", flags.model, "-f", bench.SPEC_BENCH,
                        "--limit", str(flags.questions), "-n", str(flags.n), "-c", "4096",
                        "--compare", "plain", *beside, "--json", report],
                       check=True, stdout=subprocess.DEVNULL)
        results = json.loads(report.read_text())["strategies"][0]["results"]
    found = {result["name"]: (result["overall"]["compression_rate"], result["drafts_a_round"])
             for result in results}
    return [found[f"c{i}"] for i in range(len(candidates))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--specbound", required=True)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--layers", type=int, required=True, help="of the model")
    parser.add_argument("--questions", type=int, default=6)
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("--rows", type=int, default=4, help="of a round at most")
    parser.add_argument("--pass-cost", type=float, default=1.1,
                        help="of verifying so many rows, in passes over one")
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--per-generation", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    if flags.layers < 5:
        parser.error(f"--layers: expected 5 or more, found {flags.layers}")

    def evaluate(candidates):
        return [value(*found, layers, flags.layers, flags.pass_cost)
                for found, layers in zip(rounds_of(flags, candidates), candidates)]

    def told(layers, score):
        print(f"{score:.3f} tokens for the time of one: --skip-layers {spelled(layers)}",
              flush=True)

    search(evaluate, flags.layers, flags.generations, flags.per_generation,
           random.Random(flags.seed), told)


if __name__ == "__main__":
    sys.exit(main())
