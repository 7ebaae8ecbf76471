#include "tools/lens.h"

#include <algorithm>

#include "decode/layer_guesses.h"
#include "error.h"
#include "library/load_watcher.h"
#include "numerics/float_mode.h"

namespace specbound {

namespace {

// Layer after layer on the last token of the round's text; what each would say next.
std::optional<std::vector<LensCell>> read_layers(Round& round, ExitHead& head, ExitHead& last_head,
                                                 const SpecBoundParams& params, int n_layers) {
  std::vector<LensCell> cells(n_layers);
  for (int l = 1; l <= n_layers; ++l) {
    if (!round.run(l, l)) return std::nullopt;
    ExitHead& reader = l == n_layers ? last_head : head;
    LensCell& cell = cells[l - 1];
    const float temperature = annealed_temperature(params, l, n_layers);
    const auto token = reader.check(round, l, temperature, [&](float p) {
      cell.confidence = p;
      return true;
    });
    cell.token = *token;
  }
  return cells;
}

}  // namespace

bool LensTable::is_check_layer(int layer) const {
  return std::binary_search(check_layers.begin(), check_layers.end(), layer);
}

void mark_exits(LensColumn& column, std::span<const int> check_layers, float tau) {
  for (const int layer : check_layers) {
    LensCell& cell = column.cells[layer - 1];
    if (!(cell.confidence >= tau)) continue;
    const bool right = cell.token == column.token();
    cell.mark = right ? LensMark::kRight : LensMark::kWrong;
    if (column.exit_layer == 0) {
      column.exit_layer = layer;
      column.exit_right = right;
    }
    if (!right) continue;
    for (size_t i = layer; i < column.cells.size(); ++i) column.cells[i].mark = LensMark::kAfter;
    return;
  }
}

LensTable collect_lens(Backend& backend, ExitHead& head, const SpecBoundParams& params,
                       const LensRequest& request) {
  const int n_layers = backend.config().n_layers;
  LensTable table;
  table.params = params;
  table.n_layers = n_layers;
  table.prompt_tokens = static_cast<int>(request.prompt.size());
  table.check_layers = bounded_check_layers(params, n_layers);

  // A reply of no tokens leaves the model where the first one begins.
  GenerateOptions prefill;
  prefill.max_tokens = 0;
  prefill.abort = request.abort;
  prefill.on_prefill = request.on_prefill;
  Session session(backend, Sampler(greedy_sampling()));
  if (session.generate(request.prompt, prefill).stop == StopReason::kAborted) {
    throw Interrupted("interrupted while reading the prompt");
  }

  const FloatMode mode;
  std::vector<int32_t> text(request.prompt.begin(), request.prompt.end());
  Round round(backend, session.sampler(), text);
  LensHead last_head;
  while (static_cast<int>(table.columns.size()) < request.n_tokens) {
    if (static_cast<int>(text.size()) > backend.n_ctx()) {
      table.stop = StopReason::kContext;
      break;
    }
    Round::Limits limits;
    limits.number = static_cast<int>(table.columns.size());
    limits.abort = request.abort;
    round.start(limits);
    auto cells = read_layers(round, head, last_head, params, n_layers);
    if (!cells) {
      throw Interrupted(
          format("interrupted after %zu of %d tokens", table.columns.size(), request.n_tokens));
    }
    LensColumn column;
    column.cells = std::move(*cells);
    mark_exits(column, table.check_layers, params.tau);
    round.commit(0, column.token());
    table.columns.push_back(std::move(column));
    const int done = static_cast<int>(table.columns.size());
    if (request.on_column) request.on_column(done, request.n_tokens);
    if (request.is_end && request.is_end(text.back())) {
      table.stop = StopReason::kEnd;
      break;
    }
  }
  return table;
}

LensTable look_back(Session& session, const SpecBoundParams& params, int from, int to,
                    const std::atomic<bool>& abort) {
  LensTable table;
  table.params = params;
  table.n_layers = session.backend().config().n_layers;
  table.prompt_tokens = from + 1;
  table.check_layers = bounded_check_layers(params, table.n_layers);
  const auto take = [&](int row, std::span<const LayerTop> layers) {
    LensColumn column;
    for (const LayerTop& top : layers) column.cells.push_back({top.token, top.probability});
    column.drawn = session.tokens()[row + 1];
    mark_exits(column, table.check_layers, params.tau);
    table.columns.push_back(std::move(column));
  };
  const auto temperature = [&](int layer) {
    return annealed_temperature(params, layer, table.n_layers);
  };
  if (!guess_layers(
          session, from, to, take, [&] { return !abort; }, temperature)) {
    throw Interrupted(
        format("interrupted after %zu of %d tokens", table.columns.size(), to - from));
  }
  return table;
}

LensSummary summarize(const LensTable& table) {
  LensSummary summary;
  summary.agreement.resize(table.n_layers);
  double exit_layers = 0;
  for (const LensColumn& column : table.columns) {
    if (column.exit_layer == 0) {
      ++summary.nowhere;
    } else if (column.exit_right) {
      ++summary.right;
      exit_layers += column.exit_layer;
    } else {
      ++summary.wrong;
    }
    for (int l = 1; l <= table.n_layers; ++l) {
      if (column.cells[l - 1].token == column.token()) ++summary.agreement[l - 1];
    }
  }
  if (summary.right > 0) summary.mean_right_exit = exit_layers / summary.right;
  if (!table.columns.empty()) {
    for (double& share : summary.agreement) share /= static_cast<double>(table.columns.size());
  }
  return summary;
}

}  // namespace specbound
