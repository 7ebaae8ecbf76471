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
// where s is the state before the row: norm(h_L) of the row before it where that went through all
// layers, else that row's own y, the head's estimate of it (as EAGLE's drafter feeds on itself).
// The shortlist is ordered by falling frequency after the special tokens, so that any prefix of it
// is a shortlist too.
//
// A file may also hold text that the model wrote, for lookups, beside heads or alone.
#pragma once

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

enum class HeadKind { kFull, kFolded, kChained, kLayer };
const char* head_kind_name(HeadKind kind);  // "full", "folded", "chained", "layer"
std::optional<HeadKind> parse_head_kind(std::string_view name);
inline constexpr HeadKind kHeadKinds[] = {HeadKind::kFull, HeadKind::kFolded, HeadKind::kChained,
                                          HeadKind::kLayer};
// Looks at a row before any layer, and at the state before it.
constexpr bool has_state(HeadKind kind) {
  return kind == HeadKind::kChained || kind == HeadKind::kLayer;
}

struct HeadWeights {
  // Checked after this layer: 1..L-1; chained also 0, the embedding; layer 0 alone.
  int layer = 0;
  HeadKind kind = HeadKind::kFolded;
  Matrix map;           // full: W (dim, dim), F32 or F16; chained: A, layer: W (dim, 2 dim), Q8_0
  Matrix folded;        // folded: F (shortlist, dim), Q8_0
  Matrix inner, outer;  // chained: C (inner, 2 dim), D (dim, inner), Q8_0; n_out 0: none
  LayerWeights block;   // layer: wq, wk, wv, wo, w_gate, w_up, w_down, Q8_0; nothing else
  const float* norm = nullptr;  // layer: w (dim)
  // The chance that a draft is accepted, from its margin m = top1 - top2 of z / T + G
  // (calibrated on greedy margins, those of z alone):
  // 1 / (1 + exp(-(margin_scale m + margin_offset))).
  float margin_scale = 1, margin_offset = 0;
};

// general.architecture of a heads file.
inline constexpr const char* kHeadsArchitecture = "specbound-heads";

inline constexpr const char* kLearntKey = "specbound.learnt_tokens";
inline constexpr size_t kMostTextTokens = size_t{1} << 20;

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
  // Whether anything but text is there; where not, defaults() are of no use.
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
  HeadDefaults defaults_;
  int64_t learnt_ = 0;
};

// What goes into a file; see ExitHeads for the meaning. Owned values.
struct HeadTensor {
  int n_out = 0, n_in = 0;
  std::vector<float> values = {};       // (n_out, n_in)
  std::vector<std::byte> encoded = {};  // or, without `values`, as the file has them
};
struct NewHead {
  int layer = 0;
  HeadKind kind = HeadKind::kFolded;
  HeadTensor map, folded, inner, outer;
  HeadTensor q, k, v, o, gate, up, down, norm;  // layer
  float margin_scale = 1, margin_offset = 0;
};
struct NewHeads {
  HeadsBase base;
  std::vector<int32_t> shortlist = {};
  std::vector<NewHead> heads = {};
  std::vector<int32_t> text = {};  // at most kMostTextTokens
  HeadDefaults defaults = {};      // of a file with heads
  int64_t learnt = 0;              // tokens; 0: not told
};
// Q8_0 where ExitHeads reads Q8_0 (dim must be a multiple of 32), F16 for full maps. The file is
// whole or not there at all. Throws Error(kFile) when it cannot be written, Error(kFormat) when
// ExitHeads would refuse it: training that ended in values that are no numbers, among others.
void write_exit_heads(const std::string& path, const NewHeads& heads);
// The same file as bytes in memory; `name` is for messages.
std::vector<std::byte> exit_heads_file(const std::string& name, const NewHeads& heads);

// 16 hexadecimal digits over the model's tensor directory (names, types, shapes) and pages sampled
// evenly from its tensor data: hashing everything would kill the instant start.
std::string model_fingerprint(const Gguf& model);

HeadsBase heads_base(const Gguf& model, const ModelConfig& config);

}  // namespace specbound
