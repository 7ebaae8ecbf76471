#!/usr/bin/env python3
"""Replies that JSON schemas hold: their validity, tokens a round, and what masks cost.

Run by constrained.sh, which builds what is needed.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

import bench


def text(most, **more):
    return {"type": "string", "minLength": 1, "maxLength": most, **more}


def record(**properties):
    return {"type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False}


def some(items, most):
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


def whole(low, high):
    return {"type": "integer", "minimum": low, "maximum": high}


NODE = record(value=whole(0, 99), next={"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]})
POINT = record(x=whole(-100, 100), y=whole(-100, 100))
MOOD = {"enum": ["positive", "negative", "neutral"]}

# (what is asked, what the reply must be); no reply is longer than a few hundred tokens.
CASES = [
    ("Describe a person.", record(name=text(20), age=whole(0, 120), email={
        "type": "string", "format": "email"})),
    ("Is this review positive? The food was cold.", record(sentiment=MOOD, confidence={
        "type": "number", "minimum": 0, "maximum": 1})),
    ("Plan a trip to Oslo.", record(place=text(20), days=whole(1, 30), stops=some(text(20), 4))),
    ("Name three colours.", some(text(12), 3)),
    ("Roll five dice.", {"type": "array", "items": whole(1, 6), "minItems": 5, "maxItems": 5}),
    ("Is the earth flat?", {"type": "boolean"}),
    ("Pick a letter.", {"enum": ["a", "b", "c", "d"]}),
    ("How many days has a week?", whole(1, 31)),
    ("When was the moon landing?", {"type": "string", "format": "date"}),
    ("When does the train leave?", {"type": "string", "format": "date-time"}),
    ("Give me an identifier.", {"type": "string", "format": "uuid"}),
    ("What is the address of this host?", {"type": "string", "format": "ipv4"}),
    ("Give me a licence plate.", {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,4}$"}),
    ("Give me a phone number.", {"type": "string",
                                 "pattern": "^\\+[0-9]{2} ([0-9]{3} ){2}[0-9]{2}$"}),
    ("Where is the point?", POINT),
    ("Draw a triangle.", record(kind={"const": "triangle"}, corners={
        "type": "array", "items": POINT, "minItems": 3, "maxItems": 3})),
    ("Write a short list.", {"$defs": {"node": NODE}, "$ref": "#/$defs/node"}),
    ("Order a pizza.", record(size={"enum": ["small", "medium", "large"]},
                              toppings=some({"enum": ["cheese", "ham", "olives", "basil"]}, 4),
                              price={"type": "number", "exclusiveMinimum": 0, "maximum": 50})),
    ("Extract the invoice.", record(number=text(10), total={"type": "number", "minimum": 0},
                                    paid={"type": "boolean"}, due={"type": "string",
                                                                   "format": "date"})),
    ("What is the weather?", record(city=text(20), temperature=whole(-50, 60), wind={
        "anyOf": [whole(0, 200), {"type": "null"}]})),
    ("Say it in a word.", {"type": "string", "pattern": "^[a-z]{1,12}$"}),
    ("A number or nothing?", {"type": ["integer", "null"]}),
    ("Translate house.", record(de=text(20), fr=text(20), es=text(20))),
    ("A card from a deck.", record(suit={"enum": ["hearts", "spades", "clubs", "diamonds"]},
                                   rank={"anyOf": [whole(2, 10), {"enum": ["J", "Q", "K", "A"]}]})),
    ("Call a tool.", {"oneOf": [
        record(tool={"const": "search"}, query=text(40)),
        record(tool={"const": "add"}, a=whole(0, 999), b=whole(0, 999)),
        record(tool={"const": "none"})]}),
    ("Make a quiz.", record(question=text(60), answers={
        "type": "array", "items": text(20), "minItems": 4, "maxItems": 4}, right=whole(0, 3))),
    ("A small table.", {"type": "array", "minItems": 2, "maxItems": 3, "items": {
        "type": "array", "items": whole(0, 9), "minItems": 3, "maxItems": 3}}),
    ("A pair.", {"type": "array", "prefixItems": [text(10), whole(0, 100)], "items": False,
                 "minItems": 2}),
    ("Who is there?", {"type": "object", "properties": {
        "name": text(20), "nick": text(10), "age": whole(0, 120)}, "required": ["name"]}),
    ("Settings, please.", {"type": "object", "properties": {"theme": {"enum": ["dark", "light"]}},
                           "required": ["theme"], "additionalProperties": False}),
    ("Rate this film.", record(reasoning=text(80), stars=whole(1, 5))),
    ("Extract names: Ann met Bob in Rome.", record(people=some(text(10), 3), places=some(text(10),
                                                                                        3))),
    ("Write a haiku.", record(lines={"type": "array", "items": text(40), "minItems": 3,
                                     "maxItems": 3})),
    ("A recipe.", record(title=text(30), minutes=whole(1, 600), steps=some(record(
        do=text(40), minutes=whole(0, 60)), 3))),
    ("A log line.", record(level={"enum": ["debug", "info", "warn", "error"]}, message=text(60),
                           time={"type": "string", "format": "time"})),
    ("A colour in hex.", {"type": "string", "pattern": "^#[0-9a-f]{6}$"}),
    ("A git commit.", record(hash={"type": "string", "pattern": "^[0-9a-f]{40}$"},
                             subject=text(50))),
    ("Both of them.", {"allOf": [record(a=whole(0, 9), b=text(5)) | {"additionalProperties": True},
                                 {"properties": {"a": {"minimum": 3}}}]}),
    ("Nested boxes.", record(box=record(box=record(box=record(full={"type": "boolean"}))))),
    ("A price list in euros.", some(record(item=text(15), euros={
        "type": "number", "minimum": 0, "maximum": 1000}), 3)),
]


def replies(a, model, seeds, modes):
    """Of each case and seed, in each of the modes."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for prompt, schema in CASES:
            ask = f"{prompt} Answer in JSON by this schema: {json.dumps(schema)}"
            file.write(json.dumps({"schema": schema, "prompt": ask}) + "\n")
        file.flush()
        command = [a.program, model, file.name, str(seeds), str(a.n_predict), *modes]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout:
                yield json.loads(line)
        if running.returncode:
            raise SystemExit(f"bench_grammar ended with {running.returncode}")


def judge(reply):
    """valid, cut or invalid: by the jsonschema package."""
    if reply["stop"] != "end":
        return "cut"
    schema = CASES[reply["entry"]][1]
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    try:
        value = json.loads(reply["text"])
        jsonschema.Draft202012Validator(schema, format_checker=checker).validate(value)
    except (ValueError, jsonschema.ValidationError) as e:
        print("INVALID", CASES[reply["entry"]][0], reply["text"], e, file=sys.stderr)
        return "invalid"
    return "valid"


def judged(a):
    found = collections.Counter(judge(reply) for reply in
                                replies(a, a.judged, a.seeds, ["forced"]))
    return dict(model=os.path.basename(a.judged), schemas=len(CASES), seeds=a.seeds,
                temperature=1, **{k: found[k] for k in ("valid", "cut", "invalid")})


def timed(a):
    sums = collections.defaultdict(collections.Counter)
    texts = collections.defaultdict(set)
    masks = collections.Counter()
    most = collections.Counter()
    known = set()
    for reply in replies(a, a.timed, a.timed_seeds, ["plain", "lookup", "forced"]):
        mode = sums[reply["mode"]]
        for key in ("tokens", "rounds", "seconds"):
            mode[key] += reply[key]
        texts[reply["entry"], reply["seed"]].add(reply["text"])
        most["vocabulary_us"] = max(most["vocabulary_us"], reply["vocabulary_us"])
        if reply["mode"] != "forced":
            continue
        masks["tokens"] += reply["tokens"]
        for key in ("new_us", "known_us"):
            masks[key] += reply[key]["all"]
            most[key] = max(most[key], reply[key]["most"])
        if reply["entry"] not in known:
            known.add(reply["entry"])
            masks["compile_us"] += reply["compile_us"]
    plain = sums["plain"]
    token_us = 1e6 * plain["seconds"] / plain["tokens"]
    return dict(
        model=os.path.basename(a.timed), replies=len(texts), same_texts=sum(
            len(t) == 1 for t in texts.values()),
        plain_token_us=round(token_us),
        tokens_a_round={mode: round(s["tokens"] / s["rounds"], 3) for mode, s in sums.items()},
        tokens_a_second={mode: round(s["tokens"] / s["seconds"], 2) for mode, s in sums.items()},
        mask_us_a_token=dict(
            new_grammar=round(masks["new_us"] / masks["tokens"], 1),
            known_grammar=round(masks["known_us"] / masks["tokens"], 1),
            most_of_one=round(most["new_us"])),
        mask_share_of_a_token=dict(
            new_grammar=round(masks["new_us"] / masks["tokens"] / token_us, 4),
            known_grammar=round(masks["known_us"] / masks["tokens"] / token_us, 4)),
        schema_us=round(masks["compile_us"] / len(CASES)),
        vocabulary_ms=round(most["vocabulary_us"] / 1000, 1))


def model_file(name):
    return name if os.path.exists(name) else bench.fetched(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--judged", default=str(bench.ROOT / "models/demo-chat-16l-q8_0.gguf"))
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--timed", default="qwen2.5-coder-0.5b-instruct-q4_k_m")
    parser.add_argument("--timed-seeds", type=int, default=1)
    parser.add_argument("--n-predict", type=int, default=400)
    parser.add_argument("--output", default=bench.RESULTS / "constrained.json")
    a = parser.parse_args()
    a.judged, a.timed = str(model_file(a.judged)), str(model_file(a.timed))
    machine = bench.hardware()
    results = [dict(judged=judged(a)), dict(timed=timed(a))]
    print(json.dumps(results, indent=1))
    settings = dict(temperature=1, top_k=0, top_p=1, min_p=0, n_predict=a.n_predict)
    bench.write_report(pathlib.Path(a.output), "constrained",
                       ["tests/bench/constrained.sh", "--judged", os.path.basename(a.judged),
                        "--seeds", a.seeds, "--timed", os.path.basename(a.timed), "--timed-seeds",
                        a.timed_seeds], machine, settings=settings, results=results)


if __name__ == "__main__":
    main()
