// The replies to one request, on their way from the engine to its connection: whole characters, one
// reply after the other, thoughts and calls of tools apart from the text.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/completion_request.h"
#include "server/job.h"
#include "server/reply_json.h"
#include "server/reply_parser.h"

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

  bool make(ServedModel& model, Metrics& metrics) override;

 private:
  bool make_reply(int number, ServedModel& model, Metrics& metrics);
  ReplyParser parser_for(const ServedModel& model) const;
  void add_pieces(int index, ReplyPieces pieces, int exit_layer);
  void end_reply(int index, const ReplyStats& figures);
  ReplyPart& part(int index, int exit_layer);

  const CompletionRequest request_;
  const Prompt prompt_;
  std::vector<TokenLogprobs> logprobs_;  // the engine's: they go out with the text behind them
  int n_calls_ = 0;                      // the engine's: of the reply under way
  std::vector<ReplyPart> parts_;         // under the mutex
};

}  // namespace specbound::server
