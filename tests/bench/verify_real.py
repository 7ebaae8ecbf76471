"""verify --bits on real models: what tests/bench/verify_real.sh runs."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import bench

MODELS = ["smollm2-135m-instruct-q4_1", "qwen2.5-coder-0.5b-instruct-q4_k_m",
          "qwen2.5-coder-1.5b-instruct-q4_k_m"]
# What drafts. verify takes rows for free, so auto draws the widest trees there are.
RUNS = {"auto": ["--speculator", "auto", "--w-max", "16"], "ngram": ["--speculator", "ngram"],
        "forced": ["--speculator", "forced"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specbound", required=True)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("-n", type=int, default=48)
    parser.add_argument("--output", default=bench.RESULTS / "verify_real.json")
    flags = parser.parse_args()
    machine, results, identical = bench.hardware(), [], True
    for name in flags.models:
        model = bench.fetched(name)
        for run, arguments in RUNS.items():
            with tempfile.TemporaryDirectory() as folder:
                report = pathlib.Path(folder) / "report.json"
                done = subprocess.run(
                    [flags.specbound, "verify", "-m", model, "--bits", "-n", str(flags.n), "-c",
                     "1024", "--temps", "0,0.7", "--seeds", "1", *arguments, "--json", report],
                    capture_output=True, text=True)
                said = done.stdout.strip().splitlines()[-1:]
                print(f"{name}, {run}: {' '.join(said)}", flush=True)
                if not report.exists():
                    sys.exit(done.stderr)
                found = json.loads(report.read_text())
            identical = identical and done.returncode == 0
            figures = {key: value for key, value in found.items()
                       if isinstance(value, (int, float))}
            results.append(dict(**bench.model_entry(model), run=run, **figures))
    bench.write_report(pathlib.Path(flags.output), "verify_real",
                       ["tests/bench/verify_real.sh", "--models", *flags.models, "-n", flags.n],
                       machine, results=results)
    sys.exit(0 if identical else 1)


if __name__ == "__main__":
    main()
