// The parts under `run`, `chat` and `doctor` that need no model: figures, input lines, the
// conversation that forgets.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "error.h"
#include "expect_error.h"
#include "library/model_path.h"
#include "runtime/conversation.h"
#include "runtime/stats.h"
#include "system/machine.h"
#include "system/text_input.h"
#include "temp_dir.h"
#include "terminal/flag_names.h"
#include "terminal/terminal_text.h"
#include "tools/paired_replies.h"

namespace app_test {

using namespace specbound;
namespace fs = std::filesystem;

namespace {

using test::TempDir;

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A token a byte; control tokens 256 (BOS) and 257 (EOS).
class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, EncodeOptions) const override {
    std::vector<int32_t> ids;
    for (unsigned char c : text) ids.push_back(c);
    return ids;
  }
  std::string piece(int32_t id, bool) const override {
    return id < 256 ? std::string(1, static_cast<char>(id)) : "";
  }
  std::string decode(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (int32_t id : ids) text += piece(id, false);
    return text;
  }
  int vocab_size() const override { return 258; }
  int32_t bos() const override { return 256; }
  int32_t eos() const override { return 257; }
  bool add_bos() const override { return true; }
  bool is_end(int32_t id) const override { return id == 257; }
  bool is_control(int32_t id) const override { return id >= 256; }
};

// Messages one after another behind BOS: one letter for the role, then the content.
class LetterTemplate final : public ChatTemplate {
 public:
  const char* name() const override { return "letters"; }
  ChatPrompt prompt(const Tokenizer& tokenizer, const ChatInput& input) const override {
    std::vector<int32_t> ids = {tokenizer.bos()};
    for (int32_t id : tokenizer.encode(text(input), {})) ids.push_back(id);
    return {ids};
  }
  std::string text(const ChatInput& input) const override {
    std::string text;
    for (const ChatMessage& m : input.messages) text += "sua"[static_cast<int>(m.role)] + m.content;
    return text;
  }
  std::string reply_text(std::string_view generated) const override {
    return std::string(generated);
  }
};

std::string text_of(const Conversation::Prompt& prompt) {
  return ByteTokenizer().decode(prompt.ids, false);
}

}  // namespace

TEST_CASE("commands in messages can be typed as they are, whatever the model is called") {
  CHECK(shell_word("models/a-1.5b_q4.gguf") == "models/a-1.5b_q4.gguf");
  CHECK(shell_word("my model.gguf") == "'my model.gguf'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("$HOME;x") == "'$HOME;x'");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("\u65e5.gguf") == "\u65e5.gguf");
  CHECK(train_command("my model.gguf") == "specbound train-heads -m 'my model.gguf'");
}

TEST_CASE("stats as JSON: every promised field, null where unknown, never NaN") {
  ReplyStats stats;
  stats.model = "bad utf-8 \xff.gguf";
  stats.backend = "cpu";
  stats.seed = ~uint64_t{0};
  stats.generated.prompt_tokens = 12;
  stats.generated.prefilled_tokens = 11;
  stats.generated.generated_tokens = 8;
  stats.generated.counters.rounds = 9;
  stats.generated.counters.decoded_tokens = 9;
  stats.generated.plain_token_seconds = 0.25;
  stats.generated.plain_rounds = 8;
  stats.generated.prefill_seconds = 0.5;
  stats.generated.decode_seconds = 3;
  stats.generated.ttft_seconds = 0.75;
  stats.generated.stop = StopReason::kEnd;
  const auto json = nlohmann::json::parse(stats_json(stats));
  CHECK(json["prompt_tokens"] == 12);
  CHECK(json["generated_tokens"] == 8);
  CHECK(json["prefill_tokens_per_second"] == 22.0);
  CHECK(json["decode_tokens_per_second"] == 3.0);  // the end token was decoded too
  CHECK(json["plain_tokens_per_second"] == 4.0);   // as the trace has it
  CHECK(json["compression_rate"] == 1.0);
  CHECK(json["ttft_seconds"] == 0.75);
  CHECK(json["stop_reason"] == "end");
  CHECK(json["speculation_active"] == false);
  CHECK(json["rounds"] == 9);
  CHECK(json["drafted_tokens"] == 0);
  CHECK(json["accepted_tokens"] == 0);
  CHECK(json["mean_exit_layer"].is_null());
  CHECK(json["speedup"].is_null());
  CHECK(json["plain_rounds"] == 8);
  CHECK(json["exit_layers"] == nlohmann::json::object());
  CHECK(json["seed"] == ~uint64_t{0});
  CHECK(json.contains("backend"));
  CHECK(json["start_to_first_token_seconds"].is_null());
}

TEST_CASE("stats of a reply that never came hold nulls") {
  ReplyStats stats;
  stats.generated.stop = StopReason::kAborted;
  stats.generated.decode_seconds = std::numeric_limits<double>::quiet_NaN();
  stats.load_seconds = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(stats_json(stats));
  for (const char* key :
       {"prefill_tokens_per_second", "decode_tokens_per_second", "ttft_seconds", "compression_rate",
        "plain_tokens_per_second", "decode_seconds", "load_seconds"}) {
    CHECK_MESSAGE(json[key].is_null(), key);
  }
  CHECK(json["stop_reason"] == "aborted");
  CHECK(stats_line(stats).find("nan") == std::string::npos);
}

namespace {

// 40 tokens in 2 s of 20 rounds, the end token counted; plain rounds take 80 ms.
ReplyStats speculative_reply() {
  ReplyStats stats;
  stats.seed = 7;
  GenerateStats& g = stats.generated;
  g.speculated = true;
  g.prompt_tokens = 12;
  g.prefilled_tokens = 11;
  g.generated_tokens = 39;
  g.prefill_seconds = 0.1;
  g.decode_seconds = 2;
  g.ttft_seconds = 0.25;
  g.stop = StopReason::kEnd;
  g.plain_token_seconds = 0.08;
  g.plain_rounds = 3;
  g.counters.rounds = 20;
  g.counters.decoded_tokens = 40;
  g.counters.drafted_tokens = 30;
  g.counters.accepted_tokens = 20;
  g.counters.accepted_at = {0, 0, 15, 0, 0, 5};
  g.counters.ns = {500'000'000, 250'000'000, 1'000'000'000, 125'000'000, 0};
  return stats;
}

}  // namespace

TEST_CASE("stats of a speculative reply: what it is compared with, and what it gained") {
  const ReplyStats stats = speculative_reply();
  CHECK(stats_line(stats) ==
        "39 tokens, 20.0 tok/s, plain 12.5 (3 rounds), speedup 1.60x, CR 2.00, mean exit layer "
        "2.8, first after 250 ms | prompt 12, 110 tok/s | stop: end | seed 7 | speculation on");
  const auto json = nlohmann::json::parse(stats_json(stats));
  CHECK(json["speculation_active"] == true);
  CHECK(json["rounds"] == 20);
  CHECK(json["drafted_tokens"] == 30);
  CHECK(json["accepted_tokens"] == 20);
  CHECK(json["compression_rate"] == 2.0);
  CHECK(json["mean_exit_layer"] == 2.75);
  CHECK(json["decode_tokens_per_second"] == 20.0);
  CHECK(json["plain_tokens_per_second"] == 12.5);
  CHECK(json["plain_rounds"] == 3);
  CHECK(json["speedup"] == 1.6);
  CHECK(json["exit_layers"] == nlohmann::json({{"2", 15}, {"5", 5}}));
  CHECK(
      json["phase_seconds"] ==
      nlohmann::json(
          {{"draft", 0.5}, {"check", 0.25}, {"verify", 1.0}, {"logits", 0.125}, {"sample", 0.0}}));
}

TEST_CASE("stats of a speculative reply without a plain round, without an accepted draft") {
  ReplyStats stats = speculative_reply();
  GenerateStats& g = stats.generated;
  g.plain_token_seconds = 0;
  g.plain_rounds = 0;
  g.generated_tokens = 1;
  g.counters.rounds = 1;
  g.counters.decoded_tokens = 2;
  g.counters.accepted_tokens = 0;
  g.counters.accepted_at.clear();
  g.stop = StopReason::kStopString;
  CHECK(stats_line(stats) ==
        "1 token, 1.0 tok/s, plain not measured yet, CR 2.00, first after 250 ms | prompt 12, "
        "110 tok/s | stop: stop | seed 7 | speculation on");
  const auto json = nlohmann::json::parse(stats_json(stats));
  for (const char* key : {"mean_exit_layer", "plain_tokens_per_second", "speedup"}) {
    CHECK_MESSAGE(json[key].is_null(), key);
  }
  CHECK(json["plain_rounds"] == 0);
  CHECK(json["exit_layers"] == nlohmann::json::object());

  g.plain_rounds = 3;
  const double broken[] = {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::denorm_min(), -1.0};
  for (const double seconds : broken) {
    g.plain_token_seconds = seconds;
    CHECK_MESSAGE(!stats.speedup(), seconds);
    for (const std::string& text : {stats_line(stats), stats_json(stats)}) {
      CHECK_MESSAGE(text.find("nan") == std::string::npos, text);
      CHECK_MESSAGE(text.find("inf") == std::string::npos, text);
    }
  }
}

TEST_CASE("a speedup is told of replies of 32 tokens in which something was drafted") {
  ReplyStats stats = speculative_reply();
  GenerateStats& g = stats.generated;
  g.counters.decoded_tokens = 31;
  CHECK(!stats.speedup());
  g.counters.decoded_tokens = 32;
  CHECK(*stats.speedup() == doctest::Approx(32 * 0.08 / 2));
  g.counters.accepted_tokens = 0;  // losses are told like gains
  CHECK(stats.speedup());
  g.counters.drafted_tokens = 0;
  CHECK(!stats.speedup());
}

TEST_CASE("a reply's speedup is what bench --compare says of decoding") {
  // 40 tokens: 80 ms each plainly, half of that in rounds that draft.
  PairedPrompt pairs;
  for (const double seconds : {3.2, 1.6}) {
    TimedReply reply;
    reply.stats.counters.decoded_tokens = 40;
    reply.decode_seconds = reply.total_seconds = seconds;
    (seconds > 2 ? pairs.base : pairs.other).push_back(reply);
  }
  const double compared = prompt_figures("p", pairs, ModelBytes()).decode_speedup.median;
  CHECK(compared == doctest::Approx(2));
  // The same rounds, and eight plain ones between them to compare with.
  ReplyStats stats = speculative_reply();
  Counters& c = stats.generated.counters;
  c.decoded_tokens = 48;
  c.plain_rounds = 8;
  c.plain_ns = 8 * 80'000'000;
  stats.generated.decode_seconds = 1.6 + 8 * 0.08;
  CHECK(*stats.speedup() == doctest::Approx(compared));
}

TEST_CASE("one or two plain rounds are shown but compared with nothing") {
  ReplyStats stats = speculative_reply();
  for (const int rounds : {1, 2}) {
    stats.generated.plain_rounds = rounds;
    const auto json = nlohmann::json::parse(stats_json(stats));
    CHECK(json["plain_tokens_per_second"] == 12.5);
    CHECK(json["plain_rounds"] == rounds);
    CHECK(json["speedup"].is_null());
    CHECK(stats_line(stats).find("speedup") == std::string::npos);
  }
  stats.generated.plain_rounds = 1;
  CHECK(stats_line(stats).find(", plain 12.5 (1 round), CR 2.00") != std::string::npos);
}

TEST_CASE("where the context was full, the line says how large it could be") {
  ReplyStats stats;
  stats.generated.stop = StopReason::kContext;
  CHECK(stats_line(stats).find("| stop: context |") != std::string::npos);  // not known
  stats.n_ctx = 4096;
  stats.n_ctx_trained = 32768;
  CHECK(with_flags(stats_line(stats))
            .find("| stop: context (-c 4096 is full; as trained up to -c 32768) |") !=
        std::string::npos);
  stats.n_ctx = 40000;
  CHECK(with_flags(stats_line(stats)).find("(-c 40000 is full, all that the model was trained") !=
        std::string::npos);
  stats.generated.stop = StopReason::kLength;
  CHECK(stats_line(stats).find("| stop: length |") != std::string::npos);
}

TEST_CASE("a reply that is only its end token has a time to first token") {
  ReplyStats stats;
  CHECK(stats_line(stats).find("first after") == std::string::npos);
  CHECK(nlohmann::json::parse(stats_json(stats))["ttft_seconds"].is_null());
  stats.generated.ttft_seconds = 0.0003;
  CHECK(stats_line(stats).find("0 tokens, first after 0.3 ms") == 0);
  CHECK(nlohmann::json::parse(stats_json(stats))["ttft_seconds"] == 0.0003);
}

TEST_CASE("stats for people: one line with speed, first token, seed") {
  ReplyStats stats;
  stats.seed = 42;
  stats.generated.prompt_tokens = 100;
  stats.generated.prefilled_tokens = 9;
  stats.generated.generated_tokens = 20;
  stats.generated.counters.rounds = 20;
  stats.generated.counters.decoded_tokens = 20;
  stats.generated.prefill_seconds = 0.003;
  stats.generated.decode_seconds = 0.1;
  stats.generated.ttft_seconds = 0.008;
  stats.generated.stop = StopReason::kLength;
  CHECK(stats_line(stats) ==
        "20 tokens, 200.0 tok/s, first after 8.0 ms | prompt 100 (9 new), 3000 tok/s | stop: "
        "length | "
        "seed 42 | speculation off");
}

TEST_CASE("totals of a session count end tokens as the single replies do") {
  TotalStats totals;
  CHECK(totals_line(totals, 0, 768, false) ==
        "0 replies, 0 tokens | prompts 0 tokens | context 0 of 768 | speculation off");
  GenerateStats reply;
  reply.generated_tokens = 9;
  reply.counters.decoded_tokens = 10;
  reply.prefilled_tokens = 30;
  reply.decode_seconds = 0.5;
  reply.prefill_seconds = 0.1;
  reply.stop = StopReason::kEnd;
  totals.add(reply);
  CHECK(totals_line(totals, 41, 768, false) ==
        "1 reply, 9 tokens, 20.0 tok/s | prompts 30 tokens, 300 tok/s | context 41 of 768 | "
        "speculation off");
  reply.stop = StopReason::kLength;
  reply.counters.decoded_tokens = 9;
  totals.add(reply);
  CHECK(totals_line(totals, 80, 768, false) ==
        "2 replies, 18 tokens, 19.0 tok/s | prompts 60 tokens, 300 tok/s | context 80 of 768 | "
        "speculation off");
}

TEST_CASE("totals of a session with speculative replies count their drafts") {
  TotalStats totals;
  CHECK(totals_line(totals, 0, 768, true) ==
        "0 replies, 0 tokens | prompts 0 tokens | context 0 of 768 | speculation on");
  const GenerateStats drafted = speculative_reply().generated;
  totals.add(drafted);
  totals.add(drafted);
  GenerateStats plain;
  plain.generated_tokens = 10;
  plain.decode_seconds = 1;
  plain.counters.rounds = 10;
  plain.counters.decoded_tokens = 10;
  plain.stop = StopReason::kLength;
  totals.add(plain);
  CHECK(totals_line(totals, 90, 768, false) ==
        "3 replies, 88 tokens, 18.0 tok/s | speculative: 40 rounds, drafted 60, accepted 40, CR "
        "2.00 | prompts 22 tokens, 110 tok/s | context 90 of 768 | speculation off");
}

TEST_CASE("text for a terminal stays one line, steers nothing, and is not cut") {
  CHECK(terminal_text("") == "");
  CHECK(terminal_text("/no\x1b[31m\nsuch\r\t\x7f") == "/no\\x1b[31m\\x0asuch\\x0d\\x09\\x7f");
  CHECK(terminal_text("gr\u00fc\u00df \u65e5\u672c \U0001f600") ==
        "gr\u00fc\u00df \u65e5\u672c \U0001f600");
  CHECK(terminal_text(std::string_view("a\0b", 3)) ==
        "a\\x00"
        "b");
  CHECK(terminal_text("\xc2\x9b"
                      "2J") ==
        "\\xc2\\x9b"
        "2J");  // C1
  CHECK(terminal_text("\u202e"
                      "abc") ==
        "\\xe2\\x80\\xae"
        "abc");                                                                     // right to left
  CHECK(terminal_text("\xff\xe2\x82 x\xe2\x82") == "\\xff\\xe2\\x82 x\\xe2\\x82");  // broken
  CHECK(terminal_text("\u061c\ufeff\u00ad\u207f") == "\\xd8\\x9c\\xef\\xbb\\xbf\\xc2\\xad\u207f");
  CHECK(terminal_text(std::string(500, 'x')) == std::string(500, 'x'));

  // Of many lines: these stay, and so does all that has a shape or joins what has.
  CHECK(terminal_lines("") == "");
  CHECK(terminal_lines("a\tb\r\n\x1b]52;c;QQ==\x07\x7f") == "a\tb\n\\x1b]52;c;QQ==\\x07\\x7f");
  CHECK(terminal_lines("\xc2\x9b"
                       "2J\xc2\xa0") ==
        "\\xc2\\x9b"
        "2J\xc2\xa0");
  CHECK(terminal_lines("\U0001f469\u200d\U0001f680\ufe0f \u65e5") ==
        "\U0001f469\u200d\U0001f680\ufe0f \u65e5");
}

TEST_CASE("read_text: any bytes, one line end cut") {
  const TempDir folder;
  const std::string path = folder / "in";
  const auto read = [&](const std::string& text) {
    put(path, text);
    return read_text(path);
  };
  CHECK(read("") == "");
  CHECK(read("\n") == "");
  CHECK(read("a\n\n") == "a\n");
  CHECK(read("a\r\n") == "a");
  CHECK(read("a\r") == "a\r");
  const std::string bytes("\0\xff\xfe z", 5);
  CHECK(read(bytes) == bytes);
  const std::string large(3 << 20, 'x');
  CHECK(read(large) == large);
  CHECK_THROWS_AS(read_text(folder / "absent"), Error);
  CHECK_THROWS_AS(read_text(folder / ""), Error);  // a folder
  CHECK_THROWS_AS(read_text("/dev/zero"), Error);  // endless
}

TEST_CASE("LineReader: lines of any bytes, the last one without an end, interrupts") {
  int pipe_fd[2];
  REQUIRE(pipe(pipe_fd) == 0);
  const std::string text("one\r\n\ntwo\0\xff\nlast", 16);
  REQUIRE(write(pipe_fd[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  LineReader reader(pipe_fd[0], -1);
  std::string line;
  CHECK(reader.next(line) == LineReader::Status::kLine);
  CHECK(line == "one");
  CHECK(reader.next(line) == LineReader::Status::kLine);
  CHECK(line == "");
  CHECK(reader.next(line) == LineReader::Status::kLine);
  CHECK(line == std::string("two\0\xff", 5));
  close(pipe_fd[1]);
  CHECK(reader.next(line) == LineReader::Status::kLine);
  CHECK(line == "last");
  CHECK(reader.next(line) == LineReader::Status::kEnd);
  CHECK(reader.next(line) == LineReader::Status::kEnd);
  close(pipe_fd[0]);

  int input[2], wake[2];
  REQUIRE(pipe(input) == 0);
  REQUIRE(pipe(wake) == 0);
  REQUIRE(write(wake[1], "", 1) == 1);
  LineReader waiting(input[0], wake[0]);
  CHECK(waiting.next(line) == LineReader::Status::kInterrupted);
  for (int fd : {input[0], input[1], wake[0], wake[1]}) close(fd);
}

TEST_CASE("LineReader: a line above the limit is refused, the next one read") {
  const TempDir folder;
  put(folder / "in", std::string(kMaxTextBytes + 100000, 'x') + "\nshort\n");
  const int fd = open((folder / "in").c_str(), O_RDONLY);
  LineReader reader(fd, -1);
  std::string line;
  CHECK_THROWS_AS(reader.next(line), Error);
  CHECK(reader.next(line) == LineReader::Status::kLine);
  CHECK(line == "short");
  CHECK(reader.next(line) == LineReader::Status::kEnd);
  close(fd);
}

TEST_CASE("a conversation forgets its oldest turns, never the system prompt") {
  const ByteTokenizer tokenizer;
  const LetterTemplate letters;
  Conversation talk(tokenizer, letters, "S");
  talk.add_user("one");
  CHECK(text_of(talk.prompt(100, 10)) == "sSuone");
  CHECK(!talk.ends_with_reply());
  talk.add_reply("1");
  CHECK(talk.ends_with_reply());
  talk.add_user("two");
  CHECK(text_of(talk.prompt(100, 10)) == "sSuonea1utwo");
  talk.add_reply("2");
  talk.add_user("three");
  // 1 + 2 + 6 + 6 + 6 = 21 ids with everything.
  Conversation::Prompt prompt = talk.prompt(31, 10);
  CHECK(prompt.dropped_turns == 0);
  prompt = talk.prompt(30, 10);
  CHECK(prompt.dropped_turns == 1);
  CHECK(text_of(prompt) == "sSutwoa2uthree");
  prompt = talk.prompt(31, 10);  // what was dropped does not come back
  CHECK(prompt.dropped_turns == 0);
  CHECK(text_of(prompt) == "sSutwoa2uthree");
  prompt = talk.prompt(16, 10);  // the newest message stays whatever is left for the reply
  CHECK(prompt.dropped_turns == 1);
  CHECK(text_of(prompt) == "sSuthree");
  CHECK(talk.messages().size() == 5);  // all that was said can still be saved
  talk.clear();
  talk.add_user("x");
  CHECK(text_of(talk.prompt(100, 10)) == "sSux");
  talk.set_system("T");
  CHECK(text_of(talk.prompt(100, 10)) == "sTux");
  talk.set_system("");
  CHECK(text_of(talk.prompt(100, 10)) == "ux");
}

TEST_CASE("a message that cannot fit is refused and costs no history") {
  const ByteTokenizer tokenizer;
  const LetterTemplate letters;
  Conversation talk(tokenizer, letters, "");
  talk.add_user("a");
  talk.add_reply("b");
  talk.add_user(std::string(18, 'x'));  // 20 ids alone
  CHECK_THROWS_AS(talk.prompt(19, 5), Error);
  CHECK(talk.remove_last().content == std::string(18, 'x'));
  talk.add_user("c");
  CHECK(text_of(talk.prompt(20, 5)) == "uaabuc");
  talk.remove_last();
  talk.add_user(std::string(18, 'x'));
  CHECK(talk.prompt(20, 5).ids.size() == 20);  // as many tokens as the context holds
}

TEST_CASE("a message that had no reply gives back what its prompt dropped") {
  const ByteTokenizer tokenizer;
  const LetterTemplate letters;
  Conversation talk(tokenizer, letters, "");
  talk.add_user("a");
  talk.add_reply("b");
  talk.add_user(std::string(14, 'x'));
  const Conversation::Prompt long_one = talk.prompt(20, 5);
  CHECK(long_one.dropped_turns == 1);
  talk.bring_back(long_one.dropped_turns);
  talk.remove_last();
  talk.add_user("c");
  CHECK(text_of(talk.prompt(20, 5)) == "uaabuc");
}

TEST_CASE("the bundled model is looked for around the program, a named one is taken") {
  CHECK(find_model("given.gguf") == "given.gguf");  // not looked at here
  CHECK(find_model("no/such/one") == "no/such/one");
  test::check_mentions(test::expect_error(ErrorCode::kFile, [] { find_model("no/such"); }),
                       {"no/such: there is no such file; hf:no/such would be"});
  CHECK(find_model("/no/such") == "/no/such");
  test::check_mentions(test::expect_error(ErrorCode::kFile, [] { find_model("gpt-9"); }),
                       {"gpt-9", "hf:OWNER/REPO[:QUANT]", "smollm2, "});
  CHECK(is_model_name("hf:owner/repo"));
  CHECK(is_model_name("smollm2"));
  CHECK_FALSE(is_model_name("smollm2.gguf"));
  CHECK_FALSE(is_model_name("a text"));
  CHECK(bundled_model_candidates().size() == 4);
}

TEST_CASE("CPU lists as sysfs writes them") {
  CHECK(count_cpu_list("0") == 1);
  CHECK(count_cpu_list("0-3") == 4);
  CHECK(count_cpu_list("0-3,8,10-11") == 7);
  CHECK(count_cpu_list("") == 0);
  CHECK(count_cpu_list("3-1") == 0);
  CHECK(count_cpu_list("a-b") == 0);
  CHECK(count_cpu_list("0-99999999999") == 0);
}

TEST_CASE("this machine is read and measured sensibly") {
  const CpuInfo cpu = read_cpu_info();
  CHECK(cpu.logical_cores >= 1);
  CHECK(cpu.physical_cores >= 1);
  CHECK(cpu.physical_cores <= cpu.logical_cores);
  CHECK(cpu.usable_threads >= 1);
  const MemoryInfo memory = read_memory_info();
  CHECK(memory.total_bytes > memory.available_bytes);
  CHECK(memory.cgroup_free_bytes.has_value() == memory.cgroup_limit_bytes.has_value());
  if (memory.cgroup_limit_bytes) CHECK(*memory.cgroup_free_bytes < *memory.cgroup_limit_bytes);
  const double rate = measure_read_bandwidth(2, size_t{8} << 20, 0.02);
  CHECK(rate > 1e7);
  CHECK(std::isfinite(rate));
}

// This program has no desktop app, as a build with SPECBOUND_GUI=OFF.
TEST_CASE("without the desktop app specbound gui says how to build it") {
  const std::string said = test::expect_error(ErrorCode::kUnsupported,
                                              [] { return find_command("gui")->run(0, nullptr); });
  test::check_mentions(said, {"libimgui-dev", "SPECBOUND_GUI=ON", "specbound chat"});
}

}  // namespace app_test
