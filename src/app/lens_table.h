// What each layer of a model has in mind for each token of a greedy reply, and where a draft would
// have left: the data of the paper's Figure 1 (2.1).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "decode/exit_head.h"
#include "decode/generate.h"
#include "decode/specbound.h"
#include "engine/backend.h"

namespace specbound {

enum class LensMark {
  kNone,
  kWrong,  // confident enough to leave, with another token than the last layer's
  kRight,  // the first exit with the last layer's token
  kAfter,  // any layer after that one
};

struct LensCell {
  int32_t token = 0;     // the layer's top token
  float confidence = 0;  // under the layer's annealed temperature (Eq. 1 and 2)
  LensMark mark = LensMark::kNone;
};

// One position of the text. A draft leaves at the first exit, right or wrong: `exit_layer`. After a
// wrong one later exits are marked all the same, as the figure does.
struct LensColumn {
  std::vector<LensCell> cells;  // [layer - 1]
  int exit_layer = 0;           // 0: nowhere
  bool exit_right = false;
  std::optional<int32_t> drawn;  // the text's token, where it was sampled

  int32_t token() const { return drawn.value_or(cells.back().token); }  // the text's own
};

struct LensTable {
  SpecBoundParams params;
  int n_layers = 0;
  int prompt_tokens = 0;
  std::vector<int> check_layers;    // that the bounds of `params` leave
  std::vector<LensColumn> columns;  // in the order of the text
  StopReason stop = StopReason::kLength;

  bool is_check_layer(int layer) const;
};

// Finds the exits of a column whose tokens and confidences are there.
void mark_exits(LensColumn& column, std::span<const int> check_layers, float tau);

struct LensRequest {
  std::span<const int32_t> prompt;
  int n_tokens = 16;                    // columns at most
  std::function<bool(int32_t)> is_end;  // the reply ends; its column is the last
  const std::atomic<bool>* abort = nullptr;
  std::function<void(int done, int total)> on_prefill;
  std::function<void(int done, int total)> on_column;
};

// Runs the model greedily, one layer at a time. `head` reads the layers below the last one, which
// speaks for itself. `params` must pass validate(). Throws Error(kLimit) for a prompt above n_ctx,
// Interrupted when aborted.
LensTable collect_lens(Backend& backend, ExitHead& head, const SpecBoundParams& params,
                       const LensRequest& request);

// The same for tokens of a session's newest reply, whatever wrote it: those behind the rows of
// positions [from, to), as Session::revisit() takes them. The session stays as it was. Throws
// Interrupted when aborted.
LensTable look_back(Session& session, const SpecBoundParams& params, int from, int to,
                    const std::atomic<bool>& abort);

struct LensSummary {
  int right = 0, wrong = 0, nowhere = 0;  // columns by their first exit
  std::optional<double> mean_right_exit;  // layer; none without right exits
  std::vector<double> agreement;          // [layer - 1]: share with the last layer's token
};
LensSummary summarize(const LensTable& table);

}  // namespace specbound
