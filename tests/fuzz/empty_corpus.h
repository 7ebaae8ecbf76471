// Corpus folders that a fuzzer fills with seeds of its own.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>

namespace specbound::test {

// The first of libFuzzer's arguments that is an empty folder: the corpus that grows.
inline std::optional<std::filesystem::path> empty_corpus(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path = argv[i];
    if (std::filesystem::is_directory(path) && std::filesystem::is_empty(path)) return path;
  }
  return std::nullopt;
}

inline std::filesystem::path seed_path(const std::filesystem::path& corpus, int number) {
  return corpus / ("seed-" + std::to_string(number));
}

// Writes strings or vectors of bytes as files of the empty corpus, where there is one.
template <class Seeds>
void fill_empty_corpus(int argc, char** argv, const Seeds& seeds) {
  const std::optional<std::filesystem::path> corpus = empty_corpus(argc, argv);
  if (!corpus) return;
  int number = 0;
  for (const auto& seed : seeds) {
    const auto bytes = std::as_bytes(std::span(seed));
    std::ofstream out(seed_path(*corpus, number++), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace specbound::test
