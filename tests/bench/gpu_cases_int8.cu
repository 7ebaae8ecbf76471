// The kernels of INT8 decoding, and attention, at a model's shape: a layer's in their order, then
// what follows the layers (logits, sampling) and what lies between them (exit checks).
#include <memory>

#include "exit_head.h"
#include "gpu_operands.cuh"
#include "prefill_attention.h"
#include "projections.h"
#include "rows.h"
#include "sampling.h"

namespace specbound::bench {

namespace {

using namespace kernels;

// One layer: its rows stay, its weights are others each time.
struct Int8Layer {
  Int8Layer(const Shape& shape, Operands& operands, DType type)
      : s(shape),
        o(operands),
        type(type),
        heads(shape, operands),
        h(o.keep<float>(static_cast<size_t>(kMaxDecodeRows) * s.dim)),
        ones(o.ones(s.dim)),
        normed(o.rows_i8(s.dim)),
        attended(o.rows_i8(s.q_dim())),
        act(o.rows_i8(s.ffn_dim)),
        arrived(o.keep<uint32_t>(s.n_kv_heads)) {}

  const Shape& s;
  Operands& o;
  DType type;
  AttentionRows heads;
  float *h, *ones;
  RowsI8 normed, attended, act;
  uint32_t* arrived;

  TilesI8 tiles(int n_out, int n_in) const { return o.tiles_i8(n_out, n_in, type); }

  void norm(Stream stream) const {
    norm_quantize({o.pass(), h, ones, 1e-5f, normed, kMaxDecodeRows, false, true}, stream);
  }
  void quantize(Stream stream) const {
    quantize_rows({o.pass(), h, s.dim, normed, kMaxDecodeRows}, stream);
  }
  NormedRow row() const { return {s.dim, h, ones, 1e-5f}; }  // in place of norm()
  template <class Rows>
  ProjectOf<Rows> qkv_of(const Rows& x) const {
    const TilesI8 q = tiles(s.q_dim(), s.dim), k = tiles(s.kv_dim(), s.dim);
    const TilesI8 v = tiles(s.kv_dim(), s.dim);
    return {o.pass(), x, {q, k, v}, 3, heads.qkv, s.q_dim() + 2 * s.kv_dim(), o.max_rows};
  }
  void qkv(Stream stream) const { project(qkv_of(normed), stream); }
  void qkv_normed(Stream stream) const { project_normed(qkv_of(row()), stream); }
  Attend attention(int context, bool int8_kv = false) const {
    Attend p = heads.attend(context, attended);
    p.heads.kv.int8 = int8_kv;
    return p;
  }
  // `joined`: in the last block.
  void attend(Stream stream, Attend p, bool joined = false) const {
    if (joined) p.arrived = arrived;
    attend_chunks(p, stream);
    if (!joined) combine_chunks(p, stream);
  }
  void output(Stream stream) const {
    project_residual({o.pass(), attended, tiles(s.dim, s.q_dim()), nullptr, h, o.max_rows}, stream);
  }
  template <class Rows>
  GateUpOf<Rows> gate_and_up_of(const Rows& x) const {
    const TilesI8 gate = tiles(s.ffn_dim, s.dim), up = tiles(s.ffn_dim, s.dim);
    return {o.pass(), x, gate, up, act, Activation::kSilu, o.max_rows};
  }
  void gate_and_up(Stream stream) const { gate_up(gate_and_up_of(normed), stream); }
  void gate_and_up_normed(Stream stream) const { gate_up_normed(gate_and_up_of(row()), stream); }
  void down(Stream stream) const {
    project_residual({o.pass(), act, tiles(s.dim, s.ffn_dim), nullptr, h, o.max_rows}, stream);
  }
  void all(Stream stream, int context) const {
    norm(stream);
    qkv(stream);
    attend(stream, attention(context));
    output(stream);
    norm(stream);
    gate_and_up(stream);
    down(stream);
  }
  // As an engine runs one row.
  void all_of_one(Stream stream, int context) const {
    const Attend p = attention(context);
    qkv_normed(stream);
    attend(stream, p, better_joined(p));
    output(stream);
    gate_and_up_normed(stream);
    down(stream);
  }
};

double bytes_i8(double n_out, double n_in, DType type = DType::kQ8_0) {
  const double value = type == DType::kQ8_0 ? 1 : 0.5;
  return n_out * n_in * (value + 2.0 / kQuantBlock + (type == DType::kQ4_K ? 4.0 / 256 : 0));
}

// The matmuls of a layer, `name` before each.
void add_matmuls(const std::string& name, std::shared_ptr<Int8Layer> layer,
                 std::vector<Case>& cases) {
  const Shape& s = layer->s;
  const auto bytes = [&](double n_out, double n_in) { return bytes_i8(n_out, n_in, layer->type); };
  const auto add = [&](const char* which, double n, Kind kind,
                       std::function<void(Stream)> enqueue) {
    cases.push_back({name + which, n, std::move(enqueue), kShort, kind});
  };
  const double qkv = bytes(s.q_dim() + 2 * s.kv_dim(), s.dim), up = bytes(2.0 * s.ffn_dim, s.dim);
  const double output = bytes(s.dim, s.q_dim()), down = bytes(s.dim, s.ffn_dim);
  add(" qkv", qkv, Kind::kMatmul, [=](Stream t) { layer->qkv(t); });
  add(" norm in qkv", qkv, Kind::kOneRow, [=](Stream t) { layer->qkv_normed(t); });
  add(" o", output, Kind::kMatmul, [=](Stream t) { layer->output(t); });
  add(" gate_up", up, Kind::kMatmul, [=](Stream t) { layer->gate_and_up(t); });
  add(" norm in gate_up", up, Kind::kOneRow, [=](Stream t) { layer->gate_and_up_normed(t); });
  add(" down", down, Kind::kMatmul, [=](Stream t) { layer->down(t); });
}

void add_layer(const Shape& s, Operands& o, std::vector<Case>& cases) {
  const auto layer = std::make_shared<Int8Layer>(s, o, DType::kQ8_0);
  const double qkv = bytes_i8(s.q_dim() + 2 * s.kv_dim(), s.dim),
               output = bytes_i8(s.dim, s.q_dim());
  const double up = bytes_i8(2.0 * s.ffn_dim, s.dim), down = bytes_i8(s.dim, s.ffn_dim);
  cases.push_back({"i8 norm_quantize", 0, [=](Stream t) { layer->norm(t); }});
  const int32_t* tokens = o.keep<int32_t>(kMaxDecodeRows);
  const auto* table = o.keep<BlockQ8_0>(s.dim / kQuantBlock);  // token 0 alone
  cases.push_back({"embed_rows", 0, [=](Stream t) {
                     embed_rows({layer->o.pass(), tokens, DType::kQ8_0, table, layer->s.dim,
                                 layer->h, kMaxDecodeRows},
                                t);
                   }});
  cases.push_back({"i8 quantize_rows", 0, [=](Stream t) { layer->quantize(t); }});
  add_matmuls("i8", layer, cases);
  add_matmuls("q4_0", std::make_shared<Int8Layer>(s, o, DType::kQ4_0), cases);
  add_matmuls("q4_k", std::make_shared<Int8Layer>(s, o, DType::kQ4_K), cases);
  for (int pos : {kShort, kLong}) {
    const double kv = kv_bytes(s, pos);
    const int context = context_of(pos);
    const std::string at = " at " + std::to_string(pos);
    cases.push_back({"attention" + at, kv,
                     [=](Stream t) { layer->attend(t, layer->attention(context)); }, pos});
    cases.push_back({"attention, joined in it" + at, kv,
                     [=](Stream t) { layer->attend(t, layer->attention(context), true); }, pos});
    cases.push_back({"attention, K/V int8" + at, kv * 34 / 64,
                     [=](Stream t) { layer->attend(t, layer->attention(context, true)); }, pos});
    cases.push_back({"i8 layer" + at, kv + qkv + output + up + down,
                     [=](Stream t) { layer->all(t, context); }, pos, Kind::kLayer});
    cases.push_back({"i8 layer of one row" + at, kv + qkv + output + up + down,
                     [=](Stream t) { layer->all_of_one(t, context); }, pos, Kind::kOneRow});
  }
}

// lm_head, and what turns logits into a token.
void add_sampling(const Shape& s, Operands& o, std::vector<Case>& cases) {
  const int ld = kVocabSize;
  float* logits = o.noise(static_cast<size_t>(kMaxDecodeRows) * ld);
  const RowsI8 x = o.rows_i8(s.dim);
  cases.push_back({"i8 lm_head", bytes_i8(ld, s.dim),
                   [=, &o](Stream t) {
                     project({o.pass(), x, {o.tiles_i8(ld, s.dim)}, 1, logits, ld}, t);
                   },
                   kShort, Kind::kMatmul});
  const SamplingState sampling{1, 1, 0.8f, 1.1f, 64};
  const LogitRows rows{
      o.pass(), o.noise(static_cast<size_t>(kMaxDecodeRows) * ld), ld, ld, nullptr, kMaxDecodeRows};
  const SamplingState* state = o.place(sampling);
  const int32_t* text = o.keep<int32_t>(kContext);
  float* penalized = o.keep<float>(static_cast<size_t>(kMaxDecodeRows) * ld);
  DrawPart* parts = o.keep<DrawPart>(static_cast<size_t>(kMaxDecodeRows) * draw_parts(ld));
  DrawnToken* drawn = o.keep<DrawnToken>(kMaxDecodeRows);
  TopLogits* top = o.keep<TopLogits>(kMaxDecodeRows);
  cases.push_back({"penalize_rows", 0, [=](Stream t) {
                     penalize_rows({rows, state, text, penalized}, t);
                   }});
  cases.push_back({"gumbel_argmax", 0, [=](Stream t) {
                     gumbel_argmax({rows, state, parts, drawn}, t);
                   }});
  cases.push_back({"top_logits", 0, [=](Stream t) { top_logits({rows, top, true}, t); }});
}

// A check by a folded head: of a shortlist, and of the whole vocabulary.
void add_checks(const Shape& s, Operands& o, std::vector<Case>& cases) {
  const ExitRule* rule = o.place(ExitRule{1.2f, 0.55f, 1});
  const RowsI8 x = o.rows_i8(s.dim);
  const float* h = o.noise(static_cast<size_t>(kMaxDecodeRows) * s.dim);
  const float* ones = o.ones(s.dim);
  for (int n : {2048, 8192, kVocabSize}) {
    float* z = o.noise(n);
    PeakChunk* peaks = o.keep<PeakChunk>(peak_chunks_of(n));
    ExitDecision* decision = o.keep<ExitDecision>(1);
    cases.push_back({"i8 exit check of " + std::to_string(n), bytes_i8(n, s.dim),
                     [=, &o](Stream t) {
                       norm_quantize({o.pass(), h, ones, 1e-5f, x, 1}, t);
                       exit_logits({rule, o.tiles_i8(n, s.dim), x, z, peaks}, t);
                       join_peaks({rule, peaks, z, nullptr, n, decision}, t);
                     },
                     kShort, Kind::kOneRow});
  }
  const float* inner = o.noise(2 * s.dim);
  const RowsI8 u = o.rows_i8(2 * s.dim);
  cases.push_back({"i8 silu_quantize", 0,
                   [=](Stream t) {
                     silu_quantize({inner, u}, t);
                   },
                   kShort, Kind::kOneRow});
}

// A prefill chunk of 512 rows sees 512 positions before it and half of its own.
void add_prefill_attention(const Shape& s, Operands& o, std::vector<Case>& cases) {
  constexpr size_t kRows = kMaxPrefillRows;
  const auto heads = std::make_shared<AttentionRows>(s, o);
  PrefillAttention p{};
  p.pass = o.pass();
  p.heads = heads->attend(kContext, {}).heads;
  p.heads.qkv = o.noise(kRows * (s.q_dim() + 2 * s.kv_dim()));
  p.max_rows = kMaxPrefillRows;
  p.store_queries = true;
  p.q_tiles = o.keep<uint16_t>(2 * kRows * s.n_heads * prefill_head_dim(s.head_dim));
  p.q_scale = o.keep<float>(kRows * s.n_heads);
  p.attended = o.keep<float>(kRows * s.q_dim());
  const double operations = 4.0 * kRows * s.q_dim() * (kShort + kRows / 2);
  cases.push_back(
      {"prefill heads", 0, [=](Stream t) { store_heads(p, t); }, kShort, Kind::kPrefill});
  cases.push_back({"prefill attention", 0, [=](Stream t) { prefill_attention(p, t); }, kShort,
                   Kind::kPrefill, operations});
}

}  // namespace

void add_int8_cases(const Shape& shape, Operands& operands, std::vector<Case>& cases) {
  add_layer(shape, operands, cases);
  add_sampling(shape, operands, cases);
  add_checks(shape, operands, cases);
  add_prefill_attention(shape, operands, cases);
}

}  // namespace specbound::bench
