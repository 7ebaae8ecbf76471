// Results on their way to stdout, at once, whatever reads them.
#pragma once

#include <string_view>

namespace specbound {

// Writes and flushes. False if nobody reads any more: whoever closed the pipe knows, so it needs no
// words. Throws Error(kFile) for what else fails.
bool write_stdout(std::string_view text);

}  // namespace specbound
