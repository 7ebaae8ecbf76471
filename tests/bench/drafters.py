"""Every drafter on one real model, in one table: what tests/bench/drafters.sh runs.

All rows answer each question in turn, in one process (`specbound spec-bench`), and every text must
be plain decoding's, but above temperature 0 where a row's --accept says otherwise. parts.py has
rows of its own for the same table.
"""

import argparse
import pathlib
import sys
import tempfile

import bench
import spec_bench_real

# Of a table's row: what it is called, the file that it needs, its flags, and what the paper's Table
# 1 has of it on Vicuna-7B: CR by task and the speedup over all (an H800, where rows and layers cost
# otherwise than here).
EXITS = "--speculator specbound --heads {} --head "
ROWS = {
    "auto": ("`auto`, no file", None, "--speculator auto", None),
    "auto-chained": ("`auto`, chained head and text", "chained", "--speculator auto --heads {}",
                     None),
    "auto-layer": ("`auto`, draft layer", "layer", "--speculator auto --heads {}", None),
    **{f"auto-{key}": (f"`auto`, {name}", key, "--speculator auto --heads {}", None)
       for key, name in (("medusa", "Medusa"), ("hydra", "Hydra"), ("eagle", "EAGLE"),
                         ("eagle3", "EAGLE-3"), ("kangaroo", "Kangaroo"))},
    "auto-rest": ("`auto`, datastore", "datastore", "--speculator auto --datastore {}", None),
    "auto-draft": ("`auto`, draft model", "draft", "--speculator auto --model-draft {}", None),
    "layer": ("draft layer alone", "layer", EXITS + "layer", None),
    "chained": ("chained head alone", "chained", EXITS + "chained", None),
    "paper": ("SpecBound, the paper's setting", "exits", EXITS + "full --preset paper",
              ((3.78, 3.05, 4.23, 5.48, 3.97, 6.41), 2.15)),
    "folded": ("SpecBound, folded heads", "exits", EXITS + "folded", None),
    "adadecode": ("AdaDecode", "exits", "--speculator adadecode --head full --heads {}", None),
    "layerskip": ("LayerSkip", "exits", "--speculator layerskip --head full --heads {}", None),
    "draft-verify": ("Draft&Verify", None, "--speculator draft-verify", None),
    "draft-verify-searched": ("Draft&Verify, layers searched", "skip",
                              "--speculator draft-verify --skip-layers {}", None),
    "medusa": ("Medusa", "medusa", "--speculator medusa --heads {}",
               ((1.77, 1.72, 1.54, 1.47, 1.53, 1.55), 1.71)),
    "medusa-typical": ("Medusa, fixed tree (above T 0: typical)", "medusa",
                       "--speculator medusa --heads {} --fixed-tree --accept typical", None),
    "hydra": ("Hydra", "hydra", "--speculator hydra --heads {}", None),
    "eagle": ("EAGLE-2", "eagle", "--speculator eagle --heads {}", None),
    "eagle3": ("EAGLE-3", "eagle3", "--speculator eagle3 --heads {}", None),
    "mtp": ("its own MTP layer", "mtp", "--speculator mtp --heads {}", None),
    "kangaroo": ("Kangaroo", "kangaroo", "--speculator kangaroo --heads {}",
                 ((2.14, 2.22, 1.87, 2.05, 1.87, 1.41), 1.50)),
    "space": ("SPACE, learnt masks", "masks", "--speculator space --heads {}",
              ((2.15, 2.31, 1.72, 1.88, 2.19, 1.73), 1.46)),
    "lookahead": ("Lookahead", None, "--speculator lookahead",
                  ((1.92, 1.74, 1.52, 1.53, 1.57, 1.28), 1.35)),
    "rest": ("REST", "datastore", "--speculator rest --datastore {}",
             ((1.49, 2.04, 1.87, 1.96, 1.60, 1.58), 1.47)),
    "ngram": ("prompt lookup", None, "--speculator ngram", None),
    "draft": ("draft model", "draft", "--speculator draft --model-draft {}", None),
}


def paper(told):
    if not told:
        return None
    rates, speedup = told
    tasks = ("math", "multi-turn", "qa", "rag", "summarization", "translation")
    return dict(model="Vicuna-7B", hardware="H800", speedup=speedup,
                compression_rate=dict(zip(tasks, rates)))


def settings_of(table, flags):
    """[(row, flags)] of those whose file there is, and the others' names."""
    found, missing = [], []
    for row in flags.rows:
        _, key, text, _ = table[row]
        if key and key not in flags.files:
            missing.append(row)
            continue
        found.append((row, text.format(f'"{flags.files[key]}"' if key else "")))
    return found, missing


def run(flags, model, settings):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        beside = [word for row, text in settings for word in ("--setting", f"{row}: {text}")]
        return bench.spec_bench(
            [flags.specbound, "spec-bench", "-m", bench.link_alone(model, folder), "-f",
             bench.SPEC_BENCH, "--limit", str(flags.questions), "-n", str(flags.n), "-c", "4096",
             "-t", str(flags.threads), "--temp", str(flags.temperature), "--seed", "1",
             "--repeats", str(flags.repeats), "--compare", "plain", *beside, "--fresh",
             "--out", pathlib.Path(folder) / "answers"], report)


def markdown(table, rows):
    columns = ("", "CR", "decoding (95 %)", "in all", "1, 2, 4 drafts right", "drafting", "learnt",
               "paper")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        right = ", ".join(f"{100 * row['right'][k]:.0f}" for k in (0, 1, 3))
        told, beside = row["paper"], ""
        if told:
            rates = told["compression_rate"].values()
            beside = f"CR {min(rates):.2f} to {max(rates):.2f}, {told['speedup']:.2f}x"
        cells = (table[row["drafter"]][0], f"{row['compression_rate']:.2f}",
                 "{:.2f}x ({:.2f} to {:.2f})".format(row["decode_speedup"],
                                                     *row["decode_interval"]),
                 f"{row['speedup']:.2f}x", f"{right} %",
                 f"{100 * row['drafting']:.0f} %", row["learnt"] or "", beside)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(name, table, about):
    keys = sorted({key for _, key, _, _ in table.values() if key})

    def keyed(text):
        key, found, value = text.partition("=")
        if not found or key not in keys or not value:
            raise argparse.ArgumentTypeError(f"expected KEY=FILE, KEY one of {', '.join(keys)}, "
                                             f"found {text}")
        return key, value

    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--specbound", required=True)
    parser.add_argument("--model", default="smollm2-135m-instruct-q4_1")
    parser.add_argument("--questions", type=int, default=480)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("--rows", nargs="+", choices=table, default=list(table),
                        metavar="ROW")
    parser.add_argument("--heads", nargs="+", type=keyed, default=[], metavar="KEY=FILE")
    parser.add_argument("--learnt", nargs="+", type=keyed, default=[], metavar="KEY=TEXT",
                        help="what that file learnt from and how long, to be recorded")
    parser.add_argument("--output", default=bench.RESULTS / f"{name}.json")
    flags = parser.parse_args()
    flags.files, learnt = dict(flags.heads), dict(flags.learnt)
    machine, revision = bench.hardware(), bench.commit()
    model = bench.fetched(flags.model)
    settings, missing = settings_of(table, flags)
    if not settings:
        parser.error(f"--heads: expected a file for one of {', '.join(missing)}, found none")
    report = run(flags, model, settings)
    named = {result["name"]: result for result in report["strategies"][0]["results"]}
    rows = [dict(**spec_bench_real.entry(named[row]), flags=bench.relative(text),
                 learnt=learnt.get(table[row][1]), paper=paper(table[row][3]))
            for row, text in settings]
    print(markdown(table, rows))
    for row in missing:
        print(f"left out, for want of a file ({table[row][1]}=): {row}")
    command = [f"tests/bench/{name}.sh", "--model", flags.model, "--questions", flags.questions,
               "--threads", flags.threads, "--temperature", flags.temperature, "-n", flags.n,
               "--repeats", flags.repeats,
               *(["--rows", *flags.rows] if flags.rows != list(table) else []),
               *(["--heads", *(f"{key}={pathlib.Path(file).name}" for key, file in flags.heads)]
                 if flags.heads else []),
               *(["--learnt", *(f"{key}={text}" for key, text in flags.learnt)]
                 if flags.learnt else [])]
    bench.write_report(pathlib.Path(flags.output), name, command, machine, revision,
                       settings=dict(n_predict=flags.n, repeats=flags.repeats),
                       results=[dict(**bench.model_entry(model), threads=flags.threads,
                                     temperature=flags.temperature, questions=report["questions"],
                                     turns=report["turns"], identical=report["identical"],
                                     texts_by_other_rules=report["texts_by_other_rules"],
                                     left_out=missing, drafters=rows)])
    # By --accept a row may have other texts.
    sys.exit(any(named[row]["differing"] for row, _ in settings))


if __name__ == "__main__":
    main("drafters", ROWS, __doc__)
