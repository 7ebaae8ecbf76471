#include "gui/model/export.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "gui/model/conversation_store.h"
#include "gui/model/text_selection.h"

namespace specbound::gui {

namespace {

constexpr size_t kMaxNameBytes = 60;

// "> " in front of each line.
std::string as_quote(std::string_view text) {
  std::string result = "> ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "> ";
  }
  return result;
}

std::string to_markdown(const Conversation& conversation) {
  std::string text = "# " + conversation.title + "\n";
  if (!conversation.system.empty()) {
    text += "\n**System prompt**\n\n" + as_quote(conversation.system) + "\n";
  }
  for (const Message& message : conversation.messages) {
    const bool user = message.role == ChatMessage::Role::kUser;
    text += user ? "\n**You**\n\n" : "\n**Assistant**\n\n";
    text += message.text + "\n";
    if (!message.figures.empty()) text += "\n*" + message.figures + "*\n";
  }
  return text;
}

std::string to_text(const Conversation& conversation) {
  std::string text = conversation.title + "\n";
  if (!conversation.system.empty()) text += "\nSystem prompt:\n" + conversation.system + "\n";
  for (const Message& message : conversation.messages) {
    const bool user = message.role == ChatMessage::Role::kUser;
    text += std::string("\n") + (user ? "You" : "Assistant") + ":\n" + message.text + "\n";
  }
  return text;
}

const char* extension(ExportFormat format) {
  switch (format) {
    case ExportFormat::kMarkdown:
      return ".md";
    case ExportFormat::kText:
      return ".txt";
    case ExportFormat::kJson:
      break;
  }
  return ".json";
}

}  // namespace

const char* format_name(ExportFormat format) {
  switch (format) {
    case ExportFormat::kMarkdown:
      return "Markdown";
    case ExportFormat::kText:
      return "Text";
    case ExportFormat::kJson:
      break;
  }
  return "JSON";
}

std::string export_text(const Conversation& conversation, ExportFormat format) {
  switch (format) {
    case ExportFormat::kMarkdown:
      return clipboard_text(to_markdown(conversation));
    case ExportFormat::kText:
      return clipboard_text(to_text(conversation));
    case ExportFormat::kJson:
      break;
  }
  return conversation_json(conversation);
}

std::string export_name(const Conversation& conversation, ExportFormat format) {
  std::string name;
  for (const char c : conversation.title) {
    if (name.size() >= kMaxNameBytes) break;
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain) name += static_cast<char>(upper ? c - 'A' + 'a' : c);
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  while (name.ends_with('-')) name.pop_back();
  return (name.empty() ? "conversation" : name) + extension(format);
}

std::string export_folder() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
    const fs::path documents = fs::path(home) / "Documents";
    if (fs::is_directory(documents, error)) return documents.string();
    if (fs::is_directory(home, error)) return home;
  }
  return fs::current_path(error).string();
}

}  // namespace specbound::gui
