#include "repl/chat.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <utility>

#include "error.h"
#include "library/load_watcher.h"
#include "repl/commands.h"
#include "repl/tab_completion.h"
#include "runtime/saved_conversation.h"
#include "system/file_output.h"
#include "system/number_text.h"
#include "system/user_path.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/terminal_text.h"

namespace specbound {

namespace {

constexpr int kLensTokens = 8, kMostLensTokens = 256;

// For commands whose failure is told and forgotten.
template <class Action>
void attempt(Action action) {
  try {
    action();
  } catch (const Error& e) {
    say(e.what());
  }
}

// Throws Error(kFile) where a conversation must not be written: over anything else that is there.
void check_saveable(const std::string& path) {
  check_new_file(path);
  std::error_code ignored;
  if (std::filesystem::file_size(path, ignored) == 0 || !std::filesystem::exists(path, ignored)) {
    return;
  }
  try {
    read_saved_conversation(path);
  } catch (const Error&) {
    throw Error(ErrorCode::kFile,
                path +
                    ": this is no saved conversation, and is not written over: give another "
                    "name");
  }
}

// Drafts before any layer are no layer's: where all are, the paper's bounds.
SpecBoundParams lens_params(const Speculation& speculation) {
  if (speculation.head_layers().empty()) return {};
  SpecBoundParams params = speculation.params();
  std::erase(params.check_layers, 0);
  return params.check_layers.empty() ? SpecBoundParams() : params;
}

constexpr int kBarWidth = 32;

std::string bar(double share) {
  const int n = static_cast<int>(share * kBarWidth + 0.5);
  return std::string(static_cast<size_t>(std::clamp(n, 0, kBarWidth)), '#');
}

std::string row(const char* what, size_t at, double share, const std::string& figures) {
  return format("  %s %2zu  %-*s %s\n", what, at, kBarWidth, bar(share).c_str(), figures.c_str());
}

}  // namespace

std::string acceptance_histogram(const Counters& counters, const DraftPlaces& places) {
  if (counters.drafted_tokens == 0) return {};
  std::string out =
      format("accepted drafts by the layer they left at, of %d:\n", counters.accepted_tokens);
  for (size_t layer = 0; layer < counters.accepted_at.size(); ++layer) {
    const int n = counters.accepted_at[layer];
    if (n == 0) continue;
    const double share = static_cast<double>(n) / counters.accepted_tokens;
    out += row("layer", layer, share, format("%d (%.0f %%)", n, 100 * share));
  }
  out += "drafts that were right, by their place in the round:\n";
  for (size_t place = 0; place < places.drafted.size(); ++place) {
    const int drafted = places.drafted[place];
    const int right = place < places.accepted.size() ? places.accepted[place] : 0;
    const double share = drafted > 0 ? static_cast<double>(right) / drafted : 0;
    out +=
        row("place", place + 1, share, format("%d of %d (%.0f %%)", right, drafted, 100 * share));
  }
  return out;
}

Chat::Chat(LoadedModel& model, const ChatTemplate& chat_template, const ReplyOptions& options,
           const SamplingParams& sampling, const SpeculationOptions& given,
           Speculation& speculation, ChatParts parts)
    : model_(model),
      template_(chat_template),
      options_(options),
      speculation_(speculation),
      lens_(std::move(parts.lens)),
      learning_(parts.learning),
      session_(model.backend(), Sampler(sampling)),
      set_command_({session_, options_, speculation, given,
                    [&model](Grammar::Shared grammar) { return model.constrain(grammar); }},
                   std::move(parts.settings)),
      conversation_(model.tokenizer(), chat_template, options.system),
      output_(options) {
  session_.set_speculator(speculation_.speculator());
  output_.break_at_words();
}

bool Chat::handle(const std::string& line, bool quoted) {
  const IdleLearning::Work work(learning_);
  const ChatLine parts = quoted ? ChatLine{"", line} : split_line(line);
  const bool replaces = std::exchange(editing_, false);
  if (!parts.command.empty()) return command(parts.command, parts.rest) && output_.error() == 0;
  if (!trimmed(parts.rest).empty()) message(std::string(parts.rest), replaces);
  return output_.error() == 0;
}

bool Chat::command(std::string_view typed, std::string_view argument) {
  using enum ChatCommand::Argument;
  const ChatCommand* known = find_chat_command(typed);
  const std::string shown = printable(typed);
  const std::string_view name = known ? known->name : "";
  if (!known) {
    say("unknown command " + shown + "; /help lists them, //... sends a message");
  } else if (known->takes == kNone && !argument.empty()) {
    say(shown + " takes nothing after it; //... sends a message");
  } else if (known->takes == kNeeded && argument.empty()) {
    say(shown + " needs " + std::string(known->argument) + " after it");
  } else if (name == "/exit") {
    return false;
  } else if (name == "/help") {
    std::fputs(chat_help().c_str(), stderr);
  } else if (name == "/clear") {
    clear();
  } else if (name == "/regen") {
    regenerate();
  } else if (name == "/edit") {
    edit(argument);
  } else if (name == "/save") {
    attempt([&] { save(argument); });
  } else if (name == "/load") {
    attempt([&] { load(argument); });
  } else if (name == "/sys") {
    change_system(argument);
  } else if (name == "/show") {
    show();
  } else if (name == "/set") {
    attempt([&] { set(argument); });
  } else if (name == "/spec") {
    switch_speculation(argument);
  } else if (name == "/show-exits") {
    toggle_exits();
  } else if (name == "/stats") {
    show_stats();
  } else if (name == "/lens") {
    attempt([&] { show_lens(argument); });
  } else if (name == "/learn") {
    attempt([&] { learn(argument); });
  }
  return true;
}

// ---- the conversation ----

void Chat::message(std::string text, bool replaces) {
  const bool had_reply = conversation_.ends_with_reply();
  std::vector<ChatMessage> old;  // newest first
  ReplyNote note;
  if (replaces && had_reply) {
    old = {conversation_.remove_last(), conversation_.remove_last()};
    note = std::move(notes_.back());
    notes_.pop_back();
  }
  conversation_.add_user(std::move(text));
  const bool first = old.empty();
  if (answer(0, first ? "the message is forgotten" : "the message before it stays")) return;
  conversation_.remove_last();
  if (first) return;
  conversation_.add_user(std::move(old[1].content));
  conversation_.add_reply(std::move(old[0].content));
  notes_.push_back(std::move(note));
}

void Chat::clear() {
  conversation_.clear();
  notes_.clear();
  title_.clear();
  heard_from_ = 0;
  n_used_ = 0;
  say(std::string("conversation cleared") +
      (conversation_.system().empty() ? "" : ", system prompt kept"));
}

void Chat::regenerate() {
  if (!conversation_.ends_with_reply()) {
    say("nothing to answer again yet");
    return;
  }
  ChatMessage old = conversation_.remove_last();
  ReplyNote note = std::move(notes_.back());
  notes_.pop_back();
  if (answer(note.number + 1, "the reply before it stays")) return;
  conversation_.add_reply(std::move(old.content));
  notes_.push_back(std::move(note));
}

void Chat::edit(std::string_view text) {
  if (!conversation_.ends_with_reply()) {
    say("no message to change yet");
    return;
  }
  const auto messages = conversation_.messages();
  if (!text.empty()) {
    message(std::string(text), true);
  } else if (input_ && input_->prefill(message_line(messages[messages.size() - 2].content))) {
    editing_ = true;
  } else {
    say("nothing to edit in here: /edit TEXT sends TEXT in place of the last message");
  }
}

void Chat::save(std::string_view file) {
  const std::string path = home_expanded(file);
  if (conversation_.messages().empty()) throw Error(ErrorCode::kUsage, "nothing to save yet");
  check_saveable(path);
  write_file(path, saved_conversation_json(saved()));
  say(format("saved %zu messages to %s", conversation_.messages().size(),
             terminal_text(path).c_str()));
}

SavedConversation Chat::saved() const {
  SavedConversation saved;
  saved.system = conversation_.system();
  saved.changed = std::time(nullptr);
  size_t replies = 0;
  for (const ChatMessage& message : conversation_.messages()) {
    SavedMessage& kept = saved.messages.emplace_back();
    kept.role = message.role;
    kept.text = message.content;
    if (message.role != ChatMessage::Role::kAssistant) continue;
    kept.figures = notes_[replies].figures;
    kept.number = notes_[replies++].number;
  }
  saved.title = title_.empty() ? title_from(saved.messages[0].text) : title_;
  return saved;
}

SavedConversation Chat::learnt_from() const {
  SavedConversation heard = saved();
  auto& messages = heard.messages;
  const size_t before = std::min(heard_from_, messages.size());
  messages.erase(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(before));
  heard.title = messages.empty() ? "" : title_from(messages[0].text);
  return heard;
}

void Chat::load(std::string_view file) {
  const std::string path = home_expanded(file);
  SavedConversation saved = read_saved_conversation(path);
  conversation_.clear();
  conversation_.set_system(std::move(saved.system));
  notes_.clear();
  title_ = std::move(saved.title);
  n_used_ = 0;
  std::string unanswered;
  for (SavedMessage& message : saved.messages) {
    if (message.role == ChatMessage::Role::kAssistant) {
      conversation_.add_reply(std::move(message.text));
      notes_.push_back({std::move(message.figures), message.number});
    } else if (&message != &saved.messages.back()) {
      conversation_.add_user(std::move(message.text));
    } else {
      unanswered = std::move(message.text);
    }
  }
  heard_from_ = conversation_.messages().size();
  say(format("loaded %zu messages from %s%s", conversation_.messages().size(),
             terminal_text(path).c_str(),
             conversation_.system().empty() ? "" : ", with their system prompt"));
  if (unanswered.empty()) return;
  const bool edits = input_ && input_->prefill(message_line(unanswered));
  say(edits ? "the last one has no reply: here it is" : "the last one has no reply: left out");
}

void Chat::change_system(std::string_view text) {
  if (text.empty()) {
    const std::string& system = conversation_.system();
    std::fprintf(
        stderr, "%s\n",
        system.empty() ? "no system prompt" : ("system prompt: " + terminal_text(system)).c_str());
    return;
  }
  conversation_.set_system(text == "-" ? std::string() : std::string(text));
  say(text == "-" ? "no system prompt from the next reply on"
                  : "another system prompt from the next reply on");
}

// ---- settings ----

void Chat::show() {
  say(model_.description());
  say("backend: " + model_.backend().description());
  say(std::string("chat template: ") + template_.name());
  change_system("");
  std::fputs(set_command_.list().c_str(), stderr);
}

void Chat::set(std::string_view argument) {
  const size_t end = std::min(argument.find_first_of(" \t"), argument.size());
  const std::string_view name = argument.substr(0, end);
  const std::string_view value = trimmed(argument.substr(end));
  if (name.empty()) {
    std::fputs(set_command_.list().c_str(), stderr);
    return;
  }
  if (!value.empty()) set_command_.set(name, std::string(value));
  say(set_command_.show(name));
}

void Chat::switch_speculation(std::string_view to) {
  if (!to.empty() && to != "on" && to != "off") {
    say("/spec " + printable(to) + ": expected on or off, or nothing to see which");
    return;
  }
  if (!to.empty() && speculation_.set_active(to == "on")) {
    session_.set_speculator(speculation_.speculator());
  }
  say(speculation_.description());
}

void Chat::toggle_exits() {
  const bool on = !output_.shows_exits();
  if (output_.show_exits(on) != on) return;  // it said why
  say(on ? "tokens are coloured by the layer their drafts left at"
         : "tokens are no longer coloured");
}

// ---- what happened ----

void Chat::show_stats() {
  say(totals_line(totals_, n_used_, model_.n_ctx(), speculation_.active()));
  std::fputs(acceptance_histogram(totals_.speculative, totals_.places).c_str(), stderr);
}

void Chat::show_lens(std::string_view count) {
  const std::optional<int64_t> given = count.empty() ? kLensTokens : parse_int(count);
  if (!given || *given < 1 || *given > kMostLensTokens) {
    throw Error(ErrorCode::kUsage, format("/lens: expected a number of tokens from 1 to %d, found "
                                          "\"%s\"",
                                          kMostLensTokens, printable(count).c_str()));
  }
  // After an error there may be K and V of less.
  const int end =
      std::min(static_cast<int>(session_.tokens().size()) - 1, session_.backend().kv_len(1));
  const int from = std::max(session_.first_decoded(), end - static_cast<int>(*given));
  if (from >= end) throw Error(ErrorCode::kUsage, "no reply to look at yet");
  try {
    std::fputs(lens_(session_, lens_params(speculation_), from, end).c_str(), stderr);
  } catch (const Interrupted& e) {
    say(e.what());
  }
  clear_interrupt();
}

void Chat::learn(std::string_view to) {
  if (!to.empty() && to != "on" && to != "off") {
    throw Error(ErrorCode::kUsage, "/learn " + printable(to) +
                                       ": expected on or off, or nothing to see how far it is");
  }
  SB_CHECK(learning_);
  if (to == "on" && !learning_->active()) heard_from_ = conversation_.messages().size();
  say(to.empty() ? learning_->status() : learning_->set(to == "on"));
}

void Chat::take_learnt_heads() {
  const std::optional<HeadsNews> news = learning_ ? learning_->take_heads() : std::nullopt;
  if (!news) return;
  session_.set_speculator(speculation_.speculator());
  say(news->line);
}

// ---- replies ----

// Adds the reply with this number to the conversation. False, and nothing added, if there was none:
// the message does not fit or cannot be written for this model, a device has no memory left, or
// Ctrl-C came while the prompt was being read; then `otherwise` is said.
bool Chat::answer(uint32_t number, const char* otherwise) {
  take_learnt_heads();
  const auto first_piece = [this](int32_t, std::string_view piece) {
    return template_.reply_text(piece);
  };
  Reply reply;
  int dropped = 0;  // turns
  try {
    const Conversation::Prompt prompt =
        conversation_.prompt(model_.n_ctx(), reply_reserve(model_.n_ctx(), options_.n_predict));
    dropped = prompt.dropped_turns;
    if (dropped > 0) {
      say(format("context full: dropped the oldest %d turn%s%s", dropped, dropped == 1 ? "" : "s",
                 conversation_.system().empty() ? "" : ", kept the system prompt"));
    }
    ReplyRequest request;
    request.prompt = prompt.ids;
    request.reply = number;
    request.first_piece = first_piece;
    reply = show_reply(model_, session_, options_, std::move(request), speculation_.speculator(),
                       output_);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit && e.code() != ErrorCode::kUnsupported) throw;
    output_.break_off();
    clear_interrupt();
    say(e.what());
    conversation_.bring_back(dropped);
    unanswered_ = true;
    return false;
  }
  clear_interrupt();
  const GenerateStats& generated = reply.stats.generated;
  if (generated.stop == StopReason::kAborted && generated.generated_tokens == 0) {
    say(std::string("stopped before the reply began: ") + otherwise);
    output_.end_trace(generated);
    conversation_.bring_back(dropped);
    unanswered_ = true;
    return false;
  }
  output_.end_reply(generated);
  conversation_.add_reply(reply.text);
  notes_.push_back({stats_line(reply.stats), number});
  n_used_ = session_.tokens().size();
  name_heads(reply.stats, speculation_.heads());
  report(reply);
  if (!learning_) return true;
  attempt([&] {
    learning_->said(learnt_from());
    if (options_.quiet) return;
    const auto line = learning_->offer(" (not with --no-history)",
                                       "/learn on starts it, /learn off does not ask again.");
    if (line) say(*line);
  });
  return true;
}

void Chat::report(const Reply& reply) {
  totals_.add(reply.stats.generated);
  if (!options_.quiet) say("[" + stats_line(reply.stats) + "]");
  if (options_.stats_json.empty()) return;
  try {
    write_file(options_.stats_json, stats_json(reply.stats), false);  // until the next reply
  } catch (const Error& e) {  // no reason to end the conversation
    say("warning: " + std::string(e.what()));
  }
}

}  // namespace specbound
