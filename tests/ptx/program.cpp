#include "ptx/program.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace ptx {

std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

namespace {

std::string first_name(const std::string& text, size_t at) {
  const auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  while (at < text.size() && !in_name(text[at])) ++at;
  size_t end = at;
  while (end < text.size() && in_name(text[end])) ++end;
  return text.substr(at, end - at);
}

void remove_comments(std::string& text) {
  for (size_t at; (at = text.find("//")) != text.npos;) {
    text.erase(at, text.find('\n', at) - at);
  }
}

}  // namespace

void Program::add(std::string text) {
  remove_comments(text);
  if (text.find(".version") == text.npos) throw TextError("no PTX: no .version");
  constexpr std::string_view kTarget = ".target sm_";
  const size_t target = text.find(kTarget);
  if (target == text.npos) throw TextError("no PTX: no .target");
  can_overlap_ |= std::atoi(text.c_str() + target + kTarget.size()) >= 90;
  constexpr std::string_view kShared = ".extern .shared", kEntry = ".entry";
  for (size_t at = 0; (at = text.find(kShared, at)) != text.npos; at += kShared.size()) {
    const size_t open = text.find('[', at);
    const size_t blank = text.rfind(' ', open);
    if (open == text.npos) throw TextError("shared memory without a size");
    shared_names_.push_back(first_name(text, blank));
  }
  size_t at = text.find(kEntry);
  while (at != text.npos) {
    at += kEntry.size();
    const size_t next = text.find(kEntry, at);
    // Up to the brace that ends it: what stands before the next .entry is nobody's.
    std::string own = text.substr(at, next - at);
    const std::string name = demangled(first_name(own, 0));
    if (!entries_.emplace(name, Entry{std::move(own), nullptr}).second) {
      throw TextError("a kernel twice: " + name);
    }
    at = next;
  }
}

const Kernel& Program::kernel(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw TextError("no kernel " + name);
  Entry& entry = found->second;
  if (entry.kernel == nullptr) {
    try {
      entry.kernel = parse_kernel(entry.text, shared_names_);
    } catch (const TextError& error) {
      throw TextError(name + ": " + error.what());
    }
  }
  return *entry.kernel;
}

std::vector<std::string> Program::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry.first);
  return names;
}

bool Program::report() const {
  size_t n = 0, n_ran = 0;
  std::string never;
  for (const auto& [name, entry] : entries_) {
    if (entry.kernel == nullptr) {
      never += "\n  never: " + name;
      continue;
    }
    const std::vector<bool>& ran = entry.kernel->ran;
    n += ran.size();
    n_ran += static_cast<size_t>(std::count(ran.begin(), ran.end(), true));
  }
  std::printf("PTX: of %zu kernels %zu instructions, of which %zu ran%s\n", entries_.size(), n,
              n_ran, never.c_str());
  return never.empty();
}

const std::string& Program::text(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw TextError("no kernel " + name);
  return found->second.text;
}

void Program::replace(const std::string& name, std::string text) {
  entries_.at(name) = {std::move(text), nullptr};
}

}  // namespace ptx
