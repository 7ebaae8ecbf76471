// The text of a trace as a recorder writes it: what tests of its readers begin with.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "chain_rows.h"
#include "process_state.h"
#include "system/file_output.h"
#include "temp_dir.h"
#include "trace/recorder.h"

namespace specbound::test {

// Lines in order: a header, then what is asked for.
class TraceText {
 public:
  explicit TraceText(int n_layers = 16) {
    TraceHeader header{"1.2.3", "m.gguf", n_layers, 97, 1000, "CPU"};
    recorder_.header(header, [](int32_t token) { return " t" + std::to_string(token); });
  }

  void reply(const TraceReply& settings) {
    recorder_.begin_reply(settings);
    round_ = 0;
    pos_ = 4;
  }
  // Of drafts that may leave at `check_layers`, in rounds of up to `w_max` rows.
  static TraceReply drafting(int w_max, std::vector<int> check_layers) {
    TraceReply reply = plain();
    reply.speculator = "specbound";
    reply.settings = TraceSettings{w_max, 10, 0.2f, 0.55f, std::move(check_layers)};
    return reply;
  }
  static TraceReply plain() {
    TraceReply reply;
    reply.top_p = 1;
    reply.repeat_penalty = 1;
    return reply;
  }
  void settings(const TraceReply& settings) { recorder_.settings(settings); }
  // Drafts that left at `exits`, the first `accepted` of which were right.
  void round(const std::vector<int>& exits, int accepted, DraftEnd end = DraftEnd::kDifficult) {
    const int n = static_cast<int>(exits.size()) + 1;
    const std::vector<ExitCheck> checks{{1, 0.25f}, {2, 0.5f}};
    std::vector<RowEvent> rows;
    std::vector<TokenEvent> tokens;
    for (int i = 0; i < n; ++i) {
      rows.push_back({10 + i, i + 1 < n ? exits[static_cast<size_t>(i)] : kNoDraft, checks});
    }
    make_chain(rows);
    for (int i = 0; i <= accepted; ++i) {
      const bool drafted = i + 1 < n;
      tokens.push_back({round_, n, i, pos_ + i + 1, i < accepted ? 11 + i : 50,
                        drafted ? 11 + i : -1, rows[static_cast<size_t>(i)].exit_layer, false,
                        checks});
    }
    const std::vector<LayerPass> passes{{1, 2, 0, n, Phase::kVerify}};
    recorder_.round({round_, pos_, end, rows, tokens, passes, {1, 2, 3, 4, 5}});
    ++round_;
    pos_ += accepted + 1;
  }
  // Two drafts behind the root, the second of them and the one behind that right.
  void tree_round() {
    const std::vector<RowEvent> rows{{10, 2, {}, -1, kNoDraft},
                                     {11, kNoDraft, {}, 0, 2},
                                     {12, 0, {}, 0, 0},
                                     {13, kNoDraft, {}, 2, 0}};
    const std::vector<TokenEvent> tokens{{round_, 4, 0, pos_ + 1, 12, 12, 0, false, {}},
                                         {round_, 4, 2, pos_ + 2, 13, 13, 0, false, {}},
                                         {round_, 4, 3, pos_ + 3, 50, -1, kNoDraft, false, {}}};
    recorder_.round({round_, pos_, DraftEnd::kWidth, rows, tokens, {}, {1, 2, 3, 4, 5}});
    ++round_;
    pos_ += 3;
  }
  void plain_round() { round({}, 0, DraftEnd::kPlain); }
  void end(const std::string& stop = "end") {
    TraceEnd end;
    end.stop = stop;
    recorder_.end_reply(end);
  }

  // Closes it.
  std::string text() {
    recorder_.close();
    return read_file(path_);
  }

 private:
  TempDir folder_;
  std::string path_ = folder_ / "t.jsonl";
  Recorder recorder_{path_, open_output(path_)};
  int round_ = 0, pos_ = 4;
};

}  // namespace specbound::test
