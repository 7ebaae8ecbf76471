// What the views of a lens table share, and the table as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "error.h"
#include "json/json_writer.h"
#include "system/number_text.h"
#include "terminal/terminal_text.h"
#include "tools/lens.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

Json mark_name(LensMark mark) {
  switch (mark) {
    case LensMark::kWrong:
      return "wrong";
    case LensMark::kRight:
      return "right";
    case LensMark::kAfter:
      return "after";
    case LensMark::kNone:
      break;
  }
  return nullptr;
}

}  // namespace

std::string token_label(const LensView& view, int32_t token) {
  const std::string piece = view.piece(token);
  return piece.empty() ? format("<%d>", token) : visible_text(piece);
}

int percent(float share) {
  return share >= 0 ? static_cast<int>(std::min(99.0f, 100 * share)) : 0;  // 0 for NaN
}

std::string summary_line(const LensView& view) {
  const LensTable& table = view.table;
  const LensSummary summary = summarize(table);
  const size_t n = table.columns.size();
  std::string line = format("%zu token%s: %d leave%s right", n, n == 1 ? "" : "s", summary.right,
                            summary.right == 1 ? "s" : "");
  if (summary.mean_right_exit) line += format(" (mean layer %.1f)", *summary.mean_right_exit);
  line +=
      format(", %d wrong, %d nowhere | %s, ", summary.wrong, summary.nowhere, view.head.c_str());
  return line + annealing_text(table.params) + format(", tau %g", table.params.tau);
}

std::string lens_json(const LensView& view) {
  const LensTable& table = view.table;
  const LensSummary summary = summarize(table);
  Json json;
  json["model"] = view.model;
  json["n_layers"] = table.n_layers;
  json["head"] = view.head;
  const bool anneals = table.params.anneal && !table.params.learned;
  json["alpha"] = shortest_decimal(anneals ? table.params.alpha : 0);
  json["tau"] = shortest_decimal(table.params.tau);
  json["check_layers"] = table.check_layers;
  json["prompt_tokens"] = table.prompt_tokens;
  json["stop_reason"] = stop_reason_name(table.stop);
  json["exits"] = {
      {"right", summary.right}, {"wrong", summary.wrong}, {"nowhere", summary.nowhere}};
  json["mean_right_exit_layer"] = or_null(summary.mean_right_exit);
  json["agreement"] = summary.agreement;
  json["tokens"] = Json::array();
  for (const LensColumn& column : table.columns) {
    Json token;
    token["id"] = column.token();
    token["text"] = view.piece(column.token());
    token["exit_layer"] = column.exit_layer > 0 ? Json(column.exit_layer) : Json(nullptr);
    token["exit_right"] = column.exit_layer > 0 ? Json(column.exit_right) : Json(nullptr);
    token["layers"] = Json::array();
    for (const LensCell& cell : column.cells) {
      token["layers"].push_back({{"id", cell.token},
                                 {"text", view.piece(cell.token)},
                                 {"confidence", shortest_decimal(cell.confidence)},
                                 {"mark", mark_name(cell.mark)}});
    }
    json["tokens"].push_back(std::move(token));
  }
  return dump(json) + "\n";
}

}  // namespace specbound
