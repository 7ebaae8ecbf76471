// Lines from a terminal, edited by libedit: history, Tab, wide characters, pasted text, and a
// window that changes its size. Prompt and line go to stderr, as all that is not text.
#pragma once

#include <memory>
#include <string>

#include "repl/line_input.h"
#include "repl/tab_completion.h"

namespace specbound {

// nullptr where lines cannot be edited: stdin or stderr is no terminal, or one that cannot move its
// cursor, or the system has no UTF-8 locale. `history`: a file; empty: none is kept. An orderly end
// (terminal/interrupt.h) is one of the input; what else ends the process leaves the terminal raw.
std::unique_ptr<LineInput> open_line_editor(const std::string& history, CompletionSource source);

}  // namespace specbound
