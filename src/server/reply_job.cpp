#include "server/reply_job.h"

#include <algorithm>
#include <iterator>

#include "server/random_text.h"

namespace specbound::server {

namespace {

constexpr size_t kIdSize = 9;  // of a call: what Mistral's templates take

}  // namespace

ReplyJob::News ReplyJob::take() {
  const std::lock_guard lock(mutex_);
  news_.clear();
  return {std::exchange(parts_, {}), over_, std::exchange(error_, std::nullopt)};
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
    // What is held to a format has no thoughts before it, unless its grammar spells them.
    const ResponseFormat& held = request_.format;
    const bool json = !held.field.empty() && !held.gbnf;
    const bool ends_thoughts =
        held.gbnf && held.text.find(options.format.think_close) != std::string::npos;
    options.thinks = prompt_.thinks && (held.field.empty() || ends_thoughts);
    options.goes_on = request_.conversation.goes_on();
    options.tools = tools.tools;
    options.several = tools.parallel;
    // Held to calls of a syntax or to something else, a reply has none in another one. JSON that
    // is no call may be the answer: what it is shows at its end.
    const bool bare = options.format.syntax == CallSyntax::kJson;
    options.held = tools.held() && !(json && bare);
    options.at_front = json;
    if (tools.strict() || json) {
      using Bare = ReplyParser::Options::Bare;
      options.bare = bare ? Bare::kObject : Bare::kNone;
      if (bare) options.format.call_open = {};
    }
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
    if (call.goes_on && !newest.calls.empty()) {
      newest.calls.back().arguments += call.arguments;
      continue;
    }
    if (!call.goes_on) {
      // Results name it: the model may have numbered two calls alike.
      const bool known = std::ranges::count(ids_, call.id) > 0;
      if (call.id.empty() || known) call.id = random_text(kIdSize);
      ids_.push_back(call.id);
    }
    newest.calls.push_back({static_cast<int>(ids_.size()) - 1, std::move(call.id),
                            std::move(call.name), std::move(call.arguments), call.goes_on});
  }
  news_.set();
}

// `cut`: its last call is not whole.
void ReplyJob::add_figures(int index, const ReplyStats& figures, bool cut) {
  const std::lock_guard lock(mutex_);
  ReplyPart& newest = part(index, kNoDraft);
  newest.figures = figures;
  newest.called = !ids_.empty() && !cut;
  news_.set();
}

// The field that the replies are held by; empty: none.
std::string ReplyJob::held_by() const {
  if (!request_.format.field.empty()) return request_.format.field;
  return request_.chat && request_.conversation.tools.held() ? "tools" : "";
}

Job::Progress ReplyJob::go_on(ServedModel& model, Metrics& metrics) {
  try {
    return step(model, metrics);
  } catch (const Error& e) {
    // A grammar that compiles may still have texts that take too many ways to read, or that the
    // vocabulary has no tokens for.
    const std::string field = held_by();
    if (e.code() != ErrorCode::kUnsupported || field.empty()) throw;
    throw format_error(field, e);
  }
}

Job::Progress ReplyJob::step(ServedModel& model, Metrics& metrics) {
  if (!reply_) {
    begin_reply(model);
    return Progress::kGoesOn;
  }
  const std::optional<ReplyStats> figures = reply_->under_way->figures();
  if (!figures) return Progress::kGoesOn;
  metrics.count_reply(figures->generated);
  if (!end_reply(*figures)) return Progress::kCancelled;
  if (++number_ == request_.n) return Progress::kDone;
  begin_reply(model);
  return Progress::kGoesOn;
}

void ReplyJob::begin_reply(ServedModel& model) {
  ids_.clear();
  reply_ = std::make_unique<Reply>(parser_for(model));
  Reply& reply = *reply_;
  reply.listener.on_text = [this, &reply](std::string_view bytes, int exit_layer) {
    reply.newest = exit_layer;
    add_pieces(number_, reply.parser.push(reply.text.push(bytes)), exit_layer);
  };
  reply.listener.on_logprobs = [this](TokenLogprobs of) { logprobs_.push_back(std::move(of)); };
  reply.under_way = model.begin(request_, number_, prompt_, cancelled(), reply.listener);
}

// False: it was aborted.
bool ReplyJob::end_reply(const ReplyStats& figures) {
  const std::unique_ptr<Reply> reply = std::move(reply_);
  add_pieces(number_, reply->parser.push(reply->text.finish()), reply->newest);
  add_pieces(number_, reply->parser.finish(), reply->newest);
  if (figures.generated.stop == StopReason::kAborted) return false;
  add_figures(number_, figures, reply->parser.cut_off());
  return true;
}

}  // namespace specbound::server
