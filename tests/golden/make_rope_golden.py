#!/usr/bin/env python3
"""Makes rope_golden.json: YaRN's frequencies by Hugging Face transformers.

    python make_rope_golden.py [output file]

For each case what a file says of the rotation, and what transformers makes of it: the frequency of
each pair, in radians a position, and what cosines and sines are multiplied by. The first cases are
published models'; the others leave the usual numbers.

needs: pip install torch transformers
"""

import json
import pathlib
import sys

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

CASES = [
    dict(name="Qwen2.5 and Qwen3, 131,072 positions", theta=1e6, dim=128, factor=4.0,
         original=32768),
    dict(name="YaRN-Llama-2-7b-64k", theta=1e4, dim=128, factor=16.0, original=4096),
    dict(name="all from the first pair on", theta=1e4, dim=16, factor=3.0, original=32),
    dict(name="other turns", theta=500.0, dim=32, factor=8.0, original=64, beta_fast=4.0,
         beta_slow=0.5),
    dict(name="a factor of cosines and sines", theta=5e4, dim=64, factor=40.0, original=4096,
         attention_factor=0.8),
    dict(name="turns alike", theta=1e4, dim=64, factor=2.0, original=2048, beta_fast=8.0,
         beta_slow=8.0),
]


def main():
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).resolve().parent / "rope_golden.json")
    cases = []
    for case in CASES:
        rope = dict(rope_type="yarn", rope_theta=case["theta"], factor=case["factor"],
                    original_max_position_embeddings=case["original"])
        rope |= {key: case[key] for key in ("beta_fast", "beta_slow", "attention_factor")
                 if key in case}
        config = transformers.LlamaConfig(
            hidden_size=2 * case["dim"], num_attention_heads=2, head_dim=case["dim"],
            max_position_embeddings=int(case["original"] * case["factor"]), rope_parameters=rope)
        frequencies, factor = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
        cases.append(dict(**case, frequencies=[float(f) for f in frequencies],
                          attn_factor=float(factor)))
    lines = ",\n".join(json.dumps(case) for case in cases)
    target.write_text(f'{{"made_with": {{"transformers": "{transformers.__version__}"}},\n'
                      f'"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
