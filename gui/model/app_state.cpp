#include "gui/model/app_state.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <variant>

#include "error.h"
#include "gui/model/conversation.h"
#include "gui/model/model_choices.h"
#include "gui/model/replay_player.h"
#include "library/model_path.h"
#include "runtime/reply_options.h"
#include "runtime/saved_conversation.h"

namespace specbound::gui {

namespace {

constexpr size_t kErrors = 20;  // kept at most

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool begins_as_gguf(const std::string& path) {
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == "GGUF";
}

}  // namespace

std::string told(const std::string& text) {
  constexpr size_t kMost = 2000;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

AppState::AppState(WorkerCommands& worker, ConversationStore& store, TraceModel& trace)
    : worker_(worker), store_(store), live_(trace) {
  std::vector<std::string> problems;
  conversations_ = store_.load(problems);
  for (Conversation& stored : conversations_) stored.heard_from = stored.messages.size();
  for (std::string& problem : problems) add_error(std::move(problem));
  conversations_.insert(conversations_.begin(), make_conversation());
}

// What was written of a reply stays, as where it is stopped, unless the file has one that it was to
// replace.
AppState::~AppState() {
  try {
    const Message* reply = message_under_way();
    if (!reply || reply->token_ends.empty()) return;
    const std::vector<Message>& messages = find(flight_->conversation)->messages;
    const bool replaces = messages.size() == flight_->first + 1 && !flight_->removed.empty();
    if (!replaces) end_flight(false, "cut short: the window was closed");
  } catch (...) {
    // Nobody is there to be told.
  }
}

void AppState::apply(const WorkerEvent& event) {
  live_.apply(event);
  std::visit([this](const auto& e) { on(e); }, event);
}

// ---- model ----

void AppState::load(const std::string& path) {
  LoadRequest request = launch_;
  request.model.model = path;
  // A heads file and a chat template belong to one model; the others have their own.
  if (path != launch_.model.model) {
    request.speculation.heads.clear();
    request.model.chat_template.clear();
  }
  model_state_ = ModelState::kLoading;
  model_path_ = path;
  load_label_ = "opening";
  load_share_ = 0;
  load_error_.clear();
  learning_ = Learning();
  hear_from_now();
  stopping_ = busy();
  worker_.load(request);
}

void AppState::on(const LoadProgress& event) {
  model_state_ = ModelState::kLoading;
  learning_ = Learning();  // of a model that was there for a moment
  load_label_ = event.label;
  load_share_ = event.share > 0 ? std::min(event.share, 1.0) : 0;  // NaN too
}

void AppState::on(const ModelLoaded& event) {
  model_state_ = ModelState::kReady;
  model_ = event.model;
  std::error_code ignored;
  put_in_front(recent_models_, is_model_name(model_path_)
                                   ? model_path_
                                   : std::filesystem::absolute(event.model.path, ignored).string());
  model_path_ = event.model.path;
  status_ = model_.drafting.description;
  drafting_pending_ = 0;
  drafting_refusal_.clear();
}

void AppState::on(const LoadFailed& event) {
  model_state_ = ModelState::kFailed;
  model_ = ModelInfo();
  load_error_ = told(event.message);
  drafting_pending_ = 0;
  drafting_refusal_.clear();
}

// ---- conversations ----

Conversation AppState::make_conversation() const {
  Conversation conversation;
  conversation.id = store_.new_id();
  conversation.changed = std::time(nullptr);
  return conversation;
}

Conversation* AppState::find(const std::string& id) {
  const auto found = std::ranges::find(conversations_, id, &Conversation::id);
  return found == conversations_.end() ? nullptr : &*found;
}

void AppState::select(size_t index) {
  if (replay_) close_replay();
  if (index < conversations_.size()) current_ = index;
}

void AppState::new_conversation() {
  if (replay_) close_replay();
  if (!conversations_.front().messages.empty()) {
    conversations_.insert(conversations_.begin(), make_conversation());
  }
  current_ = 0;
}

void AppState::remove(size_t index) {
  if (index >= conversations_.size()) return;
  const Conversation gone = std::move(conversations_[index]);
  conversations_.erase(conversations_.begin() + static_cast<ptrdiff_t>(index));
  if (conversations_.empty()) conversations_.push_back(make_conversation());
  if (index < current_) --current_;
  current_ = std::min(current_, conversations_.size() - 1);
  forget(gone.messages);
  if (flight_ && flight_->conversation == gone.id) stop();
  worker_.forget_conversation(gone.id);
  remove_file(gone);
}

void AppState::remove_file(const Conversation& conversation) {
  try {
    if (!store_.remove(conversation.id)) {
      add_error(told(conversation.title) +
                ": another window wrote to this conversation; its file stays");
    }
  } catch (const Error& e) {
    add_error(e.what());
  }
}

void AppState::rename(size_t index, const std::string& title) {
  if (index >= conversations_.size()) return;
  conversations_[index].title = title;
  save(conversations_[index]);
}

bool AppState::import_conversation(const std::string& path) {
  Conversation imported;
  try {
    imported = read_conversation(path);
  } catch (const std::exception& e) {
    add_error(e.what());
    return false;
  }
  if (replay_) close_replay();
  imported.id = store_.new_id();
  imported.changed = std::time(nullptr);
  imported.heard_from = imported.messages.size();
  conversations_.insert(conversations_.begin(), std::move(imported));
  current_ = 0;
  save(conversation());
  return true;
}

void AppState::set_system(const std::string& text) {
  conversation().system = is_blank(text) ? "" : text;
  save(conversation());
}

std::optional<std::pair<size_t, size_t>> AppState::find_reply(uint64_t reply) const {
  if (reply == 0) return std::nullopt;  // of a message from a file
  for (size_t c = 0; c < conversations_.size(); ++c) {
    const std::vector<Message>& messages = conversations_[c].messages;
    const auto found = std::ranges::find(messages, reply, &Message::reply);
    if (found != messages.end()) return std::pair(c, found - messages.begin());
  }
  return std::nullopt;
}

void AppState::bring_to_front(size_t index) {
  const auto begin = conversations_.begin();
  const std::string shown = conversation().id;
  std::rotate(begin, begin + static_cast<ptrdiff_t>(index),
              begin + static_cast<ptrdiff_t>(index) + 1);
  current_ = std::ranges::find(conversations_, shown, &Conversation::id) - begin;
}

// All but the reply under way, in whose place stands the one that it is to replace, and until it
// has a token all that an edited message takes away; a conversation in which nothing was said yet
// has no file.
void AppState::save(Conversation& conversation) {
  std::vector<Message>& messages = conversation.messages;
  if (messages.empty()) return;
  std::vector<Message> unsaved;
  size_t said = messages.size();
  if (flight_ && flight_->conversation == conversation.id) {
    const std::vector<Message>& removed = flight_->removed;
    const bool as_before =
        said == flight_->first + 1 || (removed.size() > 1 && messages.back().token_ends.empty());
    said = as_before ? flight_->first : said - 1;
    const auto from = messages.begin() + static_cast<ptrdiff_t>(said);
    unsaved.assign(std::make_move_iterator(from), std::make_move_iterator(messages.end()));
    messages.erase(from, messages.end());
    if (as_before) messages.insert(messages.end(), removed.begin(), removed.end());
  }
  try {
    if (store_.save(conversation)) {
      add_error(
          told(conversation.title) +
          ": another window wrote to this conversation; here it goes on in a file of its own");
    }
  } catch (const Error& e) {
    add_error(e.what());
  }
  messages.resize(said);
  std::ranges::move(unsaved, std::back_inserter(messages));
}

// The seen ones are gone: nothing of them is selected any more.
void AppState::forget(const std::vector<Message>& gone) {
  for (std::optional<TokenRef>* ref : {&selected, &hovered}) {
    const auto of_ref = [&](const Message& m) { return m.reply != 0 && m.reply == (*ref)->reply; };
    if (*ref && std::ranges::any_of(gone, of_ref)) ref->reset();
  }
}

// ---- settings ----

void AppState::set_sampling(const SamplingParams& params) {
  try {
    validate(params);
  } catch (const Error& e) {
    add_error(e.what());
    return;
  }
  sampling_ = params;
  worker_.set_sampling(params);
}

void AppState::renew_seed() {
  if (!random_seed_) return;
  SamplingOptions flags;
  flags.params = sampling_;
  set_sampling(flags.resolve());
}

void AppState::change_drafting(const DraftingChange& change) {
  ++drafting_pending_;
  worker_.set_drafting(change);
}

void AppState::on(const DraftingChanged& event) {
  drafting_pending_ = std::max(0, drafting_pending_ - 1);
  drafting_refusal_ = told(event.refusal);
  model_.drafting = event.drafting;
}

// Of the model that is there, not of one that makes room.
void AppState::on(const LearningChanged& event) {
  if (model_state_ == ModelState::kReady) learning_ = event.learning;
}

void AppState::on(const HeadsTaken& event) {
  model_.drafting = event.drafting;
  status_ = told(event.told);
}

void AppState::set_learning(bool on) {
  if (model_state_ != ModelState::kReady) return;
  learning_.asked = false;
  if (on) hear_from_now();
  worker_.set_learning(on);
}

// What was said before somebody agreed, or to another model, is not learnt from.
void AppState::hear_from_now() {
  for (Conversation& earlier : conversations_) earlier.heard_from = earlier.messages.size();
  if (flight_) flight_->heard_from = flight_->first + flight_->removed.size();
}

void AppState::set_guessing(bool on) {
  if (on == guessing_) return;
  guessing_ = on;
  worker_.set_guessing(on);
}

// ---- what is looked at ----

TraceModel& AppState::trace() const {
  return replay_ ? replay_->trace() : live_;
}

const Conversation& AppState::shown() const {
  return replay_ ? replay_->conversation() : conversation();
}

uint64_t AppState::focus_reply() const {
  if (comparison_.running && !replay_) {
    return live_.find(comparison_.speculative) ? comparison_.speculative : comparison_.plain;
  }
  const std::vector<Message>& messages = shown().messages;
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (message->reply != 0 && trace().find(message->reply)) return message->reply;
  }
  return 0;
}

void AppState::open_replay(const std::string& path) {
  opening_ = {path, told("opening " + printable(base_name(path)))};
  worker_.open_trace(path);
}

// An answer for another path is one that was overtaken on its way.
void AppState::on(const TraceOpened& event) {
  if (!opening_ || opening_->path != event.path) return;
  opening_.reset();
  try {
    replay_ = std::make_unique<ReplayPlayer>(event.trace, base_name(event.path));
  } catch (const std::exception& e) {
    add_error(e.what());
    return;
  }
  selected.reset();
  hovered.reset();
}

void AppState::on(const TraceRefused& event) {
  if (!opening_ || opening_->path != event.path) return;
  opening_.reset();
  add_error(event.message);
}

void AppState::close_replay() {
  replay_.reset();
  selected.reset();
  hovered.reset();
}

void AppState::select_in_map(const TokenRef& token) {
  selected = token;
  reveal_in_chat = true;
  if (replay_) return;
  if (const auto place = find_reply(token.reply)) select(place->first);
}

// ---- what happened ----

void AppState::open_file(const std::string& path) {
  std::error_code ignored;
  if (is_model_name(path)) {
    load(path);
  } else if (std::filesystem::exists(path, ignored) &&
             !std::filesystem::is_regular_file(path, ignored)) {
    // Opening a pipe would wait for its writer.
    add_error(printable(path) + ": expected a model, a trace or a conversation, found no file");
  } else if (path.ends_with(".json")) {
    import_conversation(path);
  } else if (path.ends_with(".gguf") || begins_as_gguf(path)) {
    load(path);
  } else {
    open_replay(path);
  }
}

void AppState::add_error(std::string line) {
  line = told(line);
  if (!errors.empty() && errors.back() == line) return;
  if (errors.size() == kErrors) errors.erase(errors.begin());
  errors.push_back(std::move(line));
}

}  // namespace specbound::gui
