#include "gui/worker/model_learning.h"

#include <exception>
#include <utility>

#include "error.h"
#include "gui/worker/worker.h"
#include "runtime/saved_conversation.h"

namespace specbound::gui {

ModelLearning::ModelLearning(WorkerHost& host, const LoadRequest& request, LoadedModel& model,
                             Speculation& speculation)
    : host_(host),
      learning_(request.learning, request.model, request.speculation, model, speculation) {}

ModelLearning::~ModelLearning() {
  host_.set_learner(nullptr);
}

void ModelLearning::begin() {
  try {
    take_line(learning_.begin());
  } catch (const std::exception& e) {
    take_line(std::string("idle learning: ") + e.what());
  }
}

void ModelLearning::set(bool on) {
  asked_ = false;
  host_.set_learner(nullptr);
  try {
    take_line(learning_.set(on));
  } catch (const std::exception& e) {
    take_line(std::string("idle learning: ") + e.what());
  }
}

void ModelLearning::take_line(std::string line) {
  line_ = std::move(line);
  host_.set_learner(learning_.learner());
  if (!line_.empty()) host_.emit(Note{line_});
  tell();
}

void ModelLearning::tell() {
  Learning now;
  now.on = learning_.active();
  now.asked = asked_;
  now.cannot = learning_.cannot();
  now.about = learning_.about();
  now.status = line_.empty() ? learning_.status() : line_;
  if (now.on) {
    now.status = "idle " + learning_.learner()->status();  // where it lies is for a terminal
    now.share = learning_.learner()->share();
  }
  now.gained = gained_;
  if (now == told_) return;
  host_.emit(LearningChanged{now});
  told_ = std::move(now);
}

std::optional<std::string> ModelLearning::take_heads() {
  const std::optional<HeadsNews> news = learning_.take_heads();
  if (!news) return std::nullopt;
  if (news->drafting) gained_ = news->line;
  return news->line;
}

void ModelLearning::said(const ReplyRequest& request, const std::string& reply) {
  using Role = ChatMessage::Role;
  SavedConversation heard;
  size_t number = 0;
  for (const ChatMessage& message : request.messages) {
    if (message.role == Role::kSystem) {
      heard.system = message.content;
    } else if (number++ >= request.heard_from) {
      heard.messages.push_back({message.role, message.content});
    }
  }
  if (!heard.messages.empty() && heard.messages.front().role == Role::kUser) {
    heard.title = title_from(heard.messages.front().text);
    heard.messages.push_back({Role::kAssistant, reply});
    try {
      learning_.said(std::move(heard), request.conversation);
    } catch (const std::exception& e) {  // the reply is there all the same
      host_.emit(Note{e.what()});
    }
  }
  asked_ = asked_ || learning_.asks();
  tell();
}

}  // namespace specbound::gui
