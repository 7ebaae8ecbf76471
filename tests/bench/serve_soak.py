#!/usr/bin/env python3
"""1,000 requests of several clients to one server, or as many as some minutes bring, 50 of them
hostile, 20 disconnects, tools and schemas among the others: every reply is the one that a server
without speculation gives to a client that is alone; memory, threads and files are flat. What is
sent, and what counts as flat, is in tests/e2e/soak.py.

Run by serve_soak.sh, which builds what is needed.
"""

import argparse
import pathlib
import sys

import bench

sys.path.insert(0, str(bench.ROOT / "tests" / "e2e"))

import soak  # noqa: E402
from serve_client import Server  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--requests", type=int, default=1000, help="all of them together")
    parser.add_argument("--hostile", type=int, default=50)
    parser.add_argument("--disconnects", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=0,
                        help="again and again for so long (default: once)")
    parser.add_argument("--parallel", type=int, default=8, help="of the server")
    parser.add_argument("--seed", type=int, default=1, help="of their order")
    parser.add_argument("--output", help="default: tests/bench/results/serve_soak.json")
    a = parser.parse_args()

    machine = bench.hardware()
    template = ("--chat-template-file", soak.TEMPLATE)
    server = Server("--parallel", str(a.parallel), *template)
    result = soak.measure(Server("--spec", "off", *template), server, a.requests, a.hostile,
                          a.disconnects, a.seed, seconds=60 * a.minutes)
    print(f"{sum(result['sent'].values())} requests in {result['seconds']:.1f} s, memory grew by "
          f"{result['memory_growth_kb']} kB, {len(result['wrong'])} went wrong", flush=True)
    command = ["tests/bench/serve_soak.sh", "--requests", a.requests, "--hostile", a.hostile,
               "--disconnects", a.disconnects, "--minutes", a.minutes, "--parallel", a.parallel,
               "--seed", a.seed]
    settings = dict(clients=soak.CLIENTS, may_grow_kb=soak.MAY_GROW_KB,
                    growth="most in the last fifth of the requests above most in the second fifth")
    bench.write_report(pathlib.Path(a.output) if a.output else bench.RESULTS / "serve_soak.json",
                       "serve_soak", command, machine, settings=settings, results=result)
    if result["wrong"]:
        sys.exit("\n".join(result["wrong"]))


if __name__ == "__main__":
    main()
