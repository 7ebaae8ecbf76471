// AppState's replies: what is asked, what comes of it, how it ends; and comparisons.
#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "error.h"
#include "gui/model/app_state.h"
#include "gui/model/conversation.h"
#include "runtime/reply_options.h"
#include "runtime/stats.h"

namespace specbound::gui {

namespace {

bool is_user(const Message& message) {
  return message.role == ChatMessage::Role::kUser;
}

// A message that was never answered and what is said now are one message: roles go in turn.
std::string joined(const std::string& unanswered, const std::string& text) {
  return unanswered + "\n\n" + text;
}

}  // namespace

std::optional<uint64_t> AppState::replying() const {
  if (!flight_ || flight_->conversation != conversation().id) return std::nullopt;
  return flight_->id;
}

void AppState::send(const std::string& text) {
  if (!can_send() || is_blank(text)) return;
  renew_seed();
  const std::vector<Message>& messages = conversation().messages;
  if (messages.empty() || !is_user(messages.back())) {
    ask(messages.size(), text, text, 0);
  } else {
    ask(messages.size() - 1, joined(messages.back().text, text), text, 0);
  }
}

void AppState::edit(size_t message, const std::string& text) {
  const std::vector<Message>& messages = conversation().messages;
  if (!can_send() || is_blank(text) || message >= messages.size()) return;
  if (!is_user(messages[message])) return;
  renew_seed();
  ask(message, text, text, 0);
}

void AppState::regenerate() {
  if (!can_regenerate()) return;
  const std::vector<Message>& messages = conversation().messages;
  const Message& last = messages.back();
  if (is_user(last)) {
    ask(messages.size(), "", std::nullopt, 0);
  } else {
    ask(messages.size() - 1, "", std::nullopt, last.number + 1);
  }
}

// Puts `message`, unless it is empty, and a reply in place of the messages from `first` on.
void AppState::ask(size_t first, const std::string& message, std::optional<std::string> typed,
                   uint32_t number) {
  bring_to_front(current_);
  Conversation& asked = conversation();
  std::vector<Message>& messages = asked.messages;
  const auto from = messages.begin() + static_cast<ptrdiff_t>(first);
  Flight flight;
  flight.id = next_reply_++;
  flight.conversation = asked.id;
  flight.first = first;
  flight.removed.assign(std::make_move_iterator(from), std::make_move_iterator(messages.end()));
  flight.typed = std::move(typed);
  flight.title = asked.title;
  flight.heard_from = asked.heard_from;
  flight.number = number;
  messages.erase(from, messages.end());
  forget(flight.removed);
  if (!message.empty()) {
    // What begins with a message that is not learnt from is not either.
    const bool unheard = flight.typed != message && asked.heard_from > first;
    asked.heard_from = unheard ? first + 2 : std::min(asked.heard_from, first);
    Message user;
    user.text = message;
    messages.push_back(std::move(user));
  }
  if (asked.title.empty()) asked.title = title_from(messages.front().text);
  asked.changed = std::time(nullptr);

  ReplyRequest request;
  request.id = flight.id;
  request.conversation = asked.id;
  request.messages = asked.prompt(messages.size());
  request.number = number;
  request.max_tokens = reply_budget_;
  request.heard_from = asked.heard_from;

  Message reply;
  reply.role = ChatMessage::Role::kAssistant;
  reply.number = number;
  reply.reply = flight.id;
  messages.push_back(std::move(reply));
  flight_ = std::move(flight);
  prompt_read_ = prompt_total_ = 0;
  stopping_ = false;
  worker_.reply(request);
  // Behind that, for a disk takes its time. A reply that is to be replaced stays in the file until
  // the new one is there.
  if (!message.empty()) save(asked);
}

void AppState::stop() {
  stopping_ = busy();
  worker_.stop();
}

// nullptr: nothing is under way, or its conversation has been deleted.
Message* AppState::message_under_way() {
  Conversation* asked = flight_ ? find(flight_->conversation) : nullptr;
  return asked ? &asked->messages.back() : nullptr;
}

void AppState::on(const ReplyBegan& event) {
  if (flight_ && event.id == flight_->id) flight_->seed = event.reply.seed;
  if (event.dropped_turns == 0) return;
  status_ = format("context full: dropped the oldest %d turn%s of what the model reads",
                   event.dropped_turns, event.dropped_turns == 1 ? "" : "s");
}

void AppState::on(const PromptRead& event) {
  prompt_read_ = event.done;
  prompt_total_ = event.total;
}

void AppState::on(const RoundDone& event) {
  if (flight_ && event.id == flight_->id) {
    Message* reply = message_under_way();
    if (!reply) return;
    const bool begins = reply->token_ends.empty() && !event.round.tokens.empty();
    for (const TokenRecord& token : event.round.tokens) {
      reply->text += token.text;
      reply->token_ends.push_back(reply->text.size());
    }
    // So far the file had what an edited message took away.
    if (begins && flight_->removed.size() > 1) save(*find(flight_->conversation));
  } else if (comparison_.running &&
             (event.id == comparison_.plain || event.id == comparison_.speculative)) {
    std::string& text =
        event.id == comparison_.plain ? comparison_.plain_text : comparison_.speculative_text;
    for (const TokenRecord& token : event.round.tokens) text += token.text;
  }
}

void AppState::on(const ReplyEnded& event) {
  const GenerateStats& stats = event.stats;
  if (!flight_ || event.id != flight_->id) return;
  ReplyStats figures;
  figures.generated = stats;
  figures.seed = flight_->seed;
  figures.reply = flight_->number;
  const bool nothing = stats.stop == StopReason::kAborted && stats.generated_tokens == 0;
  end_flight(nothing, stats_line(figures));
  status_ = nothing ? "stopped before the reply began" : "";
}

void AppState::on(const ReplyFailed& event) {
  if (comparison_.running &&
      (event.id == comparison_.plain || event.id == comparison_.speculative)) {
    comparison_.running = stopping_ = false;
    comparison_.error = told(event.message);
  } else if (flight_ && event.id == flight_->id) {
    add_error(event.message);
    const Message* reply = message_under_way();
    end_flight(!reply || reply->token_ends.empty(), "cut short: " + told(event.message));
  }
}

void AppState::end_flight(bool brought_nothing, const std::string& figures) {
  Conversation* asked = find(flight_->conversation);
  stopping_ = false;
  if (!asked) {
    live_.forget(flight_->id);
    flight_.reset();
    return;
  }
  if (brought_nothing) {
    undo(*asked);
  } else {
    asked->messages.back().figures = figures;
    for (const Message& removed : flight_->removed) live_.forget(removed.reply);
    flight_.reset();
  }
  asked->changed = std::time(nullptr);
  save(*asked);
}

// Back to before the reply was asked for.
void AppState::undo(Conversation& asked) {
  Flight flight = std::move(*flight_);
  flight_.reset();
  live_.forget(flight.id);
  asked.messages.resize(flight.first);
  std::ranges::move(flight.removed, std::back_inserter(asked.messages));
  asked.heard_from = flight.heard_from;
  if (asked.messages.empty()) {
    remove_file(asked);
    asked.title = flight.title;
  }
  if (flight.typed) returned_text = std::move(flight.typed);
}

// ---- comparison ----

void AppState::compare(const std::string& prompt) {
  if (!can_compare() || is_blank(prompt)) return;
  renew_seed();
  const std::vector<Message>& messages = conversation().messages;
  const bool unanswered = !messages.empty() && is_user(messages.back());
  ReplyRequest request;
  request.id = next_reply_;
  next_reply_ += 2;
  request.messages = conversation().prompt(messages.size() - (unanswered ? 1 : 0));
  request.messages.push_back(
      {ChatMessage::Role::kUser, unanswered ? joined(messages.back().text, prompt) : prompt});
  request.max_tokens = reply_budget_;
  live_.forget(comparison_.plain);
  live_.forget(comparison_.speculative);
  comparison_ = Comparison();
  comparison_.running = true;
  comparison_.prompt = prompt;
  comparison_.plain = request.id;
  comparison_.speculative = request.id + 1;
  prompt_read_ = prompt_total_ = 0;
  stopping_ = false;
  worker_.compare(request);
}

void AppState::on(const ComparisonEnded& event) {
  if (!comparison_.running) return;
  comparison_.running = stopping_ = false;
  if (!event.stopped) comparison_.result = event;
}

}  // namespace specbound::gui
