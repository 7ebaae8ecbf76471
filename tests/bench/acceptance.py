#!/usr/bin/env python3
"""Whether a guess of a draft layer will be right: what the engine goes by, beside margins,
confidences, a logistic and the acceptance head of "Acceptance-Guided Adaptive Speculative
Decoding", and what each would bring in tokens a second.

    specbound train-heads -m MODEL --kinds text --no-tune --self-generate 21000 --seed 1 \\
        --texts learnt.texts -o /tmp/learnt.heads.gguf
    acceptance.py questions > questions.jsonl      Spec-Bench's
    specbound train-heads -m MODEL --kinds text --no-tune --self-generate 400000 --seed 0 \\
        --data questions.jsonl --texts held.texts -o /tmp/held.heads.gguf
    acceptance.py read    --learnt learnt.texts --held held.texts
    acceptance.py compare

train-heads with --texts keeps what the model replies, token by token, half of it greedy, half
sampled. `read` has the draft layer guess six tokens at every place of them, each on those before,
and keeps the guesses in --work; it goes on where it was before, so it may be called again while
texts are written. `compare` learns from the replies of learnt.texts and of half of the questions
and tells about the other half, by turns. Sampled replies are drawn with the noise that the engine
draws them with, so guesses are too. Rounds are played (draft_rounds.py) under two costs of rows
that were measured: of this small model, and of one whose weights come from memory. Needs PyTorch
and NumPy; writes tests/bench/results/acceptance.json.
"""

import argparse
import json
import sys
from pathlib import Path

import bench
from draft_rounds import (RIGHT, UNKNOWN, Costs, Counts, Fixed, Given, Place, Prophet, Rounds,
                          Threshold, plain_time)

try:
    import numpy as np
    import torch

    from acceptance_places import SCALARS, STEPS, WORDS, Places, Reader, read_places, read_texts
    from acceptance_predictors import (AcceptanceHead, Logistic, MarginByStep, known, sigmoid, told)
except ModuleNotFoundError as e:
    sys.exit(f"expected PyTorch and NumPy (pip install torch numpy): {e}")

MODEL = Path.home() / ".cache/specbound/models/smollm2-135m-instruct-q4_1.gguf"
HEADS = bench.ROOT / "models" / "smollm2-135m-instruct-q4_1.heads.gguf"
SEEDS = dict(learnt=1, held=0)  # of train-heads, for the noise
TODAY = "p, annealed, corrected"  # what the engine goes by
LEFT_IN = ", weights left in"  # of the loss
CORRECTED = ", corrected"       # by counts, as the engine's confidence is
BY_THRESHOLD = "head, by threshold"
MARGINS = (0.8, 1.0, 1.2, 1.5)  # of what guesses and rows must bring of their cost
THRESHOLDS = (0.35, 0.5, 0.65, 0.8, 0.95)
DRAWS = 2000  # of questions, for intervals

# What passes over 1, 2, .. rows take of one: at the beginning of a text, and behind FAR positions,
# where one row itself takes FAR_ONE of what it takes at the beginning.
FAR, FAR_ONE = 900, 1.45
ROWS = {
    # docs/benchmarks.md, two threads of a Xeon: 2, 4 and 8 rows, those between by lines.
    "SmolLM2": ([1, 1.04, 1.06, 1.08, 1.1475, 1.215, 1.2825],
                [1, 1.12, 1.18, 1.24, 1.3525, 1.465, 1.5775]),
    # rows.json, two threads; what positions add is not weighed.
    "24 layers": ([1, 1.025, 1.126, 1.141, 1.128, 1.144, 1.155], None)}


def write_questions(_):
    for line in bench.SPEC_BENCH.read_text(encoding="utf-8").splitlines():
        question = dict(role="user", content=json.loads(line)["turns"][0])
        reply = dict(role="assistant", content="-")  # the model writes its own in its place
        print(json.dumps(dict(messages=[question, reply])))


def read(a):
    """Goes on behind the texts that an earlier run has read: the files grow while they are
    written."""
    found = {name: read_texts(getattr(a, name))[:a.limit] for name in ("held", "learnt")}
    reader, file = Reader(a.model, a.heads), a.work / "facts.json"
    made_by = [Path(path).name for path in (a.model, a.heads)]
    facts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if facts and facts["made_by"] != made_by:
        sys.exit(f"{a.work}: expected what {' and '.join(made_by)} made, found what "
                 f"{' and '.join(facts['made_by'])} did: name another folder with --work")
    facts.update(made_by=made_by, layer_parameters=reader.parameters, scale=reader.scale,
                 offset=reader.offset, dim=reader.model.dim)
    for name, texts in found.items():
        before = facts.get(name, dict(texts=0, as_engine=[0, 0]))
        if len(texts) <= before["texts"]:
            continue
        print(f"{name}: {len(texts)} texts, {before['texts']} of them known")
        places, agreed = read_places(reader, texts[before["texts"]:], SEEDS[name], before["texts"])
        if before["texts"]:
            known = read_back(a, name, facts)
            places = Places(*(np.concatenate(two) for two in zip(known, places)))
        # Under a name of its own until facts.json says so: a run may be killed in between.
        np.savez(a.work / f"{name}-{len(texts)}.npz", **places._asdict())
        facts[name] = dict(texts=len(texts), places=len(places.text),
                           as_engine=[int(x) for x in np.add(agreed, before["as_engine"])])
        file.write_text(json.dumps(facts) + "\n", encoding="utf-8")


def read_back(a, name, facts):
    with np.load(a.work / f"{name}-{facts[name]['texts']}.npz") as file:
        return Places(**{field: file[field] for field in Places._fields})


def joined(parts):
    """Texts keep their own numbers."""
    shift, out = 0, []
    for p in parts:
        out.append(p._replace(text=p.text + shift))
        shift += int(p.text.max()) + 1 if len(p.text) else 0
    return Places(*(np.concatenate(a) for a in zip(*out)))


def of(places, name):
    return places.scalars[:, :, SCALARS.index(name)].astype(np.float64)


def replayed(counts, places):
    """What corrected counts say where every place is a round of six guesses, one behind another."""
    out = np.zeros(places.right.shape)
    for i, right in enumerate(places.right):
        out[i] = [counts.chance(i, j) for j in range(STEPS)]
        for j in np.flatnonzero(right != UNKNOWN):
            counts.learn(i, j, int(right[j]))
        if i % 32 == 31:
            counts.fade()
    return out


def predicted(learnt, held, facts, part, report):
    """{name: chances of all held places}, those that learn by halves of the questions; and what
    the head weighs. `part` of what there is to learn from is learnt from."""
    out = {
        "margin, as filed": sigmoid(facts["scale"] * of(held, "drawn_margin") + facts["offset"]),
        "p": of(held, "p"), "p, annealed": of(held, "annealed")}
    learn = {"margin by step": MarginByStep, "logistic": Logistic,
             "head, state alone": lambda p: AcceptanceHead(p, alone=True, report=report),
             "head": lambda p: AcceptanceHead(p, report=report)}
    for name in [*learn, "head" + LEFT_IN]:
        out[name] = np.zeros(held.right.shape)
    parameters = {}
    for half in (0, 1):
        tested = held.prompt % 2 == half
        if tested.all() or not tested.any():
            sys.exit("expected replies to questions of both halves, found too few to tell about")
        some = joined([learnt, held.take(~tested)])
        some = some.take(np.random.default_rng(half).random(int(some.text.max()) + 1)[some.text]
                         < part)
        theirs = held.take(tested)
        for name, make in learn.items():
            if name.startswith("head"):
                model = make(some)
                out[name][tested] = model.chances(theirs)
                parameters[name] = model.parameters
                if not model.alone:
                    out["head" + LEFT_IN][tested] = model.chances(theirs, undone=False)
            else:  # little to learn: for greedy and sampled text its own
                for sampled in (False, True):
                    which = theirs.sampled == sampled
                    at = np.flatnonzero(tested)[which]
                    if len(at):
                        model = make(some.take(some.sampled == sampled))
                        out[name][at] = model.chances(theirs.take(which))
    return out, parameters


def corrected(places, chances):
    """Predictors that follow what comes true, by name: how each is made."""
    out = {TODAY: lambda: Counts(of(places, "annealed").tolist())}
    for name in ("margin, as filed", "logistic", "head"):
        out[name + CORRECTED] = (
            lambda c=chances[name]: Counts(c.tolist(), are_chances=True))
    return out


def rounds_of(places):
    """Texts as draft_rounds has them: (first place, places) each."""
    begins = np.flatnonzero(np.r_[True, places.text[1:] != places.text[:-1]])
    ends = [*begins[1:], len(places.text)]
    return [(int(b), [Place(int(p), int(n), r.tolist()) for p, n, r in
                      zip(places.at[b:e], places.left[b:e], places.right[b:e])])
            for b, e in zip(begins, ends)]


def played(texts, predictor, costs, hopes, margin):
    """(time of each text, guesses a round, rows a round, tokens a round)"""
    rounds = Rounds(predictor, costs, hopes, margin)
    results = [rounds.play(places, first) for first, places in texts]
    n = max(1, rounds.rounds)
    return (np.array([time for _, time in results]), rounds.guesses / n, rounds.rows / n,
            sum(tokens for tokens, _ in results) / n)


def interval(values):
    return [round(float(x), 4) for x in np.percentile(values, [2.5, 97.5])]


def compare_speed(places, chances, costs, own_cost, hopes):
    """Of each predictor the speed-up over plain decoding, its margin chosen on the other half of
    the questions; intervals over questions drawn anew."""
    texts = rounds_of(places)
    plain = np.array([plain_time(p, costs) for _, p in texts])
    question = np.array([places.prompt[first] for first, _ in texts])
    names, group = np.unique(question, return_inverse=True)
    makers = {name: (lambda c=c: Given(c.tolist())) for name, c in chances.items()}
    makers |= corrected(places, chances)
    makers[BY_THRESHOLD] = lambda: Threshold(chances["head"].tolist())
    makers |= {f"always {k}": (lambda k=k: Fixed(k)) for k in range(1, STEPS + 1)}
    makers["oracle"] = Prophet
    found = {}
    for name, make in makers.items():
        c = costs._replace(draft=costs.draft + (own_cost if name.startswith("head") else 0))
        margins = ((1.0,) if name == "oracle" or name.startswith("always") else
                   THRESHOLDS if name == BY_THRESHOLD else MARGINS)
        runs = [played(texts, make(), c, hopes, margin) for margin in margins]
        times, chosen = np.zeros(len(texts)), []
        for half in (0, 1):
            mine = question % 2 == half
            best = int(np.argmin([run[0][~mine].sum() for run in runs]))
            times[mine], _ = runs[best][0][mine], chosen.append(best)
        _, guesses, rows, tokens = runs[chosen[0]]
        found[name] = times, dict(
            margins=[margins[i] for i in chosen], guesses=round(guesses, 3), rows=round(rows, 3),
            tokens=round(tokens, 3))

    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(names), (DRAWS, len(names)))

    def drawn(values):
        return np.bincount(group, values, len(names))[draws].sum(1)

    out = {}
    for name, (times, facts) in found.items():
        against = found[TODAY][0]
        out[name] = dict(
            speedup=round(float(plain.sum() / times.sum()), 4),
            interval=interval(drawn(plain) / drawn(times)),
            over_today=round(float(against.sum() / times.sum()), 4),
            over_today_interval=interval(drawn(against) / drawn(times)), **facts)
    return out


def costs_of(name, draft):
    start, far = ROWS[name]
    return Costs(draft, start, [(FAR_ONE * f - s) / FAR for f, s in zip(far, start)] if far else
                 [0] * len(start))


def compare(a):
    machine, revision = bench.hardware(), bench.commit()
    facts = json.loads((a.work / "facts.json").read_text(encoding="utf-8"))
    learnt, held = read_back(a, "learnt", facts), read_back(a, "held", facts)
    chances, parameters = predicted(learnt, held, facts, a.part, print)
    # A head's own cost, by its weights beside those of a guess: the layer's and the words'.
    own = a.draft * parameters["head"] / (facts["layer_parameters"] + WORDS * facts["dim"])
    results = []
    for sampled in (False, True):
        which = held.sampled == sampled
        places = held.take(which)
        if not len(places.text):
            continue
        mine = {name: c[which] for name, c in chances.items()}
        same = learnt.take(learnt.sampled == sampled)
        if not known(same).any(0).all():
            sys.exit(f"expected texts to learn from with {STEPS} steps to guess at T "
                     f"{0.7 * sampled:g}, found none: read more with read --learnt")
        hopes = [float((same.right[:, j][known(same)[:, j]] == RIGHT).mean())
                 for j in range(STEPS)]
        tells = {name: told(c, places) for name, c in mine.items()} | {
            name: told(replayed(make(), places), places)
            for name, make in corrected(places, mine).items()}
        results.append(dict(
            temperature=0.7 * sampled, texts=len(np.unique(places.text)),
            questions=len(np.unique(places.prompt)), places=len(places.text),
            hopes=[round(h, 4) for h in hopes], tells=tells,
            rounds={rows: compare_speed(places, mine, costs_of(rows, a.draft), own, hopes)
                    for rows in ROWS}))
        show(results[-1])
    settings = dict(draft=a.draft, rows={name: costs_of(name, a.draft)._asdict() for name in ROWS},
                    facts=facts, parameters=parameters, today=TODAY, margins=MARGINS,
                    thresholds=THRESHOLDS)
    command = ["tests/bench/acceptance.py", "compare", "--draft", a.draft, "--part", a.part]
    bench.write_report(a.output, "acceptance", command, machine, revision, settings=settings,
                       results=results)


def show(result):
    print(f"\nT {result['temperature']}: {result['questions']} questions, "
          f"{result['places']} places")
    for rows, rounds in result["rounds"].items():
        print(f"{rows + ':':23}{'AUC':>8}{'Brier':>8}{'ECE':>8}{'speed-up':>10}{'over today':>27}"
              f"{'guesses':>9}{'tokens':>8}")
        for name, r in rounds.items():
            t = result["tells"].get(name, {}).get("all")
            told_of = "".join(f"{t[k]:8.4f}" for k in ("auc", "brier", "ece")) if t else " " * 24
            low, high = r["over_today_interval"]
            print(f"{name:23}{told_of}{r['speedup']:9.3f}x  {r['over_today']:8.4f} ({low:.3f} to "
                  f"{high:.3f}){r['guesses']:8.2f}{r['tokens']:8.2f}")


def positive(text):
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected more than 0, found {text}")
    return value


def count(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text}")
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    stages = parser.add_subparsers(required=True, metavar="STAGE")
    s = stages.add_parser("questions", help="Spec-Bench's first turns as dialogues, to stdout")
    s.set_defaults(run=write_questions)
    s = stages.add_parser("read", help="texts -> guesses at every place of them")
    s.set_defaults(run=read)
    s.add_argument("--learnt", type=Path, required=True, help="texts to learn from")
    s.add_argument("--held", type=Path, required=True, help="texts to tell about, by questions")
    s.add_argument("-m", "--model", type=Path, default=MODEL)
    s.add_argument("--heads", type=Path, default=HEADS)
    s.add_argument("--limit", type=count, help="texts of each file (default: all)")
    s = stages.add_parser("compare", help="predictors on them, and the rounds that they make")
    s.set_defaults(run=compare)
    s.add_argument("--draft", type=positive, default=0.05,
                   help="what a guess takes of a pass over one row (default: %(default)s)")
    s.add_argument("--part", type=positive, default=1.0,
                   help="of the texts to learn from, that are (default: all)")
    s.add_argument("--output", type=Path, default=bench.RESULTS / "acceptance.json")
    for s in (stages.choices["read"], stages.choices["compare"]):
        s.add_argument("--work", type=Path, default=Path("build/acceptance"))
        s.add_argument("-t", "--threads", type=count, default=1)
    a = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    if a.run is not write_questions:
        torch.set_num_threads(a.threads)
        a.work.mkdir(parents=True, exist_ok=True)
    try:
        a.run(a)
    except FileNotFoundError as e:
        sys.exit(f"{e.filename}: expected a file, found none: has the stage before been run?")


if __name__ == "__main__":
    main()
