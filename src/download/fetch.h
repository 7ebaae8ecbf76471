// What is downloaded: a short text, or a file that may be large. A file grows beside its place as
// NAME.0123456789ab.part, named after its checksum, so that a download which was cut off goes on
// where it was and never on top of another version's bytes; it is renamed when its SHA-256 is
// right. Answers that may be better in a moment are asked for again, a bounded number of times.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace specbound {

// How to reach a server.
struct Server {
  std::string token;  // HttpRequest has what these are
  bool plain = false;
  int patience = 30;
};

struct FetchedFile {
  std::string url;
  std::string path;  // its folder is there
  uint64_t bytes = 0;
  std::string sha256;  // 64 digits in lower case
};

struct FetchWatcher {
  std::function<void(uint64_t done)> checked;   // bytes that an earlier try left, read again
  std::function<void(uint64_t done)> progress;  // bytes of the file that are there
  std::function<void(const std::string& line)> note;
  const std::atomic<bool>* abort = nullptr;
};

struct FetchedText {
  std::string text;
  std::string next;  // URL of the page behind it; empty: it is the last one
};

// Both are false when `abort` ended them. Throw Error: kFile for what the server refuses or the
// disk, kFormat for other bytes than expected, kLimit for a text longer than `most_bytes`,
// kUnsupported without libcurl.
bool fetch_text(const Server& server, const std::string& url, size_t most_bytes,
                const FetchWatcher& watcher, FetchedText& fetched);
bool fetch_file(const Server& server, const FetchedFile& file, const FetchWatcher& watcher);

// Bytes of it that an earlier try left.
uint64_t bytes_left_of(const FetchedFile& file);

std::string megabytes(uint64_t bytes);  // "12.3 MB"

}  // namespace specbound
