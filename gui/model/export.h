// A conversation as a file for other programs. No drawing.
#pragma once

#include <array>
#include <string>

#include "gui/model/conversation.h"

namespace specbound::gui {

enum class ExportFormat { kMarkdown, kText, kJson };
inline constexpr std::array<ExportFormat, 3> kExportFormats = {
    ExportFormat::kMarkdown, ExportFormat::kText, ExportFormat::kJson};

const char* format_name(ExportFormat format);  // "Markdown"

// UTF-8, whatever the replies' bytes are. JSON is what the program itself stores.
std::string export_text(const Conversation& conversation, ExportFormat format);

// A file name made of the title: "how-do-tides-work.md".
std::string export_name(const Conversation& conversation, ExportFormat format);

// Where files that a person asked for go: the documents folder if there is one, else the home
// folder, else the folder the program was started in.
std::string export_folder();

}  // namespace specbound::gui
