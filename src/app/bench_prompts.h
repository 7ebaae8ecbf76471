// What `bench --compare` decodes: a built-in set that is as varied as texts are, from dialogue to
// random bytes, where drafting has nothing to go by; or a file.
#pragma once

#include <string>
#include <vector>

namespace specbound {

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
