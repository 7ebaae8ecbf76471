#include "engine/cuda/device_forward.h"

#include <algorithm>

#include "engine/cuda/device_experts.h"
#include "engine/cuda/device_linear.h"
#include "kernels/post_norm.h"
#include "kernels/prefill_attention.h"
#include "kernels/projections.h"
#include "kernels/projections_f16.h"
#include "kernels/rows.h"

namespace specbound {

void DeviceForward::embed(const kernels::Pass* pass, const int32_t* tokens, int max_rows,
                          float* h) const {
  kernels::embed_rows({pass, tokens, weights_.embedding_type(), weights_.embedding(), config_.dim,
                       h, max_rows, config_.embedding_scale},
                      device_.stream());
}

kernels::Heads DeviceForward::heads(const DeviceLayer& w, int layer, int sequence) const {
  kernels::Heads heads{};
  heads.n_heads = config_.n_heads;
  heads.n_kv_heads = config_.n_kv_heads;
  heads.head_dim = config_.head_dim;
  heads.qkv = work_.qkv.data();
  heads.q_bias = w.bq;
  heads.k_bias = w.bk;
  heads.v_bias = w.bv;
  heads.q_norm = w.q_norm;
  heads.k_norm = w.k_norm;
  heads.norm_eps = config_.norm_eps;
  heads.cosine = rope_.cosine(config_.rotation_of(layer));
  heads.sine = rope_.sine(config_.rotation_of(layer));
  heads.interleaved = config_.rope_style == RopeStyle::kInterleaved;
  heads.rope_dim = config_.rotates(layer) ? config_.rope_dim : 0;
  heads.score_scale = config_.score_scale;
  heads.softcap = config_.attn_softcap;
  heads.window = config_.window_of(layer);
  heads.kv = kv_.layer(layer, sequence);
  return heads;
}

// Of a decode pass, without what is some passes' own.
kernels::Attend DeviceForward::attention(const kernels::Pass* pass, const kernels::Heads& heads,
                                         int context) const {
  kernels::Attend attend{};
  attend.pass = pass;
  attend.heads = heads;
  attend.context = context;
  attend.part_states = work_.part_states.data();
  attend.part_outputs = work_.part_outputs.data();
  attend.attended = work_.attended.data();
  return attend;
}

// Of a prompt's rows by decode's kernels, which store their K and V: each 16 see the keys of those
// before them.
void DeviceForward::attend_in_parts(const ChunkState& chunk, const kernels::Pass& rows,
                                    const kernels::Heads& heads) const {
  const size_t q_dim = config_.q_dim(), qkv_dim = q_dim + 2 * config_.kv_dim();
  for (int first = 0; first < rows.n_rows; first += kMaxRows) {
    const int end = rows.pos + std::min(first + kMaxRows, rows.n_rows);
    kernels::Attend attend = attention(&chunk.parts[first / kMaxRows], heads, padded_context(end));
    attend.heads.qkv += first * qkv_dim;
    attend.attended += first * q_dim;
    attend.overlaps = false;
    kernels::attend_chunks(attend, device_.stream());
    kernels::combine_chunks(attend, device_.stream());
  }
}

// h += norm(y + bias), y the rows that a matmul left where q, k and v were.
void DeviceForward::add_normed(const kernels::Pass* pass, int max_rows, const float* bias,
                               const float* norm, float* h) const {
  kernels::add_normed(
      {pass, work_.qkv.data(), bias, norm, config_.dim, config_.norm_eps, h, max_rows},
      device_.stream());
}

void DeviceForward::decode(const DecodePass& rows, int from, int to) const {
  const kernels::Stream stream = device_.stream();
  const kernels::Pass* pass = rows.pass;
  const int dim = config_.dim, q_dim = config_.q_dim(), ffn_dim = config_.ffn_dim;
  constexpr int kRows = kernels::kMaxDecodeRows;
  // One row takes fewer launches; more would do more work that each block does for itself.
  const bool alone = rows.max_rows == 1;
  const float eps = config_.norm_eps;
  float* h = work_.h.data();
  // h += W x + bias; or by way of a post norm
  const auto add = [&](const PreparedRows& x, const DeviceMatrix& w, const float* bias,
                       const float* post_norm) {
    if (!post_norm) return project_residual_rows(pass, x, w, bias, h, stream, rows.max_rows);
    project_rows(pass, x, {&w}, work_.qkv.data(), dim, stream, rows.max_rows);
    add_normed(pass, kRows, bias, post_norm, h);
  };
  for (int l = from; l <= to; ++l) {
    const DeviceLayer& w = weights_.layers()[l - 1];

    // x = norm(h); q, k, v = W x. Its kernels overlap from the first one on, which waits for the
    // pass to be stored.
    const bool overlaps = l > from || !rows.begins;
    const int ld = q_dim + 2 * config_.kv_dim();
    if (!rows.attn_rows && w.wq.int8() && alone && kernels::better_normed(ld, dim)) {
      project_normed_row(pass, {dim, h, w.attn_norm, eps}, {&w.wq, &w.wk, &w.wv}, work_.qkv.data(),
                         ld, stream, overlaps);
    } else {
      const PreparedRows x = rows.attn_rows ? *rows.attn_rows
                                            : norm_rows(work_.normed, w.wq.int8(), pass, kRows, h,
                                                        w.attn_norm, dim, eps, stream, overlaps);
      project_rows(pass, x, {&w.wq, &w.wk, &w.wv}, work_.qkv.data(), ld, stream, rows.max_rows);
    }

    // bias, q/k norm, rope; K and V into the cache; attended = softmax(cap(q K scale)) V
    kernels::Attend attend = attention(pass, heads(w, l, rows.sequence), rows.context);
    attend.tree = rows.tree;
    attend.sequences = rows.sequences;
    attend.next_sequence = kv_.next_sequence() / sizeof(uint16_t);
    PreparedRows attended = work_.wide_rows.rows(q_dim, w.wo.int8());
    if (attended.int8) attend.quantized = attended.i8;
    if (rows.sequences) {
      kernels::attend_side_by_side(attend, rows.max_rows, stream);
    } else {
      if (alone && kernels::better_joined(attend)) attend.arrived = work_.arrived.data();
      kernels::attend_chunks(attend, stream);
    }
    if (!attend.arrived) kernels::combine_chunks(attend, stream);
    if (!attended.int8) {
      attended =
          prepare_rows(work_.wide_rows, false, pass, kRows, attend.attended, q_dim, q_dim, stream);
    }

    // h += Wo attended
    add(attended, w.wo, w.bo, w.post_attn_norm);

    if (ffn_dim == 0) continue;  // an adapter's block: attention alone
    // h += what the experts of each row give of norm(h)
    if (config_.n_experts > 0) {
      run_experts(device_, config_, work_, pass, rows.max_rows, w, h);
      continue;
    }

    // x = norm(h); act = activation(Wg x) * (Wu x)
    PreparedRows act = work_.wide_rows.rows(ffn_dim, true);
    if (w.w_gate.int8() && alone && kernels::better_normed(ffn_dim, dim)) {
      kernels::gate_up_normed(
          {pass, {dim, h, w.ffn_norm, eps}, *w.w_gate.i8, *w.w_up.i8, act.i8, config_.activation},
          stream);
    } else if (const PreparedRows y = norm_rows(work_.normed, w.w_gate.int8(), pass, kRows, h,
                                                w.ffn_norm, dim, eps, stream, true);
               y.int8) {
      kernels::gate_up(
          {pass, y.i8, *w.w_gate.i8, *w.w_up.i8, act.i8, config_.activation, rows.max_rows},
          stream);
    } else {
      kernels::gate_up_f16(
          {pass, y.f16, *w.w_gate.f16, *w.w_up.f16, work_.act.data(), ffn_dim, config_.activation},
          stream);
      act = prepare_rows(work_.wide_rows, w.w_down.int8(), pass, kRows, work_.act.data(), ffn_dim,
                         ffn_dim, stream);
    }

    // h += Wd act
    add(act, w.w_down, nullptr, w.post_ffn_norm);
  }
}

void DeviceForward::prefill(const ChunkState& chunk, const kernels::Pass& rows, int sequence,
                            int from, int to, bool kv_only, PrefillMatmuls& x) const {
  const kernels::Pass* pass = &chunk.pass;
  const int n_rows = rows.n_rows;
  const int q_dim = config_.q_dim(), kv_dim = config_.kv_dim(), qkv_dim = q_dim + 2 * kv_dim;
  float *h = work_.prefill_h.data(), *qkv = work_.qkv.data();
  x.begin(pass, n_rows);
  // h += W x + bias; or by way of a post norm
  const auto add = [&](const DeviceMatrix& w, const float* bias, const float* post_norm) {
    if (!post_norm) return x.project_residual(w, bias, h);
    x.project(w, qkv, config_.dim);
    add_normed(pass, n_rows, bias, post_norm, h);
  };
  for (int l = from; l <= to; ++l) {
    const DeviceLayer& w = weights_.layers()[l - 1];
    const bool stop_at_kv = kv_only && l == config_.n_layers;

    // x = norm(h); q, k, v = W x
    x.norm(h, w.attn_norm, w.wq);
    if (!stop_at_kv) x.project(w.wq, qkv, qkv_dim);
    x.project(w.wk, qkv + q_dim, qkv_dim);
    x.project(w.wv, qkv + q_dim + kv_dim, qkv_dim);

    // bias, q/k norm, rope; K and V into the cache. Of INT8 ones attended at once
    kernels::PrefillAttention attend{};
    attend.pass = pass;
    attend.heads = heads(w, l, sequence);
    attend.max_rows = n_rows;
    attend.store_queries = !stop_at_kv;
    attend.q_tiles = work_.q_tiles.data();
    attend.q_scale = work_.q_scale.data();
    attend.attended = work_.attended.data();
    const bool in_parts = attend.heads.kv.int8 && !stop_at_kv;
    in_parts ? attend_in_parts(chunk, rows, attend.heads)
             : kernels::store_heads(attend, device_.stream());
    if (stop_at_kv) break;

    // attended = softmax(cap(q K scale)) V
    if (!in_parts) kernels::prefill_attention(attend, device_.stream());

    // h += Wo attended
    x.take(attend.attended, w.wo);
    add(w.wo, w.bo, w.post_attn_norm);

    // h += what the experts of each row give of norm(h)
    if (config_.n_experts > 0) {
      run_experts(device_, config_, work_, pass, n_rows, w, h);
      continue;
    }

    // x = norm(h); act = activation(Wg x) * (Wu x)
    x.norm(h, w.ffn_norm, w.w_gate);
    x.gate_up(w.w_gate, w.w_up, w.w_down);

    // h += Wd act
    add(w.w_down, nullptr, w.post_ffn_norm);
  }
}

}  // namespace specbound
