#include "spec_bench/spec_bench_answers.h"

#include <fcntl.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "error.h"
#include "json/json_writer.h"
#include "system/file_output.h"
#include "system/text_input.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

// FNV-1a.
uint64_t hash_bytes(std::string_view bytes, uint64_t hash = 0xcbf29ce484222325u) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

std::string hex(uint64_t hash) {
  return format("%016llx", static_cast<unsigned long long>(hash));
}

// Reads members of a line, naming the one that is not as expected.
class LineReading {
 public:
  LineReading(const Json& object, const std::string& place) : object_(object), place_(place) {}

  const Json& at(const char* key) const {
    if (!object_.is_object() || !object_.contains(key)) refuse(key);
    return object_[key];
  }
  std::string text(const char* key) const { return text(at(key), key); }
  std::string text(const Json& value, const char* key) const {
    if (!value.is_string()) refuse(key);
    return value.get<std::string>();
  }
  int64_t whole(const Json& value, const char* key, int64_t low, int64_t high) const {
    if (!value.is_number_integer()) refuse(key);
    const auto number = value.get<int64_t>();
    if (number < low || number > high) refuse(key);
    return number;
  }
  double seconds(const Json& value, const char* key) const {
    if (!value.is_number()) refuse(key);
    const auto number = value.get<double>();
    // What a clock shows: of anything else, rates and their ratios may be no numbers.
    if (number != 0 && !(number > 1e-12 && number < 1e12)) refuse(key);
    return number;
  }
  uint64_t hash(const Json& value, const char* key) const {
    const std::string digits = text(value, key);
    if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != digits.npos) {
      refuse(key);
    }
    return std::stoull(digits, nullptr, 16);
  }
  // An array of `n` values; 0: of any number.
  const Json& list(const char* key, size_t n = 0) const {
    const Json& value = at(key);
    if (!value.is_array() || (n > 0 && value.size() != n)) refuse(key);
    return value;
  }
  [[noreturn]] void refuse(const char* what) const {
    throw Error(ErrorCode::kFormat,
                format("%s: expected an answer as specbound spec-bench writes it, found something "
                       "else at \"%s\": name another folder with --out, or give --fresh",
                       place_.c_str(), what));
  }

 private:
  const Json& object_;
  const std::string& place_;
};

constexpr int64_t kMostTokens = 1 << 30;
// Of a turn, as -n has it: sums over turns stay an int.
constexpr int64_t kMostNewTokens = 1 << 24;

std::vector<SpecBenchTurn> parse_turns(const Json& choice, const std::string& place) {
  const LineReading reading(choice, place);
  const Json& texts = reading.list("turns");
  const size_t n = texts.size();
  if (n == 0) reading.refuse("turns");
  const Json& lengths = reading.list("accept_lengths");
  std::vector<SpecBenchTurn> turns(n);
  size_t step = 0;
  for (size_t i = 0; i < n; ++i) {
    SpecBenchTurn& turn = turns[i];
    const auto whole = [&](const char* key) {
      return reading.whole(reading.list(key, n)[i], key, 0, kMostTokens);
    };
    const auto seconds = [&](const char* key) {
      return reading.seconds(reading.list(key, n)[i], key);
    };
    turn.text = reading.text(texts[i], "turns");
    const auto steps = static_cast<size_t>(whole("decoding_steps"));
    if (steps > lengths.size() - step) reading.refuse("accept_lengths");
    int64_t tokens = 0;
    for (const size_t end = step + steps; step < end; ++step) {
      tokens += reading.whole(lengths[step], "accept_lengths", 1, kMostNewTokens - tokens);
      turn.step_tokens.push_back(lengths[step].get<int>());
    }
    if (tokens != whole("new_tokens")) reading.refuse("new_tokens");
    turn.prompt_tokens = static_cast<int>(whole("prompt_tokens"));
    turn.cut_tokens = static_cast<int>(whole("cut_tokens"));
    turn.drafted_tokens = static_cast<int>(whole("drafted_tokens"));
    turn.wall_seconds = seconds("wall_time");
    turn.prefill_seconds = seconds("prefill_time");
    turn.ttft_seconds = seconds("ttft");
    turn.draft_seconds = seconds("draft_time");
    turn.token_hash = reading.hash(reading.list("token_hash", n)[i], "token_hash");
  }
  if (step != lengths.size()) reading.refuse("accept_lengths");
  return turns;
}

// Whether the first line may be one of answer_line(): of the last one a run that was killed leaves
// a part.
bool is_own(std::string_view text) {
  constexpr std::string_view kBegin = "{\"question_id\":", kLater = "\"answer_id\":";
  constexpr size_t kByThen = 200;
  const std::string_view line = text.substr(0, text.find('\n'));
  const bool part = line.size() == text.size() && line.size() < kByThen;
  return line.substr(0, kBegin.size()) == kBegin.substr(0, line.size()) &&
         (part || line.find(kLater) != line.npos);
}

}  // namespace

int SpecBenchTurn::new_tokens() const {
  return std::accumulate(step_tokens.begin(), step_tokens.end(), 0);
}

double SpecBenchAnswer::wall_seconds() const {
  double sum = 0;
  for (const SpecBenchTurn& turn : turns) sum += turn.wall_seconds;
  return sum;
}

int SpecBenchAnswer::new_tokens() const {
  int sum = 0;
  for (const SpecBenchTurn& turn : turns) sum += turn.new_tokens();
  return sum;
}

uint64_t question_hash(const SpecBenchQuestion& question) {
  uint64_t hash = hash_bytes(question.category);
  for (const std::string& turn : question.turns) {
    hash = hash_bytes(turn, hash_bytes(format("\n%zu\n", turn.size()), hash));
  }
  return hash;
}

uint64_t token_hash(std::span<const int32_t> tokens) {
  return hash_bytes({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

std::string answer_line(const SpecBenchAnswer& answer, const SpecBenchSource& source) {
  Json choice = {{"index", 0}};
  const char* const kLists[] = {"turns",          "decoding_steps", "new_tokens", "wall_time",
                                "accept_lengths", "prompt_tokens",  "cut_tokens", "drafted_tokens",
                                "prefill_time",   "ttft",           "draft_time", "token_hash"};
  for (const char* key : kLists) choice[key] = Json::array();
  for (const SpecBenchTurn& turn : answer.turns) {
    choice["turns"].push_back(turn.text);
    choice["decoding_steps"].push_back(turn.steps());
    choice["new_tokens"].push_back(turn.new_tokens());
    choice["wall_time"].push_back(turn.wall_seconds);
    for (const int n : turn.step_tokens) choice["accept_lengths"].push_back(n);
    choice["prompt_tokens"].push_back(turn.prompt_tokens);
    choice["cut_tokens"].push_back(turn.cut_tokens);
    choice["drafted_tokens"].push_back(turn.drafted_tokens);
    choice["prefill_time"].push_back(turn.prefill_seconds);
    choice["ttft"].push_back(turn.ttft_seconds);
    choice["draft_time"].push_back(turn.draft_seconds);
    choice["token_hash"].push_back(hex(turn.token_hash));
  }
  const uint64_t id =
      hash_bytes(format("%lld %.6f", static_cast<long long>(answer.question_id), answer.tstamp),
                 hash_bytes(source.name + source.settings));
  const Json line = {{"question_id", answer.question_id},
                     {"category", answer.category},
                     {"answer_id", hex(id)},
                     {"model_id", source.model_id},
                     {"choices", Json::array({std::move(choice)})},
                     {"tstamp", answer.tstamp},
                     {"question_hash", hex(answer.question_hash)},
                     {"settings", source.settings}};
  return dump(line) + "\n";
}

SpecBenchAnswer parse_answer(std::string_view line, const SpecBenchSource& source,
                             const std::string& place) {
  const Json object = Json::parse(line, nullptr, false);
  const LineReading reading(object, place);
  SpecBenchAnswer answer;
  answer.question_id = reading.whole(reading.at("question_id"), "question_id", 0, INT64_MAX);
  answer.category = reading.text("category");
  const std::string settings = reading.text("settings");
  if (settings != source.settings) {
    throw Error(ErrorCode::kUsage,
                format("%s: expected answers under these settings (%s), found others (%s): name "
                       "another folder with --out, or give --fresh",
                       place.c_str(), source.settings.c_str(), settings.substr(0, 1000).c_str()));
  }
  answer.question_hash = reading.hash(reading.at("question_hash"), "question_hash");
  answer.tstamp = reading.seconds(reading.at("tstamp"), "tstamp");
  answer.turns = parse_turns(reading.list("choices", 1)[0], place);
  return answer;
}

SpecBenchAnswers::SpecBenchAnswers(std::string folder, std::vector<SpecBenchSource> sources,
                                   bool fresh)
    : folder_(std::move(folder)), sources_(std::move(sources)), answers_(sources_.size()) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (!std::filesystem::is_directory(folder_)) {
    throw Error(ErrorCode::kFile, format("%s: cannot make this folder: %s", folder_.c_str(),
                                         error ? error.message().c_str() : "not a folder"));
  }
  lock_ = Descriptor(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_ && held_by_another(lock_)) {
    throw Error(ErrorCode::kFile, folder_ +
                                      ": another spec-bench writes to this folder: wait for it, "
                                      "or name another with --out");
  }
  for (size_t i = 0; i < sources_.size(); ++i) {
    check_new_file(path(i));  // that it cannot be written is known before anything is measured
    if (!std::filesystem::exists(path(i), error)) continue;
    const std::string text = read_bytes(path(i));
    if (!is_own(text)) {
      throw Error(ErrorCode::kFile,
                  path(i) +
                      ": expected answers of an earlier run, found something else, which is "
                      "not written over: name another folder with --out");
    }
    if (fresh) {
      write_file(path(i), "");
    } else {
      read(i, text);
    }
  }
}

std::string SpecBenchAnswers::path(size_t source) const {
  return (std::filesystem::path(folder_) / (sources_[source].name + ".jsonl")).string();
}

void SpecBenchAnswers::read(size_t source, const std::string& text) {
  const std::string name = path(source);
  size_t number = 0, at = 0;
  for (size_t end; (end = text.find('\n', at)) != text.npos; at = end + 1) {
    SpecBenchAnswer answer =
        parse_answer(std::string_view(text).substr(at, end - at), sources_[source],
                     format("%s, line %zu", name.c_str(), ++number));
    const int64_t id = answer.question_id;
    answers_[source].insert_or_assign(id, std::move(answer));  // the later one was asked again
  }
  if (at < text.size()) write_file(name, std::string_view(text).substr(0, at));
}

bool SpecBenchAnswers::done(const SpecBenchQuestion& question,
                            std::span<const size_t> members) const {
  double tstamp = 0;
  for (const size_t source : members) {
    const SpecBenchAnswer* answer = find(source, question.id);
    if (!answer) return false;
    if (answer->question_hash != question_hash(question) || answer->category != question.category ||
        answer->turns.size() != question.turns.size()) {
      throw Error(ErrorCode::kFormat,
                  format("%s: its answer to question %lld is to another question of that id: name "
                         "another folder with --out, or give --fresh",
                         path(source).c_str(), static_cast<long long>(question.id)));
    }
    if (source == members.front()) tstamp = answer->tstamp;
    if (answer->tstamp != tstamp) return false;
  }
  return true;
}

void SpecBenchAnswers::add(size_t source, SpecBenchAnswer answer) {
  if (!folder_.empty()) append_file(path(source), answer_line(answer, sources_[source]));
  const int64_t id = answer.question_id;
  answers_[source].insert_or_assign(id, std::move(answer));
}

const SpecBenchAnswer* SpecBenchAnswers::find(size_t source, int64_t question_id) const {
  const auto found = answers_[source].find(question_id);
  return found == answers_[source].end() ? nullptr : &found->second;
}

void SpecBenchAnswers::sort() {
  if (folder_.empty()) return;
  for (size_t i = 0; i < sources_.size(); ++i) {
    std::string text;
    for (const auto& [id, answer] : answers_[i]) text += answer_line(answer, sources_[i]);
    write_file(path(i), text);
  }
}

}  // namespace specbound
