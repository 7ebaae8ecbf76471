// What an engine does, cut by layer range, so that one decode loop can draft with shallow layers
// and verify with deep ones. docs/architecture.md 3.2, 4, 7.
//
// A row is one token position on its way through the layers. Its hidden state H[slot] is FP32 in
// memory at every layer boundary. Layers are numbered 1..L. kv_len(l) is the number of positions
// whose K/V exist at layer l, or that passed it by (skip_layers); it never grows with l.
//
// After an exception kv_len may count positions that were not finished: truncate() to what was
// there before.
//
// Exactness: the bits of a row depend only on its own inputs and on the K/V before it, never on how
// many rows ran with it, on its slot, or on the thread count.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "engine/row_paths.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "numerics/top_logits.h"

namespace specbound {

class Device;

inline constexpr int kPrefillChunk = 512;  // rows of one prefill pass

// The outcome of an exit check: what the head would say, and how sure it is.
struct ExitPeak {
  float confidence = 0;  // max softmax(z / temperature); a row of nothing but NaN and -inf has 0
  int32_t token = 0;     // argmax z, the lowest place of equals; an id of the vocabulary
};

// A draw that is left to the device: what the sampler's rule (decode/sampler.h) needs on the way
// from a row of logits to a token.
struct DrawRule {
  uint64_t seed = 0;
  uint32_t reply = 0;
  float temperature = 0;  // 0: greedy
  float repeat_penalty = 1;
  int32_t repeat_last_n = 0;
  bool filtered = false;  // top-k, top-p or min-p: the head of the row is wanted, the sampler draws
  bool weigh = false;     // ... with weights

  // Whether a draw depends on the text before its row, or on the row's place in it. Other draws may
  // be made after the rows of a tree.
  bool looks_back() const { return repeat_penalty != 1 || (temperature > 0 && !filtered); }
};
// Less than any confidence.
inline constexpr float kAnyConfidence = -std::numeric_limits<float>::infinity();

struct RowDraw {
  int32_t token = 0;
  double margin = 0;               // of the token over the second one
  const TopLogits* top = nullptr;  // where the rule filters, in place of the above
};

// What a backend that samples on its device adds: no logits need to come over. What `top` points to
// holds until the next draw.
class DeviceSampling {
 public:
  // draws[i]: the draw after row H[slot + i], by its logits. `text` is all tokens up to the last of
  // the n rows; a rule that does not look back needs none.
  virtual void draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
                    RowDraw* draws) = 0;
  // Backend::exit_check() and, where its confidence is at least `least`, the draw after that row by
  // the head's logits; else no draw. `text` ends with the row's token.
  virtual ExitPeak exit_draw(int head, int slot, float temperature, float least,
                             const DrawRule& rule, std::span<const int32_t> text,
                             std::optional<RowDraw>& draw) = 0;

 protected:
  ~DeviceSampling() = default;
};

// What tests, training, embeddings and `verify --bits` see of a backend's state.
class BackendInspection {
 public:
  virtual std::span<const float> hidden(int slot) const = 0;  // H[slot] (dim)
  // The K and V of one position (kv_dim each) as 16 bits a number, which differ where what is kept
  // does: FP16; of INT8 the number's, above them in turns the two bytes of its scale.
  virtual void read_kv(int layer, int pos, std::span<uint16_t> k, std::span<uint16_t> v) const = 0;

 protected:
  ~BackendInspection() = default;
};

// What a backend adds that keeps several texts, its sequences, each with K/V and kv_len of its own.
// docs/architecture.md 3.6. Rows of all of them share a pass; by section 4 nothing of a row changes
// with its company. Exit heads know the selected one alone.
class Sequences {
 public:
  virtual int n_sequences() const = 0;
  // The one that every call of Backend speaks of from now on; 0 at first. What exit heads know of
  // the text goes with the other one.
  virtual void select(int sequence) = 0;
  // K and V of the first n positions of sequence `from` become those of the selected one, another;
  // kv_len(l) = n for all l. 0 <= n <= every kv_len of `from`.
  virtual void copy_prefix(int from, int n) = 0;
  // Of any sequence the first n positions stay, at most: kv_len(l) = min(kv_len(l), n). The memory
  // behind them goes back to the system, where an engine takes memory as texts grow.
  virtual void cut(int sequence, int n) = 0;
  // Bytes that K and V of a sequence take so, in whole blocks of positions.
  virtual size_t kv_bytes(int sequence) const = 0;
  // What a sequence has in a pass that several share: n slots behind those of the part before. The
  // first row follows its text, which is a round's root to the others (engine/row_paths.h).
  struct Part {
    int sequence = 0;
    int n = 1;
    const RowPath* paths = nullptr;  // (n), slots counted from the part's first; nullptr: a chain
  };
  // H[0..) through all layers as the rows of these parts, at the kv_len of their sequences, which
  // grow by n: as run_layers(0, n, kv_len, 1, L) of each alone. 1 to kMaxRows rows in all, no
  // sequence twice. What was said by follow() does not count.
  virtual void run_side_by_side(std::span<const Part> parts) = 0;

 protected:
  ~Sequences() = default;
};

// What a backend adds that shows as many rows as a prefill has in a chunk between layers: what
// training looks at along texts. Rows of several sequences share the pass and have the bits that
// they have alone, as in Sequences::run_side_by_side(). What exit heads know of a text goes.
class ChunkRows {
 public:
  virtual int most_rows() const = 0;  // of a pass: kPrefillChunk, or less in a small context
  // The rows of a pass that a sequence has: `tokens` behind its text, at least one.
  struct Part {
    int sequence = 0;
    std::span<const int32_t> tokens;
  };
  // A pass begins: its rows, one part's behind another's, are the embeddings of these tokens. Up to
  // most_rows() in all, no sequence twice, each with the same kv_len at every layer.
  virtual void embed_chunk(std::span<const Part> parts) = 0;
  // They go through all layers that they have not seen, up to `to`.
  virtual void run_chunk(int to) = 0;
  // (dim) of one of them, until the next embed_chunk(), prefill() or prefill_rows().
  virtual std::span<const float> chunk_row(int row) const = 0;

 protected:
  ~ChunkRows() = default;
};

// What every backend does.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const ModelConfig& config() const = 0;
  virtual int n_ctx() const = 0;                // positions the K/V cache holds
  virtual std::string description() const = 0;  // one line: backend, kernels, threads, dtype
  // What timings hold for, apart from the model: "CPU (AVX-512 VNNI, 2 threads)".
  virtual std::string device() const = 0;
  // The first so many layers run elsewhere than the rest, and take another time; 0: all are alike.
  virtual int first_layers() const { return 0; }

  // H[slot] = embedding of `token`. 0 <= slot < kMaxRows, 0 <= token < vocab_size. The row follows
  // all slots before it,
  virtual void embed(int slot, int32_t token) = 0;
  // or, where this is said behind embed() or set_row(), row `parent` < slot (engine/row_paths.h).
  virtual void follow(int slot, int parent) = 0;
  // A row that is what no token is: H[slot] = `row` (dim), otherwise as embed().
  virtual void set_row(int slot, std::span<const float> row) = 0;

  // H[slot..slot+n) through layers from..to (1-based, inclusive); their K and V go to places
  // pos..pos+n-1 of the cache, which are their positions where they are straight. Needs kv_len(l)
  // == pos for those layers and pos + n <= n_ctx; sets kv_len(l) = pos + n.
  virtual void run_layers(int slot, int n, int pos, int from, int to) = 0;
  // H[slot..slot+n) passes layers from..to by: it stays as it is and leaves no K/V there. Otherwise
  // as run_layers(). For guesses by a model with layers left out: kv_len then counts positions
  // whose K/V do not exist, and truncate() to the first of them comes before any other row.
  virtual void skip_layers(int slot, int n, int pos, int from, int to) = 0;

  // out (n, vocab_size) = lm_head(norm(H[slot..slot+n))).
  virtual void logits(int slot, int n, float* out) = 0;

  // The confidence of an exit check: max softmax(z / temperature) of a row of logits (paper Eq. 2).
  // NaN counts as -inf; a row of nothing else has confidence 0.
  virtual float confidence(std::span<const float> z, float temperature) const = 0;

  // What exit_check() looks with from now on; nullptr: nothing. `heads` must outlive that. A check
  // reads the first `shortlist` tokens of the file's list (a multiple of 16 or all of it); tokens
  // of the text are those that come from now on. Throws Error(kLimit) when memory for them cannot
  // be had, Error(kUnsupported) where a GPU's FP16 numbers cannot hold a weight.
  virtual void set_exit_heads(const ExitHeads* heads, int shortlist) = 0;

  // Head `head` (an index into ExitHeads::heads()) looks at H[slot], which must have come to the
  // head's layer. Heads with a state (has_state()) read the one before `slot` and leave their own
  // after it; slots come in order. A draft layer keeps what came before slot 0 itself. A medusa
  // or hydra head guesses what follows the row by its depth, which must be less than it has heads,
  // and by the state before slot 0; hydra also by the tokens of the path.
  virtual ExitPeak exit_check(int head, int slot, float temperature) = 0;
  // Whether heads with a state say tokens of the text that the list lacks.
  virtual bool says_tokens_of_text() const { return false; }
  // Of the last check, until the next embed(): z, (vocab_size) for heads that say all, else (tokens
  // that the head may say),
  virtual std::span<const float> exit_logits() const = 0;
  // and these tokens: ids of the vocabulary, the shortlist's first; empty: places are ids.
  virtual std::span<const int32_t> exit_ids() const = 0;
  // The state before slot 0 becomes norm(H[slot]), a row that went through all layers: the row in
  // slot 0 of the next round follows it.
  virtual void keep_state(int slot) = 0;

  // All layers over `tokens` at positions kv_len.., in chunks of kPrefillChunk; no logits. Needs
  // the same kv_len at every layer. `progress(done)` after each chunk may return false to stop
  // early (kv_len then tells how far it came).
  virtual void prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int) = nullptr,
                       void* context = nullptr) = 0;

  // One chunk of a prefill, 1..kPrefillChunk tokens, whose rows go through the last layer to its
  // end, so that there are logits of them. K and V are those that prefill() leaves.
  virtual void prefill_rows(std::span<const int32_t> tokens) = 0;
  // out (n, vocab_size) = lm_head(norm(rows first..first+n-1 of the last prefill_rows())), if no
  // prefill() came after it. 1 <= n <= kMaxRows. H stays as it is.
  virtual void prefill_logits(int first, int n, float* out) = 0;

  virtual int kv_len(int layer) const = 0;
  // Of the round whose root is at `pos` this path stays: its K and V move to their positions at
  // every layer, and kv_len(l) = pos + depth + 1. All its rows have been through all layers, their
  // slots counted from the root's.
  virtual void keep_path(int pos, const RowPath& path) = 0;
  // kv_len(l) = min(kv_len(l), len) for all l.
  virtual void truncate(int len) = 0;
  // kv_len(l) = len for all l: takes a truncate() back. For who has run nothing since then, or only
  // the same rows at the same positions, so that K and V are what they were.
  virtual void restore(int len) = 0;

  // Waits until all that was asked for is done: a backend may return before that from anything that
  // gives no values back. For timing.
  virtual void wait() {}
  // The GPU it runs on, for what else is to run there; nullptr: none.
  virtual Device* gpu() { return nullptr; }

  // nullptr: it hands logits over, and the sampler draws.
  virtual DeviceSampling* device_sampling() { return nullptr; }
  bool samples_on_device() { return device_sampling() != nullptr; }
  // nullptr: it keeps one text.
  virtual Sequences* sequences() { return nullptr; }
  // nullptr: rows are seen between layers in slots alone.
  virtual ChunkRows* chunk_rows() { return nullptr; }
  virtual const BackendInspection& inspect() const = 0;
};

}  // namespace specbound
