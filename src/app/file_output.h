// Small result files: whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace specbound {

// Throws Error(kFile) if `path` could not be written: asked before the work, not after it.
void check_writable(const std::string& path);

// A temporary file beside the target, renamed over it; symbolic links are followed, permissions
// kept. Devices and pipes are written to directly. Throws Error(kFile).
void write_file(const std::string& path, std::string_view text);

}  // namespace specbound
