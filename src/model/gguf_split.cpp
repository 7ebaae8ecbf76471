#include "model/gguf_split.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "error.h"

namespace specbound {
namespace {

constexpr uint64_t kMostParts = 99999;  // names have five digits

unsigned long long ull(uint64_t n) {
  return n;
}

// How many files the model lies in. Writers that cut nothing may say 0 or 1.
uint64_t split_count(const Gguf& gguf) {
  const uint64_t count = gguf.get_uint("split.count").value_or(1);
  if (count > kMostParts) {
    throw Error(ErrorCode::kFormat,
                format("%s: key 'split.count': expected at most %llu, found %llu",
                       gguf.path().c_str(), ull(kMostParts), ull(count)));
  }
  return count;
}

std::string name_ending(uint64_t no, uint64_t count) {
  return format("-%05llu-of-%05llu.gguf", ull(no + 1), ull(count));
}

// The path of file `to` from that of file `from`; none where that does not end as it should.
std::optional<std::string> sibling(const std::string& path, uint64_t from, uint64_t to,
                                   uint64_t count) {
  const std::string ending = name_ending(from, count);
  if (!path.ends_with(ending)) return std::nullopt;
  return path.substr(0, path.size() - ending.size()) + name_ending(to, count);
}

// A whole number that a file of the model must have, and have right.
void require_key(const Gguf& part, const char* key, uint64_t expected, const char* why) {
  const std::optional<uint64_t> found = part.get_uint(key);
  if (found == expected) return;
  throw Error(ErrorCode::kFormat,
              format("%s: key '%s': expected %llu, %s, found %s", part.path().c_str(), key,
                     ull(expected), why, found ? std::to_string(*found).c_str() : "no such key"));
}

}  // namespace

bool is_later_part(std::string_view name) {
  constexpr std::string_view kEnding = "-00000-of-00000.gguf";
  std::string digits_as_0(name);
  for (char& c : digits_as_0) c = c >= '1' && c <= '9' ? '0' : c;
  return digits_as_0.ends_with(kEnding) &&
         !name.substr(name.size() - kEnding.size()).starts_with("-00001-");
}

std::vector<std::string> files_of_model(const std::string& path) {
  const size_t digits = path.size() - std::min(path.size(), std::string_view("00000.gguf").size());
  uint64_t count = 0;
  std::from_chars(path.data() + digits, path.data() + path.size(), count);
  std::vector<std::string> files = {path};
  for (uint64_t i = 1; i < std::min(count, kMostParts + 1); ++i) {
    const auto next = sibling(path, 0, i, count);
    if (!next) break;
    files.push_back(*next);
  }
  return files;
}

Gguf open_parts(Gguf first) {
  const uint64_t count = split_count(first);
  if (count <= 1) return first;
  const uint64_t no = first.get_uint("split.no").value_or(0);
  if (no != 0) {
    const auto right = sibling(first.path(), no, 0, count);
    throw Error(
        ErrorCode::kUnsupported,
        format("%s: expected the first of the model's %llu files, found number %llu: open "
               "%s",
               first.path().c_str(), ull(count), ull(no + 1), right ? right->c_str() : "that one"));
  }
  const std::string path = first.path();
  std::vector<Gguf> parts;
  parts.push_back(std::move(first));
  for (uint64_t i = 1; i < count; ++i) {
    const auto next = sibling(path, 0, i, count);
    if (!next) {
      throw Error(
          ErrorCode::kFormat,
          format("%s: expected a name that ends in %s, by which the model's %llu files find "
                 "each other, found another",
                 path.c_str(), name_ending(0, count).c_str(), ull(count)));
    }
    try {
      parts.push_back(Gguf::open_file(*next));
    } catch (const Error& error) {
      throw Error(error.code(), format("%s (file %llu of %llu of the model)", error.what(),
                                       ull(i + 1), ull(count)));
    }
  }
  return join_parts(std::move(parts));
}

Gguf join_parts(std::vector<Gguf> parts) {
  SB_CHECK(!parts.empty());
  const std::optional<uint64_t> n_tensors = parts[0].get_uint("split.tensors.count");
  if (!n_tensors) {
    throw Error(ErrorCode::kFormat,
                format("%s: key 'split.tensors.count': expected the number of tensors in the "
                       "model's %zu files, found no such key",
                       parts[0].path().c_str(), parts.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    require_key(parts[i], "split.no", i, "its place among the model's files, from 0");
    require_key(parts[i], "split.count", parts.size(), "as in the model's first file");
    require_key(parts[i], "split.tensors.count", *n_tensors, "as in the model's first file");
  }
  Gguf model = std::move(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) model.append(std::move(parts[i]));
  if (model.tensors().size() != *n_tensors) {
    throw Error(
        ErrorCode::kFormat,
        format("%s: key 'split.tensors.count': expected %zu, as many as its %zu files hold, "
               "found %llu",
               model.path().c_str(), model.tensors().size(), parts.size(), ull(*n_tensors)));
  }
  return model;
}

}  // namespace specbound
