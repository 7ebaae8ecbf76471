#include "tools/prompt_sets.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "corpus/corpus.h"
#include "error.h"
#include "json/json_reader.h"
#include "system/text_input.h"

namespace specbound {

namespace {

constexpr size_t kMaxPrompts = 100000;
constexpr size_t kMaxPromptBytes = size_t{1} << 20;

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// Code points 1 to 255, the same every time.
std::string random_bytes(int n) {
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < n; ++i) {
    const auto c = static_cast<uint32_t>(1 + random() % 255);
    if (c >= 0x80) text += static_cast<char>(0xc0 | c >> 6);
    text += static_cast<char>(c < 0x80 ? c : 0x80 | (c & 0x3f));
  }
  return text;
}

BenchPrompt from_json(const std::string& line, const std::string& place) {
  const nlohmann::json json = parse_json(line, place);
  const JsonObject object(json, place);
  const std::optional<std::string> text = object.text("prompt");
  if (!text || text->empty()) {
    throw Error(ErrorCode::kFormat, place + ": expected \"prompt\", a text that is not empty");
  }
  return {object.text("name").value_or(""), *text};
}

}  // namespace

const std::vector<BenchPrompt>& builtin_bench_prompts() {
  static const std::vector<BenchPrompt> prompts = {
      {"booking", "I need a table for two tonight, somewhere in the centre that is not expensive."},
      {"smalltalk", "Hi! I had a long day. Can you tell me something nice?"},
      {"question", "What is the capital of Norway, and how far is it from Berlin?"},
      {"prose",
       "Once upon a time there was a little girl who lived at the edge of a forest. Every morning "
       "she took her basket, walked to the old mill by the river, and asked the miller the same "
       "question. One day he did not answer. So she"},
      {"summary",
       "Summarize in two sentences: The town council met on Tuesday to discuss the bridge. The "
       "engineers reported that two of its four pillars need repair before winter. Closing it "
       "would send all lorries through the old town for three months; leaving it open would limit "
       "them to one lane. After two hours the council voted, nine to four, to close the bridge in "
       "August and to run a free bus for the schools."},
      {"code",
       "Write a function that returns the n-th Fibonacci number.\n\ndef fibonacci(n):\n    if n < "
       "2:\n"},
      {"json",
       "Continue: [{\"city\": \"Oslo\", \"nights\": 3, \"guests\": [\"Ann\", \"Bo\"]}, {\"city\": "
       "\"Bergen\","},
      {"list", "List the planets with their diameters, one a line.\n1. Mercury, 4,879 km\n2."},
      {"numbers", "1, 1, 2, 3, 5, 8, 13, 21, 34, 55,"},
      {"german", "Für drei Nächte ein Zimmer mit Frühstück, bitte. Was kostet das im Mai?"},
      {"russian", "Сегодня утром шёл снег, и дети смеялись. Расскажи, что было дальше."},
      {"chinese", "图书馆今天关门了，我们去公园吧。公园里有什么？"},
      {"repetition", repeated("again and ", 40)},
      {"random bytes", random_bytes(160)},
  };
  return prompts;
}

const std::vector<std::string>& verify_prompts() {
  static const std::vector<std::string> prompts = {
      "I need a table for two tonight.",
      "What is the capital of Norway, and how far is it from Berlin?",
      "Write a function that adds two numbers.\n\ndef add(a, b):\n",
      "1, 1, 2, 3, 5, 8, 13, 21, 34, 55,",
      "a",
      "Für drei Nächte ein Zimmer mit Frühstück, bitte.",
      "Привет! Как дела?",
      "今日の天気は?",
      "🎵🎵🎸",
      "{\"city\": \"Oslo\", \"nights\": 3, \"guests\": [\"Ann\", \"Bo\"]}",
      "again and again and again and again and again and again and",
      "Once upon a time there was a little girl who lived at the edge of a forest. Every morning "
      "she took her basket, walked to the old mill by the river, and asked the miller the same "
      "question. One day he did not answer. So she",
  };
  return prompts;
}

std::vector<std::string> prompt_lines(std::string_view text, const std::string& name) {
  std::vector<std::string> prompts;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.size() > kMaxPromptBytes) {
      throw Error(ErrorCode::kLimit,
                  format("%s, line %zu: expected a prompt of at most %zu KiB, "
                         "found %zu bytes",
                         name.c_str(), number, kMaxPromptBytes >> 10, line.size()));
    }
    if (prompts.size() == kMaxPrompts) {
      throw Error(ErrorCode::kLimit, format("%s: expected at most %zu prompts, found more",
                                            name.c_str(), kMaxPrompts));
    }
    prompts.emplace_back(line);
  }
  if (prompts.empty()) {
    throw Error(ErrorCode::kUsage,
                format("%s: expected a prompt a line, found no text", name.c_str()));
  }
  return prompts;
}

std::vector<BenchPrompt> parse_bench_prompts(const std::string& bytes, const std::string& name) {
  const bool json = holds_json_lines(name, bytes).value_or(false);
  std::vector<BenchPrompt> prompts;
  for (const std::string& line : prompt_lines(bytes, name)) {
    const std::string number = format("prompt %zu", prompts.size() + 1);
    BenchPrompt prompt = json ? from_json(line, name + ", " + number) : BenchPrompt{"", line};
    if (prompt.name.empty()) prompt.name = number;
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

std::vector<BenchPrompt> bench_prompts(const std::string& path) {
  if (path.empty()) return builtin_bench_prompts();
  return parse_bench_prompts(read_bytes(path), path == "-" ? "stdin" : path);
}

}  // namespace specbound
