"""What a layer of a 7B launches, and what it should take on a card: predicted from what
cuda_static.py counted, with nothing fitted. docs/cuda.md has the formula and what is left out.

    kernel = max(bytes / bandwidth, clocks of issue / clock) + gap

`bandwidth` and `clock` are those of the card's maker, `gap` is what a kernel in a graph took on the
one card that we measured.
"""

import collections
import dataclasses

DIM, HEADS, HEAD_DIM, FFN = 4096, 32, 128, 11008
MAX_ROWS = 16
WARP, BLOCK, UNIT = 32, 32, 32  # lanes; k of a quantized block, outputs of a warp
CHUNK = 64  # positions of an attention block
PAIR = 2  # queries that attention computes at once, be there two or one
MOST_JOINED = 32  # chunks that attention of one row joins itself (kernels/attention.cu)
NORM = "norm_quantize_kernel"
NORMING = (NORM, "project_normed_kernel", "gate_up_normed_kernel", "gate_up_normed_q8_0_kernel")

# `integers`: a clock and multiprocessor. An H200's clock is what its driver said.
OF_A_CARD = ("arch", "multiprocessors", "mhz", "gb_s", "integers", "source")
CARDS = {
    "RTX 3060": (86, 28, 1777, 360, 64, "NVIDIA's specification of the GeForce RTX 3060 (12 GB); "
                 "NVIDIA Ampere GA102 GPU Architecture whitepaper"),
    "RTX 3090": (86, 82, 1695, 936, 64, "NVIDIA Ampere GA102 GPU Architecture whitepaper"),
    "RTX 4090": (89, 128, 2520, 1008, 64, "NVIDIA Ada GPU Architecture whitepaper"),
    "RTX 5090": (120, 170, 2407, 1792, 128, "NVIDIA RTX Blackwell GPU Architecture whitepaper"),
    "H200": (90, 132, 1980, 4800, 64, "NVIDIA H200 Tensor Core GPU datasheet; NVIDIA H100 Tensor "
             "Core GPU Architecture whitepaper"),
}
# Threads, shared memory and blocks that a multiprocessor has (CUDA C++ Programming Guide, compute
# capabilities). From sm_80 on each block takes 1 KB of shared memory for itself.
MACHINES = {75: (1024, 64, 16), 80: (2048, 164, 32), 86: (1536, 100, 16), 89: (1536, 100, 24),
            90: (2048, 228, 32), 120: (1536, 100, 24)}
REGISTERS = 65536  # of a multiprocessor
SCHEDULERS = 4  # each starts a warp's instruction a clock
FLOATS, CONVERSIONS = 128, 16  # lanes that a multiprocessor serves a clock

# Bytes of 32 weights as the kernels read them.
WEIGHT_BYTES = {"q8_0": 34, "q4_0": 18, "q4_1": 20, "q4_k": 18, "q5_0": 22, "q5_1": 24, "q5_k": 22,
                "q6_k": 26.25, "f16": 64}

# Threads and shared bytes of a block as launchers have them, at this shape.
LAUNCHES = {
    "norm_quantize_kernel": (256, 32784), "norm_floats_kernel": (256, 32784),
    "quantize_rows_kernel": (256, 0), "embed_rows_kernel": (256, 0),
    "project_kernel": (256, 18432), "project_q8_0_kernel": (256, 18432),
    "project_residual_kernel": (256, 18432), "project_residual_q8_0_kernel": (256, 18432),
    "gate_up_kernel": (512, 36864), "gate_up_q8_0_kernel": (256, 36864),
    "project_normed_kernel": (256, 23040),
    "gate_up_normed_kernel": (512, 41472), "gate_up_normed_q8_0_kernel": (256, 41472),
    "norm_f16_kernel": (256, 32816), "scale_rows_f16_kernel": (256, 32),
    "project_f16_kernel": (256, 18432), "project_residual_f16_kernel": (256, 18432),
    "gate_up_f16_kernel": (512, 36864),
    "attend_chunks_kernel": (256, 45312), "attend_side_by_side_kernel": (64, 6144),
    "store_side_by_side_kernel": (32, 512),
    "combine_chunks_kernel": (128, 6208),
    "exit_logits_kernel": (256, 2048), "exit_logits_q8_0_kernel": (256, 2048),
    "tell_decision_kernel": (32, 0),
    "peak_chunks_kernel": (256, 0), "join_peaks_kernel": (256, 18496),
    "silu_quantize_kernel": (128, 0), "add_silu_kernel": (128, 0),
    "penalize_rows_kernel": (256, 0), "draw_parts_kernel": (256, 256),
    "join_parts_kernel": (32, 0), "top_logits_kernel": (1024, 8320), "weigh_rows_kernel": (128, 32),
    "add_normed_kernel": (256, 32784), "cap_logits_kernel": (256, 0),
    "store_words_kernel": (64, 0), "keep_path_kernel": (128, 0), "keep_rows_kernel": (128, 0),
    "gather_kv_kernel": (128, 0), "copy_prefix_kernel": (128, 0),
    "score_experts_kernel": (256, 0), "route_experts_kernel": (512, 12292),
    "gather_expert_rows_kernel": (128, 0), "expert_gate_up_kernel": (512, 36864),
    "expert_down_kernel": (256, 18432), "add_experts_kernel": (256, 0),
}
# Over INT8 keys and values.
LAUNCHES_INT8_KV = {"attend_chunks_kernel": (256, 29824)}
# What a commit before had otherwise.
LAUNCHES_BEFORE = {**LAUNCHES, "attend_chunks_kernel": (128, 28672),
                   "softmax_peak_kernel": (512, 32832)}


def has_int8_kv(kernel):
    """Of a name, mangled or not."""
    return "KvI8" in kernel


def key_bytes(kernel):
    """Of a key and its value, as this kernel reads them."""
    return 2 * (HEAD_DIM + HEAD_DIM // 32 * 2 if has_int8_kv(kernel) else 2 * HEAD_DIM)


def shape_of(kernel, launches=None):
    """(threads, shared bytes) of a block."""
    launches = launches or LAUNCHES
    name = kernel.split("<")[0]
    return LAUNCHES_INT8_KV.get(name, launches[name]) if has_int8_kv(kernel) else launches[name]


def resident_blocks(arch, registers, threads, shared):
    """Of a kernel on a multiprocessor. Registers go to warps by 256."""
    most_threads, shared_kb, most_blocks = MACHINES[arch]
    of_warp = (registers * WARP + 255) // 256 * 256
    whole = shared + (1024 if arch >= 80 else 0)
    return min(most_blocks, most_threads // threads, REGISTERS // (of_warp * (threads // WARP)),
               shared_kb * 1024 // whole if whole else most_blocks)


@dataclasses.dataclass
class Launch:
    kernel: str
    blocks: int  # with something to do
    bytes: float  # that no cache has
    # Unit-blocks (32 outputs by 32 k) of a matmul; pairs of a key and a query; keys.
    products: int = 0
    scores: int = 0
    keys: int = 0
    norms: int = 0  # blocks that norm a row
    joins: int = 0  # blocks that join so many chunks of the outputs of a row
    chunks: int = 0


def matmul(kernel, n_out, n_in, weights, matrices=1):
    """`matrices`: that a block works on."""
    units, blocks = (n_out + UNIT - 1) // UNIT, n_in // BLOCK
    chunks = 8 if blocks >= 128 else 4 if blocks >= 64 else 2 if blocks >= 32 else 1
    launched = -(-units * chunks // (8 * matrices))
    return Launch(kernel, launched, n_out * n_in / BLOCK * WEIGHT_BYTES[weights],
                  products=units * blocks, norms=launched if "normed" in kernel else 0)


def layer(weights, rows, pos, apart=False):
    """The launches of a layer over `rows` rows behind `pos` positions, in their order. Of one row
    the matmuls norm it themselves (kernels/normed_row.cuh) and attention joins its chunks, but
    where kernels are `apart`."""
    panels = 1 if rows <= 8 else 2
    q8_0 = "true" if weights == "q8_0" else "false"
    keys = pos + rows
    chunks = -(-keys // CHUNK)
    alone = rows == 1 and not apart
    attention = [Launch("attend_chunks_kernel<false, false, KvF16>", HEADS * chunks,
                        4.0 * DIM * keys, scores=HEADS * keys * -(-rows // PAIR) * PAIR,
                        keys=HEADS * keys)]
    if alone and chunks <= MOST_JOINED:
        attention[0].joins, attention[0].chunks = HEADS, chunks  # the last block of each head
    else:
        blocks = DIM // 128 * rows
        attention.append(Launch("combine_chunks_kernel", blocks, 0, joins=blocks, chunks=chunks))
    if weights == "f16":
        rows_of = Launch("scale_rows_f16_kernel", rows, 0)
        norm = Launch("norm_f16_kernel", rows, 0)
        return [norm, matmul("project_f16_kernel", 3 * DIM, DIM, weights), *attention, rows_of,
                matmul("project_residual_f16_kernel", DIM, DIM, weights), norm,
                matmul("gate_up_f16_kernel", 2 * FFN, DIM, weights, 2), rows_of,
                matmul("project_residual_f16_kernel", DIM, FFN, weights)]
    residual = f"project_residual_kernel<{q8_0}, {panels}>"
    of_q8_0 = "q8_0_" if weights == "q8_0" else ""
    if alone:
        norm, project, gate_up = [], f"project_normed_kernel<{q8_0}>", f"normed_{of_q8_0}kernel"
    else:
        norm = [Launch(NORM, rows, 0, norms=rows)]
        project, gate_up = f"project_kernel<{q8_0}, {panels}>", f"{of_q8_0}kernel<{panels}>"
    return [*norm, matmul(project, 3 * DIM, DIM, weights), *attention,
            matmul(residual, DIM, DIM, weights), *norm,
            matmul(f"gate_up_{gate_up}", 2 * FFN, DIM, weights, 2),
            matmul(residual, DIM, FFN, weights)]


def issue_clocks(mix, integers):
    """Of a multiprocessor for the warps' instructions {class: how many}: the schedulers', or those
    of the busiest lanes."""
    lanes = {"integer": integers, "multiply": integers, "float": FLOATS, "convert": CONVERSIONS}
    return max(sum(mix.values()) / SCHEDULERS,
               *(mix.get(kind, 0) * WARP / n for kind, n in lanes.items()))


def work(launch, kernels, weights, panels):
    """{class: instructions of all warps} of a launch; `kernels` as in predict()."""
    counted, total = kernels[launch.kernel], collections.Counter()

    def add(mix, times):
        for kind, n in mix.items():
            total[kind] += n * times

    threads = shape_of(launch.kernel)[0]
    warps = launch.blocks * threads // WARP
    straight = collections.Counter(counted["straight"])
    if launch.norms:  # whatever the form, so it is told by the kernel that does nothing else
        norm = collections.Counter(kernels[NORM]["straight"])
        straight -= norm
        add(norm, warps)
        add(counted["norm_loops"], launch.norms)
    # Of a kernel for several forms a warp runs one's.
    add(straight, warps / max(1, len(counted["products"])))
    if launch.products:
        add(counted["products"][f"{weights} x{panels}"]["mix"], launch.products)
    if launch.scores:
        add(counted["attention"]["score_mix"], launch.scores)
        add(counted["attention"]["stage_mix"], launch.keys)
    if launch.joins:
        of_loop = -(-launch.chunks // counted["join"]["chunks"])
        add(counted["join"]["mix"], launch.joins * threads // WARP * of_loop)
    return total


def predict(counted, card, gap_us, weights, rows, pos, apart=False):
    """{us, memory_us, issue_us, gaps_us, kernels} of a layer (see there); `counted`: {kernel:
    counts} of the card's architecture."""
    arch, processors, mhz, gb_s, integers, _ = CARDS[card]
    kernels = []
    for launch in layer(weights, rows, pos, apart):
        mix = work(launch, counted, weights, 1 if rows <= 8 else 2)
        memory = launch.bytes / gb_s / 1e3
        issue = issue_clocks(mix, integers) / min(launch.blocks, processors) / mhz
        kernels.append(dict(kernel=launch.kernel, memory_us=memory, issue_us=issue,
                            us=max(memory, issue) + gap_us))
    total = {key: round(sum(k[key] for k in kernels), 2) for key in ("us", "memory_us", "issue_us")}
    return dict(**total, gaps_us=round(gap_us * len(kernels), 2), launches=len(kernels),
                kernels=[{**k, **{key: round(k[key], 2) for key in total}} for k in kernels])
