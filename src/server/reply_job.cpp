#include "server/reply_job.h"

#include <algorithm>
#include <iterator>

#include "text/utf8.h"

namespace specbound::server {

ReplyJob::News ReplyJob::take() {
  const std::lock_guard lock(mutex_);
  news_.clear();
  return {std::exchange(parts_, {}), over_, error_};
}

ReplyPart& ReplyJob::part(int index) {
  if (parts_.empty() || parts_.back().index != index) parts_.push_back({.index = index});
  ReplyPart& newest = parts_.back();
  std::ranges::move(logprobs_, std::back_inserter(newest.logprobs));
  logprobs_.clear();
  return newest;
}

void ReplyJob::add_text(int index, std::string_view text) {
  if (text.empty()) return;
  const std::lock_guard lock(mutex_);
  part(index).text += text;
  news_.set();
}

void ReplyJob::end_reply(int index, const ReplyStats& figures) {
  const std::lock_guard lock(mutex_);
  part(index).figures = figures;
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
  ServedModel::Listener listener;
  listener.on_text = [&](std::string_view bytes) { add_text(number, text.push(bytes)); };
  listener.on_logprobs = [&](TokenLogprobs of) { logprobs_.push_back(std::move(of)); };
  const ReplyStats figures = model.reply(request_, number, prompt_, cancelled(), listener);
  metrics.count_reply(figures.generated);
  add_text(number, text.finish());
  if (figures.generated.stop == StopReason::kAborted) return false;
  end_reply(number, figures);
  return true;
}

}  // namespace specbound::server
