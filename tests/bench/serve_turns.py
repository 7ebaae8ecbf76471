#!/usr/bin/env python3
"""How soon the next turn of a long conversation begins: alone, and with another one in between.

Run by serve_turns.sh, which builds what is needed.
"""

import argparse
import pathlib
import sys

import bench

sys.path.insert(0, str(bench.ROOT / "tests" / "e2e"))

from serve_client import Server  # noqa: E402

CHAT = "/v1/chat/completions"
FACT = "Fact {n} of {name}: the {thing} of room {n} was counted, and there were {m} of them. "
THINGS = ("chairs", "lamps", "tables", "windows", "pictures", "shelves")


def conversation(name, tokens):
    """A chat whose first message has about so many tokens."""
    text = "".join(FACT.format(n=n, name=name, thing=THINGS[n % 6], m=3 * n + 1)
                   for n in range(tokens // 24))
    return [{"role": "user", "content": text + "What is this about?"}]


def turn(server, chat):
    """Another turn of `chat`; the milliseconds until its reply begins, and how long it is."""
    reply = server.post(CHAT, {"messages": chat, "max_tokens": 16, "temperature": 0}).json
    chat += [reply["choices"][0]["message"], {"role": "user", "content": "And what else?"}]
    return reply["timings"]["prompt_ms"], reply["usage"]["prompt_tokens"]


def measure(flags, model, names, a):
    """Of each conversation by name, every later turn."""
    server = Server(*flags, model=model)
    try:
        chats = {name: conversation(name, a.tokens) for name in names}
        for chat in chats.values():
            turn(server, chat)
        later = [turn(server, chat) for _ in range(a.turns) for chat in chats.values()]
        return dict(prompt_ms=bench.summary([ms for ms, _ in later]),
                    prompt_tokens=max(n for _, n in later))
    finally:
        server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m-instruct-q4_1")
    parser.add_argument("--turns", type=int, default=8, help="later turns of each conversation")
    parser.add_argument("--tokens", type=int, default=900, help="of the first message, about")
    parser.add_argument("--output", default=bench.RESULTS / "serve_turns.json")
    a = parser.parse_args()

    machine = bench.hardware()
    model = bench.fetched(a.model)
    settings = {"alone": ((), ("Ann",)), "in turns": ((), ("Ann", "Bob")),
                "in turns, one kept": (("--conversations", "1", "--parallel", "1"),
                                       ("Ann", "Bob"))}
    results = {name: measure(flags, str(model), names, a)
               for name, (flags, names) in settings.items()}
    for name, found in results.items():
        print(f"{name}: a later turn begins after {found['prompt_ms']['median']:.0f} ms "
              f"({found['prompt_ms']['min']:.0f} to {found['prompt_ms']['max']:.0f})", flush=True)
    bench.write_report(pathlib.Path(a.output), "serve_turns",
                       ["tests/bench/serve_turns.sh", "--model", a.model, "--turns", a.turns,
                        "--tokens", a.tokens], machine,
                       **bench.model_entry(model), threads=1, results=results)


if __name__ == "__main__":
    main()
