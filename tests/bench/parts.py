"""What each part of the speculation brings on one real model: what tests/bench/parts.sh runs."""

import drafters

AUTO = "--speculator auto"
HEADS = AUTO + " --heads {}"
ROWS = {
    "lookup": ("prompt lookup alone", None, "--speculator ngram", None),
    "tree": ("`auto` without a file: a tree of lookups", None, AUTO, None),
    "chain": ("`auto` without a file, no siblings", None, AUTO + " --no-siblings", None),
    "uncontrolled": ("`auto` without a file, rounds filled", None, AUTO + " --controller off",
                     None),
    "memory": ("`auto` without a file, and other replies", None, AUTO + " --remember on", None),
    "text": ("`auto`, text that the model wrote", "text", HEADS, None),
    "exits": ("`auto`, folded exits at 1, 4, 8", "exits",
              HEADS + " --head folded --check-layers 1,4,8", None),
    "quick": ("`auto`, chained head and text of `--quick`", "quick", HEADS, None),
    "unroll-1": ("`auto`, chained head that learnt one step", "unroll-1", HEADS, None),
    "chained": ("`auto`, chained head that learnt three steps", "chained", HEADS, None),
    "chained-text": ("`auto`, the same head and text", "chained-text", HEADS, None),
    "chained-alone": ("that chained head alone", "chained",
                      "--speculator specbound --heads {} --head chained", None),
    "layer": ("`auto`, draft layer", "layer", HEADS, None),
    "layer-chain": ("`auto`, draft layer, no siblings", "layer", HEADS + " --no-siblings", None),
    **{f"layer-{n}": (f"`auto`, draft layer, shortlist of {n}", "layer",
                      HEADS + f" --shortlist {n}", None)
       for n in (512, 2048, 8192)},
    "layer-alone": ("that draft layer alone", "layer",
                    "--speculator specbound --heads {} --head layer", None),
}

if __name__ == "__main__":
    drafters.main("parts", ROWS, __doc__)
