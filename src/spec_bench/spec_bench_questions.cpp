#include "spec_bench/spec_bench_questions.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "error.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxQuestionBytes = size_t{4} << 20;  // the longest of Spec-Bench has 13 KB
constexpr size_t kMaxQuestions = 100000;
constexpr size_t kMaxTurns = 64;

struct Category {
  const char* name;
  int task;
};
constexpr Category kCategories[] = {
    {"math_reasoning", 0}, {"writing", 1}, {"roleplay", 1},   {"reasoning", 1},
    {"math", 1},           {"coding", 1},  {"extraction", 1}, {"stem", 1},
    {"humanities", 1},     {"qa", 2},      {"rag", 3},        {"summarization", 4},
    {"translation", 5},
};

std::string category_names() {
  return joined(kCategories, ", ", [](const Category& category) { return category.name; });
}

// What stands at `key`, shortly, for an error.
std::string found(const Json& object, const char* key) {
  if (!object.contains(key)) return "none";
  if (object[key].is_structured()) return object[key].type_name();  // it may be deep
  return printable(object[key].dump(-1, ' ', true, Json::error_handler_t::replace));
}

SpecBenchQuestion parse_question(std::string_view line, const std::string& place) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kFormat, place + ": " + what);
  };
  const Json object = Json::parse(line, nullptr, false);
  if (object.is_discarded()) refuse("expected a JSON object, found \"" + printable(line) + "\"");
  if (!object.is_object()) {
    refuse(format("expected a JSON object, found %s", object.type_name()));
  }
  SpecBenchQuestion question;
  if (!object.contains("question_id") || !object["question_id"].is_number_integer() ||
      object["question_id"].get<int64_t>() < 0) {
    refuse("expected \"question_id\", a number from 0 on, found " + found(object, "question_id"));
  }
  question.id = object["question_id"].get<int64_t>();
  if (!object.contains("category") || !object["category"].is_string()) {
    refuse("expected \"category\", a text, found " + found(object, "category"));
  }
  question.category = object["category"].get<std::string>();
  if (question.task() < 0) {
    refuse(format("expected a \"category\" of Spec-Bench (%s), found \"%s\"",
                  category_names().c_str(), printable(question.category).c_str()));
  }
  const bool has_turns = object.contains("turns") && object["turns"].is_array();
  if (!has_turns || object["turns"].empty() || object["turns"].size() > kMaxTurns) {
    refuse(format("expected \"turns\", 1 to %zu texts, found %s", kMaxTurns,
                  found(object, "turns").c_str()));
  }
  for (const Json& turn : object["turns"]) {
    if (!turn.is_string()) refuse("expected \"turns\" of texts, found " + found(object, "turns"));
    question.turns.push_back(turn.get<std::string>());
  }
  return question;
}

}  // namespace

int spec_bench_task(std::string_view category) {
  for (const Category& c : kCategories) {
    if (category == c.name) return c.task;
  }
  return -1;
}

std::vector<SpecBenchQuestion> parse_questions(std::string_view text, const std::string& name) {
  std::vector<SpecBenchQuestion> questions;
  std::set<int64_t> ids;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::string place = format("%s, line %zu", name.c_str(), ++number);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (line.size() > kMaxQuestionBytes) {
      throw Error(ErrorCode::kLimit, format("%s: expected at most %zu MiB, found %zu bytes",
                                            place.c_str(), kMaxQuestionBytes >> 20, line.size()));
    }
    if (questions.size() == kMaxQuestions) {
      throw Error(ErrorCode::kLimit, format("%s: expected at most %zu questions, found more",
                                            place.c_str(), kMaxQuestions));
    }
    questions.push_back(parse_question(line, place));
    if (!ids.insert(questions.back().id).second) {
      throw Error(ErrorCode::kFormat,
                  format("%s: expected a \"question_id\" of its own, found %lld again",
                         place.c_str(), static_cast<long long>(questions.back().id)));
    }
  }
  if (questions.empty()) {
    throw Error(ErrorCode::kFormat,
                name + ": expected questions as Spec-Bench's question.jsonl has them, found none");
  }
  return questions;
}

std::vector<SpecBenchQuestion> spread_questions(const std::vector<SpecBenchQuestion>& questions,
                                                size_t n) {
  if (n >= questions.size()) return questions;
  std::array<std::vector<size_t>, kSpecBenchTaskCount> places;
  for (size_t i = 0; i < questions.size(); ++i) {
    places[static_cast<size_t>(questions[i].task())].push_back(i);
  }
  // One to each task that has more, in turn, until they are given away.
  std::array<size_t, kSpecBenchTaskCount> share{};
  for (size_t left = n; left > 0;) {
    for (size_t task = 0; task < places.size() && left > 0; ++task) {
      if (share[task] == places[task].size()) continue;
      ++share[task];
      --left;
    }
  }
  std::vector<size_t> taken;
  for (size_t task = 0; task < places.size(); ++task) {
    for (size_t k = 0; k < share[task]; ++k) {
      taken.push_back(places[task][k * places[task].size() / share[task]]);
    }
  }
  std::sort(taken.begin(), taken.end());
  std::vector<SpecBenchQuestion> out;
  for (const size_t i : taken) out.push_back(questions[i]);
  return out;
}

size_t cut_middle(std::vector<int32_t>& ids, size_t room) {
  SB_CHECK(room >= 1);
  if (ids.size() <= room) return 0;
  const size_t cut = ids.size() - room;
  const auto first = ids.begin() + static_cast<std::ptrdiff_t>(room - room / 2);
  ids.erase(first, first + static_cast<std::ptrdiff_t>(cut));
  return cut;
}

}  // namespace specbound
