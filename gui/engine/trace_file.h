// Reads a trace file for the window, on the engine's thread: it may hold hundreds of megabytes.
#pragma once

#include <atomic>
#include <string>

#include "gui/engine/messages.h"

namespace specbound::gui {

// TraceOpened or TraceRefused. Once `stop` is set it returns soon, with nothing of use.
EngineEvent open_trace(const std::string& path, const std::atomic<bool>& stop);

}  // namespace specbound::gui
