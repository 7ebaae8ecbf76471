// The replies to one request, on their way from the engine to its connection: whole characters, one
// reply after the other, thoughts and calls of tools apart from the text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/completion_request.h"
#include "server/job.h"
#include "server/reply_json.h"
#include "server/reply_parser.h"
#include "text/utf8.h"

namespace specbound::server {

class ReplyJob final : public Job {
 public:
  ReplyJob(CompletionRequest request, Prompt prompt)
      : request_(std::move(request)), prompt_(std::move(prompt)) {}

  const CompletionRequest& request() const { return request_; }

  struct News {
    std::vector<ReplyPart> parts;   // since the last call: one reply after the other
    bool over = false;              // nothing comes any more
    std::optional<ApiError> error;  // for which it is over
  };
  News take();

  Progress go_on(ServedModel& model, Metrics& metrics) override;
  void leave() override { reply_.reset(); }

 private:
  // A reply of them, with what it is told to. The engine's.
  struct Reply {
    explicit Reply(ReplyParser of) : parser(std::move(of)) {}

    Utf8Stream text;  // tokens may end inside a character
    ReplyParser parser;
    ServedModel::Listener listener;
    int newest = kNoDraft;  // the layer that drafted what came last
    std::unique_ptr<ReplyUnderWay> under_way;
  };
  Progress step(ServedModel& model, Metrics& metrics);
  std::string held_by() const;
  void begin_reply(ServedModel& model);
  bool end_reply(const ReplyStats& figures);
  ReplyParser parser_for(const ServedModel& model) const;
  void add_pieces(int index, ReplyPieces pieces, int exit_layer);
  void add_figures(int index, const ReplyStats& figures, bool cut);
  ReplyPart& part(int index, int exit_layer);

  const CompletionRequest request_;
  const Prompt prompt_;
  int number_ = 0;                       // the engine's: of the reply under way
  std::unique_ptr<Reply> reply_;         // likewise
  std::vector<TokenLogprobs> logprobs_;  // the engine's: they go out with the text behind them
  std::vector<std::string> ids_;         // the engine's: of the calls of the reply under way
  std::vector<ReplyPart> parts_;         // under the mutex
};

}  // namespace specbound::server
