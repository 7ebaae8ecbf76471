#!/usr/bin/env bash
# Spec-Bench on real models: speculation as it comes (auto, no file beside the model), with replies
# remembered from question to question, and prompt lookup, against plain decoding of the same
# questions in the same process; greedy and at temperature 0.7. SmolLM2 with all 480 questions takes
# about 40 minutes on two cores.
#
#   tests/bench/spec_bench_real.sh [--models NAME...] [--questions N...] [--threads N...]
#                                  [--temperatures T...] [--heads FILE...] [--draft-model NAME]
#                                  [--drafters NAME...] [--file QUESTIONS] [--repeats N]
#                                  [--recheck N] [--output FILE]
#
# FILE: a heads file to draft with too, of `specbound train-heads` (with --kinds text: text alone).
# NAME: a smaller model to draft with too. QUESTIONS: others than Spec-Bench's, in its form, as
# code_questions.jsonl has them. N: times that each reply is written, of which the fastest counts,
# for machines that others disturb (not with the drafter that remembers); with --recheck only of the
# questions that lost.
#
# Writes tests/bench/results/spec_bench_real.json. Leave the machine alone while it runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RANDOM_MODEL=none source "$here/prepare.sh" specbound
exec python3 "$here/spec_bench_real.py" --specbound "$program" "$@"
