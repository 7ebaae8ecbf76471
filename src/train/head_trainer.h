// Trains exit heads on cached features: least squares, then by AdamW KL to the model's own
// distribution, sharpened: that of its logits times `sharpen`. The base model is frozen.
// docs/architecture.md 6; paper 3.1 (AdamW, lr 3e-5, 20 epochs), AdaDecode for the loss, Tuned Lens
// (arXiv 2303.08112) for the map, EAGLE (arXiv 2401.15077) for chained heads, Medusa and Hydra for
// theirs (place_heads.h), EAGLE-3 for draft layers (layer_learning.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "corpus/features.h"
#include "error.h"
#include "model/exit_heads.h"
#include "train/calibration.h"

namespace specbound {

class HeadLearner;
struct LearningTask;

struct TrainOptions {
  std::vector<HeadKind> kinds = {HeadKind::kChained, HeadKind::kFolded};
  std::vector<int> layers;  // of the feature store; each kind takes the layers it can
  int deepest_chained = 2;  // chained heads at layers up to here: deeper, they gain little
  int inner = -1;           // inner size of chained heads; 0: linear, -1: the model's size
  bool quick = false;       // least squares and calibration only
  int epochs = 20;
  float learning_rate = 0;  // 0: rate_for() the model (adamw.h)
  float weight_decay = 0.01f;
  float sharpen = 1.5f;  // the final logits that heads learn from are multiplied by this
  float softcap = 0;     // the model's final_softcap
  int batch = 512;       // rows
  int unroll = 3;        // steps that a chained head or a layer runs on its own state in training
  int places = 4;        // behind the root, that medusa and hydra heads guess
  // Layers of the feature store that eagle3's states are of, and that a kangaroo stands behind.
  std::array<int, 3> states = {};
  int adapter_layer = 0;
  Matrix embedding = {};  // (vocab_size, dim), the model's; for hydra, eagle and eagle3 heads
  // What a draft layer has of the model: heads, rotation with the factors of its context (null:
  // none), and its last norm (dim) to begin with.
  const ModelConfig* config = nullptr;
  const float *rope_factors = nullptr, *output_norm = nullptr;
  int block_inner = 0;            // of its feed-forward; 0: twice the model's size
  double seconds = 0;             // of this run, after which it stops; 0: no limit
  std::function<double()> clock;  // seconds that count; none: those that pass
  uint64_t seed = 0;
  int threads = 0;                 // 0: one per core
  bool own_gemm = false;           // our own matrix products, even where OpenBLAS is installed
  std::string checkpoint;          // file that training goes on from after a kill; "": none
  double checkpoint_seconds = 30;  // how often it is written
  // What heads learn on in place of the CPU. Where it throws (a GPU without cuBLAS or with too
  // little memory), the CPU does it, and the reason is a warning.
  std::function<std::unique_ptr<HeadLearner>(const LearningTask&)> device_learner;
};

struct TrainProgress {
  const char* stage;  // "least squares", "training", "validation"
  double done;        // 0..1 of the stage
  double loss = 0;    // KL in nats a row, of the newest batches; mean over heads
  double tokens_x_layers_per_second = 0;
  std::string warning = {};     // what went wrong since the last call without ending the training
  std::string arithmetic = {};  // TrainedHeads::arithmetic
};

// What one head does on rows it has not learnt from.
struct HeadReport {
  HeadKind kind;
  int layer;
  double agreement = 0;  // top-1 with the final layer, of rows
  // Expected calibration error: T = 1, T_l, and `temperature`, which these rows ask for.
  double ece = 0, ece_annealed = 0, ece_learned = 0;
  float temperature = 1;
  std::vector<double> tau;          // thresholds
  std::vector<double> leaving;      // [tau] part of the rows with p >= tau
  std::vector<double> accepted;     // [tau] part of those whose draft is the target
  double kl_start = 0, kl_end = 0;  // nats a row: after least squares, after training
  // 1 - TV = sum of min(p, q) over the whole vocabulary, mean over rows at T = 1: what rejection
  // sampling accepts of its drafts (arXiv 2302.01318).
  double overlap = 0;
  std::vector<ReliabilityBin> bins, bins_annealed;
  // Chained and layers: agreement at the k-th row it drafts on its own state (kangaroo: on the
  // model's), the drafts before being right; medusa and hydra: of each place likewise. `agreement`
  // is that of the first.
  std::vector<double> depth_agreement;
  int64_t rows = 0;  // that all this is of
  // Passes over what was learnt: all, and those after which the head was as it is, being right less
  // often later; 0: all.
  double passes = 0, taken_after = 0;
};

struct TrainedHeads {
  NewHeads heads;
  std::vector<HeadReport> reports;                          // as heads.heads
  std::vector<std::pair<double, double>> loss_curve;        // (epoch, loss)
  std::vector<std::pair<double, double>> layer_loss_curve;  // of draft layers, likewise
  int64_t rows = 0, validation_rows = 0;
  double seconds = 0;
  double tokens_x_layers_per_second = 0;  // of the training
  std::string arithmetic;                 // what multiplied matrices
};

// Where rows come from, a chunk at a time.
struct FeatureSource {
  std::vector<int> layers;
  int dim = 0, n_chunks = 0;
  int64_t n_rows = 0;
  std::function<FeatureChunk(int chunk)> load;
  int64_t prompt_rows = 0;  // of n_rows
  int64_t held_rows = 0;    // that are learnt, of the last texts: what is to be validated on
};
FeatureSource feature_source(const FeatureStore& store);  // which must outlive it

// Steps were so large that the loss became no number.
class Diverged : public Error {
 public:
  explicit Diverged(const std::string& message) : Error(ErrorCode::kUsage, message) {}
};

// Heads of all kinds but draft layers learn first, and of `seconds` for a third where there are
// both; layers learn on the CPU alone, and see the rows of prompts.
// `lm_head` (vocab_size, dim) as floats. Heads of all kinds are validated on the same last rows:
// those that are held, a fifth at most, or where none are 5 %, at least one. Each head is taken
// from where it was right most often of (some of) these, from a third of the training on, so what
// its report says leans upward a little; where all have become worse for long, `epochs` are not
// used up. `progress`, told of every batch, may return false to stop: the checkpoint is written
// and what comes back has no heads. The same seed, features and machine give the same bytes,
// whatever the number of threads, and whether or not the training was killed on the way (unless
// `seconds` limits it). The checkpoint stays when training is over: it goes with the features. One
// that cannot be written is a warning, told once. Bytes made on a device are those of its kind;
// what one kind began the other may go on with. Throws Error(kUsage) for options or rows that
// leave nothing to train, Error(kFormat) for features that are no numbers, Diverged.
TrainedHeads train_heads(const FeatureSource& features, std::span<const float> lm_head,
                         std::span<const int32_t> shortlist, const HeadsBase& base,
                         const TrainOptions& options,
                         const std::function<bool(const TrainProgress&)>& progress);

}  // namespace specbound
