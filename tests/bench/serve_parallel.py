#!/usr/bin/env python3
"""What requests get that come together: side by side with drafts and plainly, and in turn.

Run by serve_parallel.sh, which builds what is needed.
"""

import argparse
import pathlib
import statistics
import sys
import time

import bench

sys.path.insert(0, str(bench.ROOT / "tests" / "e2e"))

from serve_client import Server, delta_of, together  # noqa: E402

CHAT = "/v1/chat/completions"
ASKED = ("Write a letter to a friend about a journey by train through {place}, day by day.",
         "Explain how {place} gets its water, and what happens to it in a dry summer.",
         "Give ten short tips for somebody who moves to {place} with two children.",
         "Tell a story of a clockmaker in {place} who loses a wheel and finds a map.")
PLACES = ("Oslo", "Lima", "Kyoto", "Accra", "Quebec", "Perth", "Bergen", "Turin", "Cusco", "Bath")


def request(number, a, **fields):
    """Another one for each number: what was written to one is of no use to the next."""
    text = ASKED[number % len(ASKED)].format(place=PLACES[number // len(ASKED) % len(PLACES)])
    return {"messages": [{"role": "user", "content": f"{text} ({number})"}], "seed": number,
            "temperature": a.temperature, "max_tokens": a.tokens, "ignore_eos": True, **fields}


def answered(server, body):
    """Seconds to the first text and to the end, and the text."""
    start = time.monotonic()
    first, text = None, ""
    stream = server.stream(CHAT, body)
    for event in stream:
        if isinstance(event, dict) and (piece := delta_of(event)):
            first = first or time.monotonic() - start
            text += piece
    stream.close()
    return first, time.monotonic() - start, text


def measure(server, bodies, a, at_once):
    """Of all of them: tokens a second, first-token times from when they were all there, texts."""
    start = time.monotonic()
    if at_once:
        found = together([lambda body=body: answered(server, body) for body in bodies])
        firsts = [first for first, _, _ in found]
    else:
        found, firsts = [], []
        for body in bodies:  # who comes later waits for all before
            waited = time.monotonic() - start
            found.append(answered(server, body))
            firsts.append(waited + found[-1][0])
    seconds = time.monotonic() - start
    return len(bodies) * a.tokens / seconds, firsts, [text for _, _, text in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m-instruct-q4_1")
    parser.add_argument("--heads", help="with what they bring to look up; else those beside it")
    parser.add_argument("--requests", type=int, default=8, help="that come together")
    parser.add_argument("--tokens", type=int, default=128, help="of each reply")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--output", default=bench.RESULTS / "serve_parallel.json")
    a = parser.parse_args()

    machine = bench.hardware()
    model = bench.fetched(a.model)
    heads = ["--heads", a.heads] if a.heads else []
    # No K/V and no reply of one setting serves another, whose prompts and texts are the same.
    server = Server("--parallel", str(a.requests), "--remember", "off", "--cache-size", "0", *heads,
                    model=str(model))
    settings = {"at once": (True, {}),
                "at once, plain": (True, {"speculation": False}),
                "one after the other, plain": (False, {"speculation": False}),
                "one after the other, with drafts": (False, {})}
    rates = {name: [] for name in settings}
    firsts = {name: [] for name in settings}
    try:
        measure(server, [request(0, a)], a, True)  # warms up
        for turn in range(a.repeats):
            said = {}
            for name, (at_once, fields) in settings.items():
                bodies = [request(a.requests * turn + i, a, **fields) for i in range(a.requests)]
                rate, first, texts = measure(server, bodies, a, at_once)
                rates[name].append(rate)
                firsts[name] += first
                said[name] = texts
            if any(texts != said["at once"] for texts in said.values()):
                sys.exit("at once: another text than alone")
    finally:
        server.end()
    ratios = {name: [round(x / y, 3) for x, y in zip(rates["at once"], rates[name])]
              for name in list(settings)[1:]}
    for name in settings:
        print(f"{name}: {statistics.median(rates[name]):.0f} tok/s, first token after "
              f"{statistics.median(firsts[name]):.2f} s (last: {max(firsts[name]):.2f} s)")
    for name, ratio in ratios.items():
        print(f"at once over {name}: {statistics.median(ratio):.2f} x ({ratio})")
    bench.write_report(
        pathlib.Path(a.output), "serve_parallel",
        ["tests/bench/serve_parallel.sh", "--model", a.model, "--requests", a.requests, "--tokens",
         a.tokens, "--repeats", a.repeats, "--temperature", a.temperature,
         *(["--heads", pathlib.Path(a.heads).name] if a.heads else [])], machine,
        **bench.model_entry(model), threads=1,
        results={name: dict(tokens_per_second=bench.summary(rates[name]),
                            first_token_seconds=bench.summary(firsts[name]),
                            **({"at_once_over_it": bench.summary(ratios[name])}
                               if name in ratios else {}))
                 for name in settings})


if __name__ == "__main__":
    main()
