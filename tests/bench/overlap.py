"""What each drafter has of a model's distribution: what tests/bench/overlap.sh runs."""

import argparse
import json
import pathlib
import subprocess
import tempfile

import bench


def keyed(text):
    key, found, file = text.partition("=")
    if not found or not key or not file:
        raise argparse.ArgumentTypeError(f"expected KEY=FILE, found {text}")
    return key, file


def measure(flags, model, heads):
    """`specbound theory`'s "overlap", without heads where `heads` is None."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "theory.json"
        command = [flags.specbound, "theory", "-m", bench.link_alone(model, folder), "-t",
                   str(flags.threads), "--replies", str(flags.replies), "--json", str(report)]
        subprocess.run(command + (["--heads", heads] if heads else []), check=True,
                       stdout=subprocess.DEVNULL)
        return json.loads(report.read_text(encoding="utf-8"))["overlap"]


def place(one):
    layer = "" if one["layer"] is None else f" at {one['layer']}"
    return layer + ("" if one["step"] is None else f", step {one['step']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specbound", required=True)
    parser.add_argument("--model", default="smollm2-135m-instruct-q4_1")
    parser.add_argument("--replies", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--heads", nargs="+", type=keyed, default=[], metavar="KEY=FILE")
    parser.add_argument("--output", default=bench.RESULTS / "overlap.json")
    flags = parser.parse_args()
    machine, revision = bench.hardware(), bench.commit()
    model = bench.fetched(flags.model)
    results = []
    for key, file in [(None, None), *flags.heads]:
        overlap = measure(flags, model, file)
        results.append(dict(heads=key, **overlap))
        print(key or "no file")
        for one in overlap["drafters"]:
            print(f"  {one['drafter']}{place(one)}, T {one['temperature']}: "
                  f"1 - TV {one['overlap']:.3f}, {one['overlap_at_temperature_1']:.3f} at T 1; "
                  f"right {one['greedy']:.3f}, drawn {one['drawn']:.3f} of {one['tokens']}")
    command = ["tests/bench/overlap.sh", "--model", flags.model, "--replies", flags.replies,
               "--threads", flags.threads,
               *(["--heads", *(f"{key}={pathlib.Path(file).name}" for key, file in flags.heads)]
                 if flags.heads else [])]
    bench.write_report(pathlib.Path(flags.output), "overlap", command, machine, revision,
                       settings=dict(replies=flags.replies, **bench.model_entry(model)),
                       results=results)


if __name__ == "__main__":
    main()
