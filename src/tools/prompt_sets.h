// The prompts of `verify` and of `bench --compare`: built-in sets that are as varied as texts are,
// to random bytes, where drafting has nothing to go by; or a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specbound {

// Questions, orders, code, numbers, other scripts, repetition, next to nothing.
const std::vector<std::string>& verify_prompts();

// A prompt a line; empty lines are none. `text` is `name`'s. Throws Error(kUsage) when no prompt is
// left, Error(kLimit) naming the line for one that is too long, or when there are too many.
std::vector<std::string> prompt_lines(std::string_view text, const std::string& name);

struct BenchPrompt {
  std::string name;  // for a line of a table: "code", "prompt 7"
  std::string text;
};

const std::vector<BenchPrompt>& builtin_bench_prompts();

// Of a file ("-": stdin), or the built-in set where `path` is empty: a prompt a line, or JSON lines
// (by the name's ending or the first character): objects with "prompt", a text, and perhaps "name".
// Throws Error(kUsage | kFile | kLimit | kFormat).
std::vector<BenchPrompt> bench_prompts(const std::string& path);
// The same of the contents of a file called `name`.
std::vector<BenchPrompt> parse_bench_prompts(const std::string& bytes, const std::string& name);

}  // namespace specbound
