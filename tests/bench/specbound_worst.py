#!/usr/bin/env python3
"""Speculation where drafting has nothing to go by: random bytes, repeated tokens, code, other
languages. As a user has it: bundled heads, measured switch on, one session through all texts.

Run by specbound_worst.sh, which builds what is needed. The ratio of a kind of text is plain seconds
over speculative seconds, all its replies together, each pair measured one after the other; the
interval is a bootstrap over replies. Fails where it begins below LIMIT.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile

import bench

LIMIT = 0.98
KINDS = ("random bytes", "repeated tokens", "code", "other languages")
CODE = ("def f(x):\n    return [i ** 2 for i in range(x) if i % 3]\n",
        "#include <stdio.h>\nint main(void) { for (int i = 0; i < 10; i++) printf(\"%d\", i); }\n",
        "SELECT name, count(*) FROM orders WHERE price > 10 GROUP BY name;\n",
        "{\"key\": [1, 2, {\"a\": null}], \"b\": true}\n")
LANGUAGES = ("Ich habe gestern im Wald einen alten Mann getroffen, der sang. ",
             "La biblioteca municipal abre a las nueve de la mañana. ",
             "Сегодня утром шёл снег, и дети смеялись. ",
             "图书馆今天关门了，我们去公园吧。", "今日はとても寒いですね。")


def texts(kind, rng):
    """Twelve dialogues of one message and the turn that answers it."""
    for i in range(12):
        if kind == "random bytes":
            text = "".join(chr(rng.randrange(1, 256)) for _ in range(160))
        elif kind == "repeated tokens":
            text = rng.choice(("a ", "the the ", "0", "?! ", "yes ")) * 60
        elif kind == "code":
            text = "".join(rng.choice(CODE) for _ in range(4))
        else:
            text = LANGUAGES[i % len(LANGUAGES)] * 3
        yield [dict(role="user", content=text), dict(role="assistant", content="")]


def interval(pairs, rng):
    ratios = []
    for _ in range(2000):
        drawn = rng.choices(pairs, k=len(pairs))
        ratios.append(sum(p for p, _ in drawn) / sum(s for _, s in drawn))
    ratios.sort()
    return [round(ratios[50], 4), round(ratios[1949], 4)]


def short_of(entries):
    """Those of which a ratio below LIMIT cannot be ruled out."""
    return [entry for entry in entries if entry["interval_95"][0] < LIMIT]


def measure(a, kind, threads, temperature):
    rng = random.Random(7)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines, \
            tempfile.NamedTemporaryFile("w", suffix=".json") as job:
        lines.writelines(json.dumps(dialogue) + "\n" for dialogue in texts(kind, rng))
        lines.flush()
        json.dump(dict(model=a.models[0], threads=threads, dialogues=lines.name, count=12,
                       n_predict=128, min_tokens=1, temperature=temperature, repeats=a.repeats,
                       ignore_end=True, settings=[dict(name="default", flags=[])]), job)
        job.flush()
        output = bench.run_json([a.bench_dialogues, job.name])
    runs = [reply["settings"]["default"] for reply in output["replies"]]
    pairs = [(statistics.median(reply["plain_seconds"]), statistics.median(run["seconds"]))
             for reply, run in zip(output["replies"], runs)]
    ratio = sum(p for p, _ in pairs) / sum(s for _, s in pairs)
    entry = dict(text=kind, threads=threads, temperature=temperature, backend=output["backend"],
                 replies=len(runs), tokens=sum(reply["tokens"] for reply in output["replies"]),
                 ratio=round(ratio, 4), interval_95=interval(pairs, rng),
                 compression_rate=round(sum(run["decoded"] for run in runs) /
                                        sum(run["rounds"] for run in runs), 4))
    print(f"{kind:16} {threads} threads  T {temperature}: {entry['ratio']:.3f}x "
          f"{entry['interval_95']}  CR {entry['compression_rate']:.2f}", flush=True)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench-dialogues", required=True, help="our bench program")
    bench.add_shared_flags(parser, repeats=7)
    a = parser.parse_args()
    a.processes = 1

    machine = bench.hardware()
    results = [measure(a, kind, threads, temperature)
               for threads in a.threads for temperature in (0.0, 0.7)
               for kind in KINDS]
    bench.write_results("specbound_worst", a, dict(limit=LIMIT, n_predict=128), results, machine)
    short = short_of(results)
    if short:
        sys.exit(f"{len(short)} of {len(results)} may be below {LIMIT} times plain decoding")


if __name__ == "__main__":
    main()
