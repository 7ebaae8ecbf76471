#!/usr/bin/env python3
"""What the decode kernels are for six architectures, read from their code: registers, spills,
shared memory, code size, instructions, those for a key or a block of 32 weights, bytes on their
way; and what a layer of a 7B should take on five cards, beside what an H200 was measured to take.

`cuda_static.sh` runs it. No GPU is needed: nvcc compiles, nvdisasm reads. Writes cuda_static.json:
per kernel one number for each of `architectures`, of the commit before and of this one.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys

import bench
import cuda_layer
import sass
import spill_check

ARCHS = spill_check.ARCHS
NOT_DECODING = {"training", "probe", "expand"}  # and prefill_*
# Loads of weights (read once, by .nc) in a block of 32 k by 32 outputs: {bits: how many}, products
# with a panel of rows, of 16 outputs by 32 k, and sums of its rows.
FORMS = {
    "q8_0": ({128: 2, 32: 2}, 2, 0),
    "q4_0": ({64: 2, 32: 2}, 2, 0),
    "q4_1": ({64: 2, 32: 4}, 2, 1),
    "q4_k": ({64: 4, 32: 2}, 2, 1),
    "q5_0": ({64: 2, 32: 4}, 2, 0),
    "q5_1": ({64: 2, 32: 6}, 2, 1),
    "q5_k": ({64: 4, 32: 4}, 2, 1),
    "q6_k": ({32: 10}, 4, 0),
    "f16": ({128: 4}, 8, 0),
}
# Loops that load what 256 k share once: {form: (their loads, blocks, those on their way)}.
BY_256 = {"q4_k": ({64: 18, 32: 16}, 8, 4)}
# What loops have that multiply by keys or values, from shared memory, nothing of.
NOT_MULTIPLYING = {"LDG", "STG", "STS", "SHFL", "MUFU", "IMMA", "HMMA"}
# Instructions of a product and of a sum. sm_75 has smaller ones, of which sums need half.
MMA = {"IMMA": lambda arch: (4, 2) if arch < 80 else (1, 1),
       "HMMA": lambda arch: (2, 0) if arch < 80 else (1, 0)}
SCORED_ROWS = (1, 8, 16)
POSITIONS = (512, 4000)


def per(instructions, n):
    return {kind: round(count / n, 4) for kind, count in sass.counts(instructions).items()}


def read_product_loop(loop, arch):
    """{"FORM xPANELS": {blocks, instructions, mix}} of a loop over a matmul's blocks; {} of any
    other. `blocks`: on their way at once, all of an iteration's but where BY_256 has it."""
    names = collections.Counter(i.name for i in loop)
    tensor = next((name for name in MMA if names[name]), None)
    loads = collections.Counter(i.bits for i in loop if i.name == "LDG" and "CONSTANT" in i.opcode)
    if tensor is None or not loads:
        return {}
    of_product, of_sum = MMA[tensor](arch)
    for form, (wanted, products, sums) in FORMS.items():
        blocks = ahead = loads[next(iter(wanted))] / next(iter(wanted.values()))
        by_256 = BY_256.get(form)
        if by_256 and loads == by_256[0]:
            blocks, ahead = by_256[1:]
            wanted = {bits: n / blocks for bits, n in loads.items()}
        of_panel = blocks * (products * of_product + sums * of_sum)
        panels = names[tensor] / of_panel if blocks else 0
        fits = (form == "f16") == (tensor == "HMMA") and panels in (1, 2) and blocks == int(blocks)
        if fits and loads == {bits: n * blocks for bits, n in wanted.items()}:
            return {f"{form} x{int(panels)}": dict(
                blocks=int(ahead), instructions=round(len(loop) / blocks, 1),
                mix=per(loop, blocks))}
    raise ValueError(f"a loop of {names[tensor]} {tensor} and loads {dict(loads)}: no form has "
                     "these")


def read_attention(function):
    """{instructions, mixes} of a pair of a query and a key, of heads of HEAD_DIM: of its dot
    product and its part of the weighted sum, the two loops with most multiplications; and of
    fetching a key and its value. And these loops."""
    scores, stages = [], []
    for loop in function.innermost_loops():
        multiplications = sum(i.name == "FFMA" for i in loop)
        loads = sum(i.name == "LDG" and i.bits == 128 for i in loop)
        if multiplications >= 8 and {i.name for i in loop}.isdisjoint(NOT_MULTIPLYING):
            scores.append((multiplications, loop))
        elif loads and any(i.name == "STS" for i in loop):
            stages.append((loads, loop))
    if len(scores) < 2 or not stages:
        raise ValueError(f"{function.name}: expected loops over keys, values and their fetching, "
                         f"found {len(scores)} and {len(stages)}")
    scores.sort(key=lambda found: found[0])
    mix = collections.Counter()
    for multiplications, loop in scores[-2:]:
        pairs = multiplications * cuda_layer.WARP / cuda_layer.HEAD_DIM
        mix.update(per(loop, pairs))
    loads, loop = stages[0]
    of_key = cuda_layer.key_bytes(function.name)
    asked = loads * cuda_layer.WARP * 16  # by a warp
    counted = dict(bytes_a_key=of_key, instructions=round(sum(mix.values()), 1),
                   score_mix=dict(mix), stage_mix=per(loop, asked / of_key), fetched_at_once=asked)
    return counted, [loop for _, loop in scores[-2:] + stages]


def read_join(loops):
    """{chunks, mix} of an iteration of the loop that joins the chunks of an output; and that loop.
    (None, []) of a kernel that does not."""
    for loop in loops:
        names = collections.Counter(i.name for i in loop)
        chunks = sum(i.name == "LDG" and i.bits == 32 for i in loop)
        if chunks >= 8 and names["FFMA"] == 2 * chunks:
            return dict(chunks=chunks, mix=sass.counts(loop)), [loop]
    return None, []


def step_of_norm(loop):
    """(the step of a norm that this is a loop of or None, how much of it an iteration does)"""
    names = collections.Counter(i.name for i in loop)
    if any(i.name == "LDG" and i.bits == 128 for i in loop):
        if names["SHFL"]:
            return "quantize", names["SHFL"] // 3
        return ("copy", names["STS"]) if names["STS"] else (None, 0)
    sums = names["FFMA"] and names["LDS"] and names.keys().isdisjoint(("LDG", "SHFL", "MUFU", *MMA))
    return ("sum", names["FFMA"]) if sums else (None, 0)


def read_norm(function, threads, arch):
    """{class: instructions of all warps} of the loops in which a block of so many norms a row of
    DIM, and these loops (kernels/norm_quantize.cuh)."""
    warps, fours = threads // cuda_layer.WARP, cuda_layer.DIM // 4 // threads
    ahead = 2 if arch < 90 else 4  # that are not in a loop: NormWeights::kAhead
    total, known = collections.Counter(), []
    # How much each thread has of a step, and how many warps take part in it.
    for step, left, of_warps in (("copy", fours, warps), ("quantize", max(0, fours - ahead), warps),
                                 ("sum", cuda_layer.DIM // cuda_layer.WARP, 1)):
        found = [(much, loop) for loop in function.innermost_loops()
                 for name, much in [step_of_norm(loop)] if name == step]
        # As the compiler unrolls: the longest takes what it can, a shorter one the rest, straight
        # code what is too little for that.
        for much, loop in sorted(found, key=lambda one: -one[0]):
            times, left = divmod(left, much)
            for kind, count in sass.counts(loop).items():
                total[kind] += count * times * of_warps
            known.append(loop)
        if left and not found:
            raise ValueError(f"{function.name}: found no loop that has to {step} {left} of a row")
    return dict(total), known


def read_kernel(function, arch):
    """What is counted of one kernel's code. `straight`: all of it but the loops of which the shape
    says how often they are run, and but products outside of loops: those of a chunk that begins
    inside 256 k, in place of the loop's."""
    loops, known, products = function.innermost_loops(), [], {}
    for loop in loops:
        if found := read_product_loop(loop, arch):
            products.update(found)
            known.append(loop)
    attention = join = norm_loops = None
    if "attend_chunks" in function.name:
        attention, of_keys = read_attention(function)
        known += of_keys
    if "attend_chunks" in function.name or "combine_chunks" in function.name:
        join, of_chunks = read_join(loops)
        known += of_chunks
    if kernel := next((k for k in cuda_layer.NORMING if k in function.name), None):
        norm_loops, of_row = read_norm(function, cuda_layer.LAUNCHES[kernel][0], arch)
        known += of_row
    in_known, useful = {i.at for loop in known for i in loop}, function.useful()
    apart = [i.at for i in useful if i.name in MMA and i.at not in in_known]
    if apart:
        in_known.update(i.at for i in useful if min(apart) <= i.at <= max(apart))
    return dict(code_bytes=function.code_bytes, instructions=len(useful), mix=sass.counts(useful),
                straight=sass.counts([i for i in useful if i.at not in in_known]),
                products=products, attention=attention, join=join, norm_loops=norm_loops)


class Tree:
    """A checkout whose kernels are compiled; `build` is configured with CUDA, not built."""

    def __init__(self, build, launches, disassembler):
        self.build, self.launches, self.disassembler = pathlib.Path(build), launches, disassembler
        self.commands = {
            source: words for source, words in spill_check.kernel_commands(build).items()
            if source.stem not in NOT_DECODING and not source.stem.startswith("prefill_")}
        if not self.commands:
            sys.exit(f"{build}: expected a build with SPECBOUND_CUDA=ON, found no kernels")

    def compile(self, source, arch, folder):
        """{mangled name: counts} of a file's kernels."""
        cubin = pathlib.Path(folder) / f"{source.stem}.{arch}.cubin"
        # -lineinfo is not asked for: nothing here needs it.
        words = [*self.commands[source], f"-arch=sm_{arch}", "-cubin", "-Xptxas=-v"]
        done = subprocess.run([*words, "-x", "cu", str(source), "-o", str(cubin)],
                                          capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{source}: nvcc failed for sm_{arch}\n{done.stderr}")
        said = {name: (registers, stack, spilled) for name, _, registers, stack, spilled in
                spill_check.read_ptxas(done.stdout + done.stderr)}
        found = {}
        for name, function in sass.disassemble(self.disassembler, cubin).items():
            registers, stack, spilled = said[name]
            found[name] = dict(read_kernel(function, arch), registers=registers,
                               spill_bytes=spilled + stack)
        return found

    def read(self, folder, at_once):
        """{arch: {kernel: counts}}"""
        jobs = [(source, arch) for source in self.commands for arch in ARCHS]
        kernels = {arch: {} for arch in ARCHS}
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            for (source, arch), found in zip(jobs, pool.map(
                    lambda job: self.compile(*job, folder), jobs)):
                names = spill_check.plain_names(found)
                for mangled, counted in found.items():
                    kernels[arch][names[mangled]] = self.with_launch(names[mangled], arch, counted)
            print(f"{len(jobs)} files compiled and read", file=sys.stderr)
        return kernels

    def with_launch(self, name, arch, counted):
        """Adds what a launch of the 7B shape decides: how many bytes a multiprocessor awaits."""
        threads, shared = cuda_layer.shape_of(name, self.launches)
        blocks = cuda_layer.resident_blocks(arch, counted["registers"], threads, shared)
        warps = blocks * threads // cuda_layer.WARP
        for form, loop in counted["products"].items():
            loop["bytes_in_flight"] = round(
                warps * loop["blocks"] * cuda_layer.UNIT * cuda_layer.WEIGHT_BYTES[form.split()[0]])
        if counted["attention"]:
            attention = counted["attention"]
            # The keys of a chunk, then its values: no more than there are.
            of_chunk = cuda_layer.CHUNK * attention["bytes_a_key"] // 2
            attention["bytes_in_flight"] = min(warps * attention["fetched_at_once"],
                                               blocks * of_chunk)
        return dict(counted, threads=threads, shared_bytes=shared, resident_blocks=blocks)


def table(kernels):
    """[{kernel, ...: [one of each architecture]}]"""
    rows = []
    for name in sorted(kernels[ARCHS[0]]):
        found = [kernels[arch][name] for arch in ARCHS]
        row = dict(kernel=name, threads=found[0]["threads"], shared_bytes=found[0]["shared_bytes"])
        for key in ("registers", "spill_bytes", "resident_blocks", "code_bytes", "instructions"):
            row[key] = [f[key] for f in found]
        row["mix"] = {kind: [f["mix"].get(kind, 0) for f in found]
                      for kind in sorted(set().union(*(f["mix"] for f in found)))}
        forms = sorted(set().union(*(f["products"] for f in found)))
        if forms:
            row["block_of_32_weights"] = {form: {key: [f["products"][form][key] for f in found]
                for key in ("instructions", "blocks", "bytes_in_flight")} for form in forms}
        if found[0]["attention"]:
            row["key_and_query"] = {key: [f["attention"][key] for f in found]
                                    for key in ("instructions", "bytes_in_flight", "bytes_a_key")}
        if found[0]["norm_loops"]:
            row["loops_of_a_norm"] = [sum(f["norm_loops"].values()) for f in found]
        rows.append(row)
    return rows


def measured():
    """The H200's figures that predictions are held against: {(weights, pos, rows): us of a layer},
    {(weights, matrix, rows): us}, and what a kernel in a graph takes there."""
    run = json.loads((bench.RESULTS / "gpu_kernels.json").read_text())
    layers, matmuls = {}, {}
    for k in run["results"]:
        if k["shape"] != "7b" or k["kind"] not in ("layer", "matmul") or "lm_head" in k["kernel"]:
            continue
        weights = {"i8": "q8_0"}.get(first := k["kernel"].split()[0], first)
        for rows, us in zip(k["rows"]["m"], k["rows"]["us"]):
            if k["kind"] == "layer":
                layers[weights, k["pos"], rows] = us
            else:
                matmuls[weights, rows] = matmuls.get((weights, rows), 0) + us
    return layers, matmuls, run["basics"]["launch"]["two_blocks_per_sm"]["graph"]["us"]


def predictions(kernels):
    """([per card and weights], [those of the H200 beside what was measured]): when it was, all
    kernels were apart."""
    layers, matmuls, gap = measured()
    predicted, held = [], []
    for weights, pos, rows in itertools.product(cuda_layer.WEIGHT_BYTES, POSITIONS, SCORED_ROWS):
        for card, (arch, *_) in cuda_layer.CARDS.items():
            found = cuda_layer.predict(kernels[arch], card, gap, weights, rows, pos)
            if rows != 1 or pos != POSITIONS[0]:
                del found["kernels"]
            predicted.append(dict(card=card, weights=weights, pos=pos, rows=rows, **found))
        of_h200 = kernels[cuda_layer.CARDS["H200"][0]]
        found = cuda_layer.predict(of_h200, "H200", gap, weights, rows, pos, apart=True)
        of_matmuls = sum(k["us"] for k in found["kernels"] if of_h200[k["kernel"]]["products"])
        for what, us, truth in (("layer", found["us"], layers.get((weights, pos, rows))),
                                ("matmuls", of_matmuls, matmuls.get((weights, rows)))):
            if truth and (what == "layer" or pos == POSITIONS[0]):
                held.append(dict(what=what, weights=weights, pos=pos, rows=rows,
                                 predicted_us=round(us, 2), measured_us=round(truth, 2),
                                 off_percent=round(100 * (us / truth - 1), 1)))
    return predicted, held


def print_tables(now, predicted, held):
    print(f"{'kernel':42} {'registers':>26} {'code, KB, sm_90':>16}")
    for row in now:
        registers = "".join(f"{n:>4}" for n in row["registers"])
        print(f"{row['kernel'][:42]:42} {registers:>26} {row['code_bytes'][4] / 1024:>16.1f}")
        for form, loop in row.get("block_of_32_weights", {}).items():
            print(f"    {form:12} instructions a block {loop['instructions']}, bytes on their way "
                  f"{loop['bytes_in_flight']}")
        if loop := row.get("key_and_query"):
            print(f"    instructions a key and query {loop['instructions']}")
    for p in predicted:
        if p["rows"] == 1 and p["pos"] == POSITIONS[0]:
            print(f"{p['card']:9} {p['weights']:5} {p['us']:8.1f} us a layer: memory "
                  f"{p['memory_us']:.1f}, issue {p['issue_us']:.1f}, gaps {p['gaps_us']:.1f}")
    for h in held:
        print(f"H200 {h['what']:8} {h['weights']:5} at {h['pos']}, {h['rows']} rows: predicted "
              f"{h['predicted_us']}, measured {h['measured_us']}: {h['off_percent']} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", required=True, help="configured with SPECBOUND_CUDA=ON")
    parser.add_argument("--before", nargs=2, metavar=("COMMIT", "BUILD"),
                        help="another commit's, beside it")
    parser.add_argument("--folder", required=True, help="for cubins")
    parser.add_argument("--at-once", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=pathlib.Path, default=bench.RESULTS / "cuda_static.json")
    a = parser.parse_args()

    machine, disassembler = bench.hardware(), sass.find_disassembler()
    tables, commits = {}, dict(after=bench.commit())
    os.makedirs(a.folder, exist_ok=True)
    now = Tree(a.build, cuda_layer.LAUNCHES, disassembler).read(a.folder, a.at_once)
    if a.before:
        commits = dict(before=a.before[0], **commits)
        tables["before"] = table(Tree(a.before[1], cuda_layer.LAUNCHES_BEFORE, disassembler)
                                 .read(a.folder, a.at_once))
    tables["after"] = table(now)
    predicted, held = predictions(now)
    print_tables(tables["after"], predicted, held)
    command = ["tests/bench/cuda_static.sh", *(["--before", a.before[0]] if a.before else [])]
    bench.write_report(
        a.output, "cuda_static", command, machine, commits=commits, architectures=list(ARCHS),
        launches_a_layer={name: {f"{rows} rows": len(cuda_layer.layer(weights, rows, POSITIONS[0]))
                                 for rows in SCORED_ROWS}
                          for name, weights in (("int8", "q8_0"), ("fp16", "f16"))},
        cards={name: dict(zip(cuda_layer.OF_A_CARD, card))
               for name, card in cuda_layer.CARDS.items()},
        **tables, predicted=predicted, held_against_h200=held)


if __name__ == "__main__":
    main()
