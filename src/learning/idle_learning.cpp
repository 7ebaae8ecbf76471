#include "learning/idle_learning.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "engine/backend.h"
#include "error.h"
#include "system/file_output.h"
#include "system/machine.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

constexpr double kGiga = 1e9;
constexpr double kBesideModel = 5e8;  // bytes: texts, rows of hidden states and logits, code
// Bytes for each of dim x dim: 5 numbers of a chained head as floats, with gradient and two means,
// once more where a training goes on, and as they were when it was best. The equations that it
// begins with take no more.
constexpr double kOfHead = (4 + 4 + 1) * 5 * sizeof(float);

// `next` is `one` with more said, or with another last reply.
bool goes_on(const SavedConversation& one, const SavedConversation& next) {
  const size_t n = one.messages.size();
  return n <= next.messages.size() && one.system == next.system &&
         std::equal(one.messages.begin(), one.messages.begin() + static_cast<std::ptrdiff_t>(n) - 1,
                    next.messages.begin(), [](const SavedMessage& a, const SavedMessage& b) {
                      return a.role == b.role && a.text == b.text;
                    });
}

std::string why_never(const ModelOptions& model_options, const SpeculationOptions& given,
                      LoadedModel& model, const std::string& folder) {
  if (folder.empty()) return "no folder to keep it in: set HOME or XDG_DATA_HOME to one";
  if (model.backend().gpu()) return "only on the CPU: what runs on a GPU cannot be stopped at once";
  if (!model.find_chat_template()) return "the model has no chat template to be measured by";
  if (!model_options.chat_template_file.empty()) return "the chat template is a file's";
  if (model.config().n_layers < 2) return "the model has one layer";
  if (model.config().dim % 32 != 0) return "heads need hidden rows of a multiple of 32";
  if (!given.looks_up() || !given.draft_model.empty() || !given.head.empty()) {
    return "other drafts were asked for";
  }
  if (!given.heads.empty()) return "heads=" + given.heads + " was asked for";
  return "";
}

}  // namespace

double learning_bytes(const LoadedModel& model) {
  const double dim = model.config().dim;
  return static_cast<double>(model.bytes_on_cpu()) + kBesideModel +
         sizeof(float) * model.config().vocab_size * dim + kOfHead * dim * dim;
}

IdleLearning::IdleLearning(IdleLearningOptions options, const ModelOptions& model_options,
                           const SpeculationOptions& given, LoadedModel& model,
                           Speculation& speculation)
    : options_(std::move(options)),
      model_options_(model_options),
      model_(model),
      speculation_(speculation),
      folder_(learning_folder(model_fingerprint(model.gguf()))),
      cannot_(why_never(model_options, given, model, folder_)) {}

std::string IdleLearning::begin() {
  const bool answered =
      options_.mode == LearningMode::kAsk && read_learning_answer() == LearningAnswer::kOn;
  if (options_.mode != LearningMode::kOn && !answered) return "";
  if (cannot_.empty()) return start();
  return answered ? "" : "idle learning: " + cannot_;
}

std::string IdleLearning::set(bool on) {
  if (on && !cannot_.empty()) return "idle learning: " + cannot_;
  if (on) {
    keep_learning_answer(LearningAnswer::kOn);
    return active() ? status() : start();
  }
  learner_.reset();
  open_.clear();
  try {
    keep_learning_answer(LearningAnswer::kOff);
  } catch (const Error& e) {  // it ends all the same
    return std::string("idle learning is off, but not for later: ") + e.what();
  }
  return "idle learning is off; what was learnt still drafts, specbound forget deletes it";
}

std::string IdleLearning::status() const {
  if (learner_) return "idle " + learner_->status() + "; in " + folder_;
  return "idle learning is off" + (cannot_.empty() ? "" : ": " + cannot_);
}

bool IdleLearning::asks() {
  const bool may_ask = options_.mode == LearningMode::kAsk || options_.mode == LearningMode::kOffer;
  if (!may_ask || active() || !cannot_.empty()) return false;
  if (std::exchange(offered_, true)) return false;
  std::error_code error;
  if (fs::exists(speculation_.heads_path(), error) || !refusal(false).empty()) return false;
  if (read_learning_answer() != LearningAnswer::kNone) return false;
  try {
    keep_learning_answer(LearningAnswer::kOffered);
  } catch (const Error&) {
    return false;  // each chat would ask again
  }
  return true;
}

std::optional<std::string> IdleLearning::offer(const std::string& unless, const std::string& how) {
  if (!asks()) return {};
  return about(unless) + ' ' + how;
}

std::string IdleLearning::about(const std::string& unless) const {
  const std::string said = ", also from what is said from then on, which is kept for it" + unless;
  return format(
      "Replies can become faster: while nobody works with it, the model can learn to guess its own "
      "words%s. It takes no time from you, %.1f GB of memory, and up to 2 GB of disk in %s; "
      "nothing leaves this machine, no text changes, `specbound forget` deletes all of it.",
      options_.keeps_conversations ? said.c_str() : "", learning_bytes(model_) / kGiga,
      learning_home().c_str());
}

// Why not now; where it is `there` it has most of what it needs.
std::string IdleLearning::refusal(bool there) const {
  const auto free = static_cast<double>(read_memory_info().free_bytes());
  const double needed = there ? kBesideModel : learning_bytes(model_);
  if (free >= needed) return "";
  return format("not now: it takes %.1f GB of memory, %.1f GB are free", needed / kGiga,
                free / kGiga);
}

std::string IdleLearning::start() {
  make_learning_folder(folder_);
  std::optional<LearningLock> lock = LearningLock::take(folder_);
  if (!lock) return "idle learning: another chat, server or window learns for this model already";
  IdleLearnerOptions options;
  options.program = options_.program;
  options.folder = folder_;
  options.model = {"-m", absolute_path(model_.path()), "--device", "cpu"};
  const auto add = [&options](const char* flag, const std::string& value) {
    options.model.insert(options.model.end(), {flag, value});
  };
  add("--kv", kv_type_name(model_options_.device.kv));  // the environment may name another
  if (model_options_.n_threads > 0) add("-t", std::to_string(model_options_.n_threads));
  if (model_options_.n_ctx > 0) add("-c", std::to_string(model_options_.n_ctx));
  if (!model_options_.chat_template.empty()) add("--chat-template", model_options_.chat_template);
  options.questions = options_.questions;
  options.idle_seconds = options_.idle_seconds;
  options.minutes = options_.minutes;
  options.refusal = [this](bool there) { return refusal(there); };
  learner_ = std::make_shared<IdleLearner>(std::move(options), std::move(*lock));
  const std::string not_now = refusal(false);
  return not_now.empty() ? format("idle learning is on: it begins after %g s without work, in %s",
                                  options_.idle_seconds, folder_.c_str())
                         : "idle learning: " + not_now;
}

std::optional<HeadsNews> IdleLearning::take_heads() {
  if (!learner_ || !speculation_.takes_heads()) return {};  // they wait
  const std::optional<LearntHeads> news = learner_->take_news();
  if (!news) return {};
  try {
    ExitHeads heads = ExitHeads::open(news->path, model_.gguf(), model_.config());
    const long long learnt = heads.learnt();
    if (!heads.can_guess()) return {};
    speculation_.take_heads(std::move(heads));
    return HeadsNews{true, format("faster heads draft from now on: %.2fx plain decoding, %.2fx "
                                  "before (%s, %lld tokens learnt)",
                                  news->now, news->before, news->path.c_str(), learnt)};
  } catch (const std::exception& e) {
    return HeadsNews{false, std::string(e.what()) + ": these heads are not used"};
  }
}

void IdleLearning::said(SavedConversation conversation, const std::string& id) {
  if (!active() || !options_.keeps_conversations || conversation.messages.size() < 2) return;
  std::erase_if(open_, [&](const Open& one) { return goes_on(one.conversation, conversation); });
  open_.push_back({id, std::move(conversation)});
  if (open_.size() <= kMostOpen) return;
  const Open oldest = std::move(open_.front());
  open_.erase(open_.begin());  // also where it cannot be kept
  keep_for_learning(folder_, oldest.conversation);
}

void IdleLearning::forget(const std::string& id) {
  std::erase_if(open_, [&](const Open& one) { return one.id == id; });
}

IdleLearning::~IdleLearning() {
  for (const Open& one : open_) {
    try {
      keep_for_learning(folder_, one.conversation);
    } catch (...) {
      // It is not learnt from.
    }
  }
}

}  // namespace specbound
