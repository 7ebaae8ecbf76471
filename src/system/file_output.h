// Files that results go to. What is stdout or stderr already, by whatever name (/dev/stdout, the
// file it was sent to), is written through them, so that nothing said there is lost; a model is
// never written over.
#pragma once

#include <string>
#include <string_view>

namespace specbound {

// Throws Error(kFile) if `path` could not be written: asked before the work, not after it.
void check_writable(const std::string& path);

// The same for a file that is renamed into its place once it is whole, as models are: devices and
// pipes are refused too.
void check_new_file(const std::string& path);

// The same where nothing is written over but an empty file and one that begins with `magic`, as
// those made before do; none: nothing at all.
void check_new_file(const std::string& path, std::string_view magic);

// From the root on. Throws Error(kFile) for a name in a current folder that was deleted.
std::string absolute_path(const std::string& path);

// Throws Error(kUsage) if two outputs name one file, where the later would replace the earlier, and
// as absolute_path() does. Empty names are none; devices and pipes take both.
void check_distinct(const std::string& a, const std::string& b);
// Throws Error(kUsage) when an output would go to what is read.
void check_not_read(const std::string& output, const std::string& input);

// What is written to `path` would come between what goes to stdout. Not so for /dev/null, nor where
// stderr goes there as well.
bool shares_stdout(const std::string& path);

// Opens `path` for what comes bit by bit, emptied. Throws Error(kFile).
int open_output(const std::string& path);

// Behind what the file has, which is made where there is none. Throws Error(kFile).
void append_file(const std::string& path, std::string_view text);

// Makes the folders that `path` lies in. Throws Error(kFile).
void make_folder_of(const std::string& path);

// A small file, whole or not at all, as NewFile has it (model/new_file.h). Devices and pipes are
// written to directly. Throws Error(kFile).
void write_file(const std::string& path, std::string_view text, bool lasting = true);

}  // namespace specbound
