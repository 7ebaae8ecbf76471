#include "server/reply_job.h"

#include <algorithm>
#include <iterator>

#include "server/random_text.h"
#include "text/utf8.h"

namespace specbound::server {

namespace {

constexpr size_t kIdSize = 9;  // of a call: what Mistral's templates take

}  // namespace

ReplyJob::News ReplyJob::take() {
  const std::lock_guard lock(mutex_);
  news_.clear();
  return {std::exchange(parts_, {}), over_, error_};
}

// Where text of reply `index` goes that this layer drafted.
ReplyPart& ReplyJob::part(int index, int exit_layer) {
  if (!request_.exits) exit_layer = kNoDraft;
  const bool goes_on = !parts_.empty() && parts_.back().index == index &&
                       (parts_.back().exit_layer == exit_layer || parts_.back().text.empty());
  if (!goes_on) parts_.push_back({.index = index});
  parts_.back().exit_layer = exit_layer;
  ReplyPart& newest = parts_.back();
  std::ranges::move(logprobs_, std::back_inserter(newest.logprobs));
  logprobs_.clear();
  return newest;
}

ReplyParser ReplyJob::parser_for(const ServedModel& model) const {
  ReplyParser::Options options;
  if (request_.chat) {
    const ToolRequest& tools = request_.conversation.tools;
    options.format = model.reply_format();
    options.splits_thoughts = request_.settings.split_thoughts;
    options.thinks = prompt_.thinks;
    options.tools = tools.tools;
    options.several = tools.parallel;
  }
  return ReplyParser(std::move(options));
}

void ReplyJob::add_pieces(int index, ReplyPieces pieces, int exit_layer) {
  if (pieces.text.empty() && pieces.thoughts.empty() && pieces.calls.empty()) return;
  const std::lock_guard lock(mutex_);
  ReplyPart& newest = part(index, exit_layer);
  newest.text += pieces.text;
  newest.thoughts += pieces.thoughts;
  for (CallText& call : pieces.calls) {
    newest.calls.push_back(
        {n_calls_++, random_text(kIdSize), std::move(call.name), std::move(call.arguments)});
  }
  news_.set();
}

void ReplyJob::end_reply(int index, const ReplyStats& figures) {
  const std::lock_guard lock(mutex_);
  ReplyPart& newest = part(index, kNoDraft);
  newest.figures = figures;
  newest.called = n_calls_ > 0;
  news_.set();
}

bool ReplyJob::make(ServedModel& model, Metrics& metrics) {
  for (int number = 0; number < request_.n; ++number) {
    if (!make_reply(number, model, metrics)) return false;
  }
  return true;
}

bool ReplyJob::make_reply(int number, ServedModel& model, Metrics& metrics) {
  Utf8Stream text;  // tokens may end inside a character
  ReplyParser parser = parser_for(model);
  n_calls_ = 0;
  ServedModel::Listener listener;
  int newest = kNoDraft;
  listener.on_text = [&](std::string_view bytes, int exit_layer) {
    newest = exit_layer;
    add_pieces(number, parser.push(text.push(bytes)), exit_layer);
  };
  listener.on_logprobs = [&](TokenLogprobs of) { logprobs_.push_back(std::move(of)); };
  const ReplyStats figures = model.reply(request_, number, prompt_, cancelled(), listener);
  metrics.count_reply(figures.generated);
  add_pieces(number, parser.push(text.finish()), newest);
  add_pieces(number, parser.finish(), newest);
  if (figures.generated.stop == StopReason::kAborted) return false;
  end_reply(number, figures);
  return true;
}

}  // namespace specbound::server
