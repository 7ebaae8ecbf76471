// The kernels of FP16 decoding at a model's shape, and the matmuls of prefill.
#include <memory>

#include "gpu_operands.cuh"
#include "prefill_gemm.h"
#include "projections_f16.h"

namespace specbound::bench {

namespace {

using namespace kernels;

// One layer: its rows stay, its weights are others each time.
struct HalfLayer {
  HalfLayer(const Shape& shape, Operands& operands)
      : s(shape),
        o(operands),
        heads(shape, operands),
        h(o.keep<float>(static_cast<size_t>(kMaxDecodeRows) * s.dim)),
        ones(o.ones(s.dim)),
        act(o.keep<float>(static_cast<size_t>(kMaxDecodeRows) * s.ffn_dim)),
        normed(o.rows_f16(s.dim)),
        attended(o.rows_f16(s.q_dim())),
        scaled_act(o.rows_f16(s.ffn_dim)) {}

  const Shape& s;
  Operands& o;
  AttentionRows heads;
  float *h, *ones, *act;
  RowsF16 normed, attended, scaled_act;

  void norm(Stream stream) const {
    norm_f16({o.pass(), h, ones, s.dim, 1e-5f, normed, kMaxDecodeRows, false, true}, stream);
  }
  void scale(Stream stream) const {
    scale_rows_f16({o.pass(), act, s.ffn_dim, s.ffn_dim, scaled_act, kMaxDecodeRows}, stream);
  }
  void qkv(Stream stream) const {
    const TilesF16 q = o.tiles_f16(s.q_dim(), s.dim), k = o.tiles_f16(s.kv_dim(), s.dim);
    const TilesF16 v = o.tiles_f16(s.kv_dim(), s.dim);
    project_f16({o.pass(), normed, {q, k, v}, 3, heads.qkv, s.q_dim() + 2 * s.kv_dim()}, stream);
  }
  void attend(Stream stream, int context) const {
    const Attend p = heads.attend(context, {});
    attend_chunks(p, stream);
    combine_chunks(p, stream);
    const int n = s.q_dim();
    scale_rows_f16({o.pass(), heads.attended, n, n, attended, kMaxDecodeRows}, stream);
  }
  void output(Stream stream) const {
    project_residual_f16({o.pass(), attended, o.tiles_f16(s.dim, s.q_dim()), nullptr, h}, stream);
  }
  void gate_and_up(Stream stream) const {
    const TilesF16 gate = o.tiles_f16(s.ffn_dim, s.dim), up = o.tiles_f16(s.ffn_dim, s.dim);
    gate_up_f16({o.pass(), normed, gate, up, act, s.ffn_dim}, stream);
  }
  void down(Stream stream) const {
    project_residual_f16({o.pass(), scaled_act, o.tiles_f16(s.dim, s.ffn_dim), nullptr, h}, stream);
  }
  void all(Stream stream, int context) const {
    norm(stream);
    qkv(stream);
    attend(stream, context);
    output(stream);
    norm(stream);
    gate_and_up(stream);
    scale(stream);
    down(stream);
  }
};

double bytes_f16(double n_out, double n_in) {
  return n_out * n_in * sizeof(uint16_t);
}

void add_layer(const Shape& s, Operands& o, std::vector<Case>& cases) {
  const auto layer = std::make_shared<HalfLayer>(s, o);
  const double qkv = bytes_f16(s.q_dim() + 2 * s.kv_dim(), s.dim);
  const double output = bytes_f16(s.dim, s.q_dim());
  const double up = bytes_f16(2.0 * s.ffn_dim, s.dim), down = bytes_f16(s.dim, s.ffn_dim);
  cases.push_back({"f16 norm", 0, [=](Stream t) { layer->norm(t); }});
  cases.push_back({"f16 scale_rows", 0, [=](Stream t) { layer->scale(t); }});
  cases.push_back({"f16 qkv", qkv, [=](Stream t) { layer->qkv(t); }, kShort, Kind::kMatmul});
  cases.push_back({"f16 o", output, [=](Stream t) { layer->output(t); }, kShort, Kind::kMatmul});
  cases.push_back(
      {"f16 gate_up", up, [=](Stream t) { layer->gate_and_up(t); }, kShort, Kind::kMatmul});
  cases.push_back({"f16 down", down, [=](Stream t) { layer->down(t); }, kShort, Kind::kMatmul});
  for (int pos : {kShort, kLong}) {
    const int context = context_of(pos);
    cases.push_back({"f16 layer at " + std::to_string(pos),
                     kv_bytes(s, pos) + qkv + output + up + down,
                     [=](Stream t) { layer->all(t, context); }, pos, Kind::kLayer});
  }
  float* logits = o.keep<float>(static_cast<size_t>(kMaxDecodeRows) * kVocabSize);
  cases.push_back({"f16 lm_head", bytes_f16(kVocabSize, s.dim),
                   [=](Stream t) {
                     const TilesF16 w = layer->o.tiles_f16(kVocabSize, layer->s.dim);
                     project_f16({layer->o.pass(), layer->normed, {w}, 1, logits, kVocabSize}, t);
                   },
                   kShort, Kind::kMatmul});
}

// Prefill of 512 rows: the gate and up matmuls, the largest.
void add_prefill(const Shape& s, Operands& o, std::vector<Case>& cases) {
  constexpr int kRows = kMaxPrefillRows;
  const double operations = 2.0 * kRows * s.dim * 2 * s.ffn_dim;
  const RowsI8 x = o.rows_i8(s.dim, kRows), act = o.rows_i8(s.ffn_dim, kRows);
  const RowsF16 x_half = o.rows_f16(s.dim, kRows);
  float* act_half = o.keep<float>(static_cast<size_t>(kRows) * s.ffn_dim);
  Case c{"i8 prefill gate_up", 0, nullptr, 0, Kind::kPrefill, operations};
  c.enqueue = [=, &s, &o](Stream t) {
    const TilesI8 gate = o.tiles_i8(s.ffn_dim, s.dim), up = o.tiles_i8(s.ffn_dim, s.dim);
    prefill_gate_up_i8({o.pass(), kRows, gate, up, x, act}, t);
  };
  cases.push_back(c);
  c.name = "f16 prefill gate_up";
  c.enqueue = [=, &s, &o](Stream t) {
    const TilesF16 gate = o.tiles_f16(s.ffn_dim, s.dim), up = o.tiles_f16(s.ffn_dim, s.dim);
    prefill_gate_up_f16({o.pass(), kRows, gate, up, x_half, act_half, s.ffn_dim}, t);
  };
  cases.push_back(c);
}

}  // namespace

void add_half_cases(const Shape& shape, Operands& operands, std::vector<Case>& cases) {
  add_layer(shape, operands, cases);
  add_prefill(shape, operands, cases);
}

}  // namespace specbound::bench
