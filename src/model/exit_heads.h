// Trained exit heads: small maps from a shallow layer's hidden state to a guess of the next token,
// kept in a GGUF file beside the model (general.architecture "specbound-heads"). A guess never
// changes a byte of the text. docs/architecture.md 6; AdaDecode (arXiv 2506.03700) for `full`.
//
// With x = h_l / rms(h_l) (no weight: training absorbs it), E = lm_head and E_s its rows of the
// shortlist, a head's logits are
//   full     z = E (W_l x)                         W_l (dim, dim); whole vocabulary
//   folded   z = F_l x                             F_l = E_s W_l, (shortlist, dim), Q8_0
//   chained  y = A_l [x; s] + D_l silu(C_l [x; s]) A_l (dim, 2 dim), C_l (inner, 2 dim),
//            z = E_s y                             D_l (dim, inner); all Q8_0
//   layer    u = W [x; s / rms(s)]                 W (dim, 2 dim); all Q8_0 but w (dim), F32
//            u += O attention(u / rms(u))          one block of the model's own heads and rope,
//            u += D (silu(G u / rms(u)) * U u / rms(u)), with K and V of its own over the text
//            z = E_s y, y = w u / rms(u)           (EAGLE-3, arXiv 2503.01840, with one state in)
//   medusa   x = s; x += silu(W x + b) for each    as published (arXiv 2401.10774) and in its
//            of some blocks; z = V_k x             types: W (dim, dim), V (vocab_size, dim)
//   hydra    x = [s; e_1; ..; e_k] by a first   as published (arXiv 2402.05109) and in its
//            block R x + c + silu(W x + b), then   types: e of the root and what stands behind it
//            as medusa; z = V_k x + a              up to the row, R and W (dim, (k + 1) dim); of
//                                                  both V_k may be E, with no a: train-heads'
//   eagle    u = W [e; s] + b, then the block of   as published (arXiv 2401.15077, 2406.16858) and
//            `layer`, no norm before attention     in its types; e the token's row of the
//            and w u / rms(u) before G; z = E u    embedding, u the state after the row
//   eagle3   u = W [h_a; h_b; h_c], then a block   as published (arXiv 2503.01840) and in its
//            whose q, k and v are of               types; h of three layers; V (tokens, dim) of
//            [w_e e / rms(e); w_h u / rms(u)];     some tokens or all; u the state after the
//            z = V (w u / rms(u))                  row, which takes the place of W h there
//   mtp      u = W [w_e e / rms(e);                as the model's authors publish it (MiMo, arXiv
//            w_s s / rms(s)], then a block of      2505.07608) and in its types; s is h_L, before
//            the model's kind; z = E y,            the model's last norm
//            y = w u / rms(u)
//   kangaroo u = h_l + O attention(w_a h_l /      as published (arXiv 2404.18911) and in its types;
//            rms(h_l)); z = E (w u / rms(u))       the row's own h_l, no s; K and V of its own
// where s is the state before the row: norm(h_L) of the row before it where that went through all
// layers (mtp: h_L), else that row's own y, the head's estimate of it (as EAGLE's drafter feeds on
// itself).
// A medusa head is several, and so is a hydra head: number k guesses the token k places behind the
// root, medusa whatever stands between, and s is always the state before the root.
// The shortlist is ordered by falling frequency after the special tokens, so that any prefix of it
// is a shortlist too.
//
// A file may also hold text that the model wrote, for lookups, and mask tokens (drafters/space.h),
// beside heads or alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"

namespace specbound {

enum class HeadKind {
  kFull,
  kFolded,
  kChained,
  kLayer,
  kMedusa,
  kEagle,
  kEagle3,
  kHydra,
  kMtp,
  kKangaroo
};
// "full", "folded", "chained", "layer", "medusa", "eagle", "eagle3", "hydra", "mtp", "kangaroo"
const char* head_kind_name(HeadKind kind);
std::optional<HeadKind> parse_head_kind(std::string_view name);
inline constexpr HeadKind kHeadKinds[] = {
    HeadKind::kFull,  HeadKind::kFolded, HeadKind::kChained, HeadKind::kLayer, HeadKind::kMedusa,
    HeadKind::kEagle, HeadKind::kEagle3, HeadKind::kHydra,   HeadKind::kMtp,   HeadKind::kKangaroo};
// One for each place behind the root, with the state before the root.
constexpr bool is_by_place(HeadKind kind) {
  return kind == HeadKind::kMedusa || kind == HeadKind::kHydra;
}
// One block with K and V of its own, in the form that others publish.
constexpr bool is_published_layer(HeadKind kind) {
  return kind == HeadKind::kEagle || kind == HeadKind::kEagle3 || kind == HeadKind::kMtp ||
         kind == HeadKind::kKangaroo;
}
// As others publish it, in the types that they have it in.
constexpr bool is_published(HeadKind kind) {
  return is_by_place(kind) || is_published_layer(kind);
}
constexpr bool is_layer(HeadKind kind) {
  return kind == HeadKind::kLayer || is_published_layer(kind);
}
// train-heads makes it; a model's own layer of multi-token prediction comes out of convert alone.
constexpr bool is_trained(HeadKind kind) {
  return kind != HeadKind::kMtp;
}
// Stands before the layers and nowhere else.
constexpr bool stands_before(HeadKind kind) {
  return (is_layer(kind) || is_by_place(kind)) && kind != HeadKind::kKangaroo;
}
// Looks at a row before any layer, and at the state before it.
constexpr bool has_state(HeadKind kind) {
  return kind == HeadKind::kChained || stands_before(kind);
}
// Wants to see every row that another one may follow, in order.
constexpr bool sees_all_rows(HeadKind kind) {
  return kind == HeadKind::kChained || is_layer(kind);
}
// Guesses any token of the vocabulary, or of a list of its own, whatever the shortlist is.
constexpr bool says_all(HeadKind kind) {
  return kind == HeadKind::kFull || is_published(kind);
}
// train-heads has it guess tokens of the shortlist: an eagle3 layer has those as its own list, with
// their rows of lm_head as V.
constexpr bool learns_shortlist(HeadKind kind) {
  return !says_all(kind) || kind == HeadKind::kEagle3;
}
// Guesses tokens of the list and, where the engine can, of the text.
constexpr bool says_text(HeadKind kind) {
  return has_state(kind) && !says_all(kind);
}
// One look at a row, behind some layer: tune replays these, and train-heads fits the temperature of
// their confidence; when to ask any other is learned while it drafts.
constexpr bool is_replayed(HeadKind kind) {
  return !is_layer(kind) && !is_by_place(kind);
}

// Of a medusa or hydra head, what guesses one place.
struct MedusaHead {
  struct Block {
    Matrix map;                            // W (dim, dim)
    const float* bias = nullptr;           // b (dim)
    Matrix residual = {};                  // R of a hydra head's first block; else x itself
    const float* residual_bias = nullptr;  // c (dim)
  };
  std::vector<Block> blocks;
  Matrix lm_head;                  // V (vocab_size, dim); n_out 0: the model's own
  const float* lm_bias = nullptr;  // a (vocab_size) of a hydra head with a V of its own
};
inline constexpr int kMostMedusaHeads = 15;  // a round has as many rows behind its root
inline constexpr int kMostMedusaBlocks = 8;

struct HeadWeights {
  // Checked after this layer: 1..L-1; chained also 0, the embedding; stands_before(): 0 alone. Of
  // kangaroo there is one a file.
  int layer = 0;
  HeadKind kind = HeadKind::kFolded;
  // full: W (dim, dim), F32 or F16; chained: A, layer: W (dim, 2 dim), Q8_0; eagle, mtp: W
  // likewise; eagle3: W (dim, 3 dim)
  Matrix map;
  const float* map_bias = nullptr;  // eagle: b (dim) or null
  Matrix folded;                    // folded: F (shortlist, dim), Q8_0
  Matrix inner, outer;  // chained: C (inner, 2 dim), D (dim, inner), Q8_0; n_out 0: none
  // layer: wq, wk, wv, wo, w_gate, w_up, w_down, Q8_0; nothing else; eagle: also bq, bk, bv or
  // null; eagle3: wq, wk, wv of 2 dim, and ffn_norm; mtp: as eagle's, attn_norm and ffn_norm;
  // kangaroo: wq, wk, wv, wo and attn_norm, no more
  LayerWeights block;
  const float* norm = nullptr;                                   // of all layers: w (dim)
  const float *embedding_norm = nullptr, *state_norm = nullptr;  // eagle3, mtp: w_e; w_h, w_s (dim)
  Matrix lm_head;                                                // eagle3: V
  std::vector<int32_t> tokens;  // eagle3: that V guesses, distinct ids; empty: the vocabulary
  // eagle3: the layers after which h is, ascending, 1..L; see eagle3_layers()
  std::array<int, 3> states = {};
  double rope_theta = 0;  // eagle3, kangaroo: its own, nothing scaled; 0: the model's rotation
  std::vector<MedusaHead> medusa;  // [k - 1]
  // The chance that a draft is accepted, from its margin m = top1 - top2 of z / T + G
  // (calibrated on greedy margins, those of z alone):
  // 1 / (1 + exp(-(margin_scale m + margin_offset))).
  float margin_scale = 1, margin_offset = 0;
  // The T at which max softmax(z / T) was likeliest to be that chance on rows it had not learnt.
  float temperature = 1;

  std::vector<const Matrix*> matrices() const;  // all that it has
};

// Those that the authors' code takes of a model of n_layers: 2, the middle and 3 before the last.
// They ascend from 7 layers on.
constexpr std::array<int, 3> eagle3_layers(int n_layers) {
  return {2, n_layers / 2, n_layers - 3};
}

// The draft layer as a model of its one block: no windows, no caps or scales of other layers'
// making.
ModelConfig draft_layer_config(const ModelConfig& model, const HeadWeights& head);

// general.architecture of a heads file.
inline constexpr const char* kHeadsArchitecture = "specbound-heads";

inline constexpr const char* kMedusaHeadsKey = "specbound.medusa.heads";
inline constexpr const char* kMedusaBlocksKey = "specbound.medusa.blocks";
inline constexpr const char* kHydraHeadsKey = "specbound.hydra.heads";
inline constexpr const char* kHydraBlocksKey = "specbound.hydra.blocks";
inline constexpr const char* kEagle3LayersKey = "specbound.eagle3.layers";
inline constexpr const char* kEagle3ThetaKey = "specbound.eagle3.rope_theta";
inline constexpr const char* kKangarooThetaKey = "specbound.kangaroo.rope_theta";
inline constexpr const char* kMaskTokenKey = "specbound.mask.token";
inline constexpr const char* kMaskCountKey = "specbound.mask.count";
inline constexpr const char* kTemperatureKey = "specbound.temperature";
inline constexpr const char* kLearntKey = "specbound.learnt_tokens";
inline constexpr size_t kMostTextTokens = size_t{1} << 20;

// What stands for tokens to come: rows of a pass that the model guesses behind.
struct MaskTokens {
  int count = 0;                // k; 0: none
  const float* rows = nullptr;  // (k, dim): each in place of an embedding; null:
  int32_t token = -1;           // one of the vocabulary stands for all, as the model has learnt
};
inline constexpr int kMostMasks = 15;  // a round has as many rows behind its root

// Settings that the file ships, from tuning on its training text.
struct HeadDefaults {
  HeadKind kind = HeadKind::kFolded;
  // Ascending; each has a head of `kind`. Written empty: all that do.
  std::vector<int> check_layers;
  // Tokens that checks look at: a prefix of the file's, a multiple of 16 or all. Written 0: all.
  int shortlist = 0;
  float alpha = 0.2f, tau = 0.55f;
  int d_max = 10, w_max = 8;
};

// What a heads file says of the model it was made for.
struct HeadsBase {
  std::string architecture;
  int n_layers = 0, dim = 0, vocab_size = 0;
  std::string fingerprint;  // of model_fingerprint()
  // What a draft layer's heads must fit; files do not say. 0: not known.
  int q_dim = 0, kv_dim = 0;
};

// A heads file, open and checked. Matrices are views into its map.
class ExitHeads {
 public:
  // Throws Error(kFile) when it cannot be read, Error(kFormat) naming the file, what was expected
  // and what was found: not a heads file, made for another model, a tensor missing, of another
  // shape or type, with a value that is no number, a token or a layer that the model lacks.
  static ExitHeads open(const std::string& path, const Gguf& model, const ModelConfig& config);
  // The same of a file already open, for the model it must fit; without one, the file is checked
  // against what itself says of its model.
  static ExitHeads from_gguf(Gguf file, const HeadsBase* model = nullptr);

  const std::string& path() const { return gguf_.path(); }
  const HeadsBase& base() const { return base_; }
  // Of the file itself, as it was opened, made as a model's is.
  std::string fingerprint() const;
  const std::vector<HeadWeights>& heads() const { return heads_; }      // by kind, then layer
  const std::vector<int32_t>& shortlist() const { return shortlist_; }  // token ids; may be empty
  // What the model wrote, to look up in: token ids, -1 behind each reply. May be empty.
  const std::vector<int32_t>& text() const { return text_; }
  const MaskTokens& masks() const { return masks_; }
  // Whether there are heads; where not, defaults() are of no use.
  bool can_guess() const { return !heads_.empty(); }
  // Tokens that they were trained on; 0: the file does not say.
  int64_t learnt() const { return learnt_; }
  const HeadDefaults& defaults() const { return defaults_; }
  // Index into heads(), or -1.
  int find(HeadKind kind, int layer) const;
  // Where this kind can be asked, ascending.
  std::vector<int> layers(HeadKind kind) const;
  size_t bytes() const;  // of the file

 private:
  ExitHeads() = default;
  Gguf gguf_;
  HeadsBase base_;
  std::vector<HeadWeights> heads_;
  std::vector<int32_t> shortlist_;
  std::vector<int32_t> text_;
  MaskTokens masks_;
  HeadDefaults defaults_;
  int64_t learnt_ = 0;
};

// What goes into a file; see ExitHeads for the meaning. Owned values.
struct HeadTensor {
  int n_out = 0, n_in = 0;
  std::vector<float> values = {};       // (n_out, n_in)
  std::vector<std::byte> encoded = {};  // or, without `values`, as the file has them
  DType type = DType::kQ8_0;            // of published `encoded`: float types or this one
};
struct NewMedusaHead {
  struct Block {
    HeadTensor map, bias;
    HeadTensor residual = {}, residual_bias = {};
  };
  std::vector<Block> blocks;  // as many in all heads
  HeadTensor lm_head = {};    // n_out 0: the model's own
  HeadTensor lm_bias = {};
};
struct NewHead {
  int layer = 0;
  HeadKind kind = HeadKind::kFolded;
  HeadTensor map, folded, inner, outer;
  HeadTensor q, k, v, o, gate, up, down, norm;      // of all layers
  HeadTensor map_bias, q_bias, k_bias, v_bias;      // eagle, mtp (no map_bias); n_out 0: none
  HeadTensor embedding_norm, state_norm, ffn_norm;  // eagle3, mtp
  HeadTensor attn_norm;                             // mtp, kangaroo
  HeadTensor lm_head;                               // eagle3
  std::vector<int32_t> tokens;
  std::array<int, 3> states = {};
  double rope_theta = 0;
  std::vector<NewMedusaHead> medusa;
  float margin_scale = 1, margin_offset = 0;
  float temperature = 1;
};
struct NewMasks {
  HeadTensor rows = {};  // (k, dim); n_out 0: those of the vocabulary
  int32_t token = -1;    // or none
  int count = 0;         // of that token
};
struct NewHeads {
  HeadsBase base;
  std::vector<int32_t> shortlist = {};
  std::vector<NewHead> heads = {};
  std::vector<int32_t> text = {};  // at most kMostTextTokens
  NewMasks masks = {};
  HeadDefaults defaults = {};  // of a file with heads
  int64_t learnt = 0;          // tokens; 0: not told
};
// Q8_0 where ExitHeads reads Q8_0 (dim must be a multiple of 32), F16 for full maps, of published
// heads what they come as. The file is whole or not there at all. Throws Error(kFile) when it
// cannot be written, Error(kFormat) when ExitHeads would refuse it: values that are no numbers,
// which training can end in, among others.
void write_exit_heads(const std::string& path, const NewHeads& heads);
// The same file as bytes in memory; `name` is for messages.
std::vector<std::byte> exit_heads_file(const std::string& name, const NewHeads& heads);

// 16 hexadecimal digits over the model's tensor directory (names, types, shapes) and pages sampled
// evenly from its tensor data: hashing everything would kill the instant start.
std::string model_fingerprint(const Gguf& model);

HeadsBase heads_base(const Gguf& model, const ModelConfig& config);

}  // namespace specbound
