// What each layer of a model has in mind for each token of a greedy reply, and where a draft would
// have left: the data of the paper's Figure 1 (2.1).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "decode/generate.h"
#include "drafters/exit_head.h"
#include "drafters/specbound.h"
#include "engine/backend.h"
#include "library/load_watcher.h"

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

// ---- the table as Figure 1 of the paper, for a terminal and as SVG, and as JSON for programs ----

struct LensView {
  const LensTable& table;
  std::string model;                          // its path
  std::string head;                           // ExitHead::name()
  std::function<std::string(int32_t)> piece;  // the bytes of a token, control tokens spelled out
};

// What a cell shows for a token: visible_text() of its bytes, or its number in <> if it has none.
std::string token_label(const LensView& view, int32_t token);
// A confidence as people read it: whole percent, rounded down, so that what is below a threshold
// looks so; at most 99.
int percent(float share);
// `16 tokens: 9 leave right (mean layer 6.2), 3 wrong, 4 nowhere | lens, alpha 0.2, tau 0.55`
std::string summary_line(const LensView& view);

struct TerminalStyle {
  int width = 80;  // columns of the terminal; blocks of tokens are cut to it
  bool colour = false;
};
// That of the stream `name`: COLUMNS, else the terminal's width, else 120.
TerminalStyle terminal_style(int fd, const char* name);
// Ends with a newline. The legend and the summary are not cut.
std::string lens_terminal(const LensView& view, const TerminalStyle& style);

// A whole SVG file without anything from elsewhere.
std::string lens_svg(const LensView& view);

// One JSON object on one line:
//   model, head           what was read, and with what
//   n_layers, check_layers, alpha (0: T = 1 at every layer), tau
//   prompt_tokens, stop_reason
//   exits                 {right, wrong, nowhere}: tokens by where their draft would leave
//   mean_right_exit_layer null without one
//   agreement             for each layer the share of tokens that are the last layer's
//   tokens                [{id, text, exit_layer, exit_right, layers}]; nowhere: null, null
//   its layers            [{id, text, confidence, mark}], from the first on; mark: null, "right",
//                         "wrong" or "after" (a right exit)
// Bytes of a text that are no UTF-8 become U+FFFD.
std::string lens_json(const LensView& view);

}  // namespace specbound
