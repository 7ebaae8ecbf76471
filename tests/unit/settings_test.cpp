// Flags from the environment and the settings file: how the file is read, who wins over whom, and
// what is said of what cannot be used.
#include "cli/settings_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "cli/help.h"
#include "cli/speculation_flags.h"
#include "error.h"
#include "model/exit_heads.h"
#include "parse.h"
#include "runtime/drafters.h"
#include "temp_dir.h"

namespace settings_test {

using namespace specbound;
using namespace specbound::test;

namespace {

// Variables of the environment for as long as it lives.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, std::string>> variables) {
    for (const auto& [name, value] : variables) {
      const char* old = std::getenv(name);
      before_[name] = old ? std::optional<std::string>(old) : std::nullopt;
      setenv(name, value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

struct Given : Parse {
  ModelOptions model;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  ReplyOptions reply;
  TextFlags text;
  PromptOptions prompt;
};

// As `specbound run` with these arguments; what it throws is in `err` with status 2.
Given given(std::vector<std::string> arguments) {
  Given given;
  Flags flags("test");
  add_text_flags(flags, given.text, "prompt", "file");
  add_prompt_flags(flags, given.prompt);
  add_reply_flags(flags, given.reply);
  add_sampling_flags(flags, given.sampling);
  add_speculation_flags(flags, given.speculation);
  add_model_flags(flags, given.model);
  try {
    parse_into(flags, std::move(arguments), given, "run");
  } catch (const Error& e) {
    given.status = e.code() == ErrorCode::kUsage ? 2 : 1;
    given.err = e.what();
  }
  return given;
}

// A file of settings and a command line that names it.
class File {
 public:
  explicit File(const std::string& text) : path_(folder_ / "config") {
    std::ofstream(path_, std::ios::binary) << text;
  }
  const std::string& path() const { return path_; }

  Given parse(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.end(), {"--config", path_});
    return given(std::move(arguments));
  }
  // What is wrong with it, without the path.
  std::string refusal() const {
    const Given flags = parse();
    CHECK(flags.status == 2);
    CHECK(flags.err.starts_with(path_ + ":"));
    return flags.err.substr(std::min(flags.err.size(), path_.size() + 1));
  }

 private:
  TempDir folder_;
  std::string path_;
};

std::string value_of(const std::string& line) {
  const SettingsFile file = parse_settings("x = " + line, "f");
  REQUIRE(file.settings.size() == 1);
  return file.settings[0].value;
}

std::string refused(const std::string& text) {
  try {
    parse_settings(text, "f");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUsage);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("settings file: names, values, sections, comments") {
  const SettingsFile file = parse_settings(
      "\xef\xbb\xbf# first\n\ntemp = 0.5\r\n  top-k=3   # three\n[ chat ] # talk\nsys = Gr\xc3\xbc"
      "\xc3\x9f Gott\n#temp = 9\n[run]\nempty =",
      "f");
  REQUIRE(file.settings.size() == 4);
  const auto is = [&](size_t i, const char* section, const char* name, const char* value,
                      int line) {
    const FileSetting& s = file.settings[i];
    CHECK(s.section == section);
    CHECK(s.name == name);
    CHECK(s.value == value);
    CHECK(s.line == line);
  };
  is(0, "", "temp", "0.5", 3);
  is(1, "", "top-k", "3", 4);
  is(2, "chat", "sys", "Gr\xc3\xbc\xc3\x9f Gott", 6);
  is(3, "run", "empty", "", 9);
  CHECK(parse_settings("", "f").settings.empty());
  CHECK(parse_settings("\n\r\n \t", "f").settings.empty());
}

TEST_CASE("settings file: quotes keep blanks and comments' signs") {
  CHECK(value_of("a b") == "a b");
  CHECK(value_of("a#b") == "a#b");
  CHECK(value_of("a #b") == "a");
  CHECK(value_of("# b") == "");
  CHECK(value_of("a=b") == "a=b");
  CHECK(value_of("\" a # b \" # c") == " a # b ");
  CHECK(value_of(R"("1\n2\t\"3\" \\n")") == "1\n2\t\"3\" \\n");
  CHECK(value_of(R"(C:\new)") == R"(C:\new)");  // bare text is taken as it is
  CHECK(value_of("\"\"") == "");
  CHECK(value_of("it's") == "it's");
}

TEST_CASE("settings file: what is wrong is told with its line") {
  CHECK(refused("a = 1\ntemp") == "f:2: expected NAME = VALUE, found \"temp\"");
  CHECK(refused("= 1").starts_with("f:1: expected NAME = VALUE"));
  CHECK(refused("[chat").starts_with("f:1: expected [COMMAND]"));
  CHECK(refused("[]").starts_with("f:1: expected [COMMAND]"));
  CHECK(refused("[chat] temp = 1").starts_with("f:1: expected nothing after ]"));
  CHECK(refused("a = \"b").starts_with("f:1: expected a closing quote"));
  CHECK(refused("a = \"b\\").starts_with("f:1: expected a closing quote"));
  CHECK(refused("a = \"b\" c").starts_with("f:1: expected nothing after the closing quote"));
  CHECK(refused("a = \"\\x\"").starts_with("f:1: expected \\n, \\t, \\\" or \\\\"));
  CHECK(refused("\n\na = \xff") == "f:3: expected UTF-8, found \"a = \\xff\"");
  CHECK(refused(std::string("a = 1\nb\0 = 2", 12)) == "f:2: expected text, found a NUL byte");
  CHECK(refused("# \xc3").starts_with("f:1: expected UTF-8"));  // in comments, too
  CHECK(refused("\x1b[31m").find('\x1b') == std::string::npos);
}

TEST_CASE("settings file: any text is read or refused") {
  constexpr std::string_view kPieces = "ab=[]\"\\#\n\r \t~n\xc3\xa9\xff";
  std::mt19937 random(1);
  int n_read = 0, n_refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = random() % 24; n > 0; --n) text += kPieces[random() % kPieces.size()];
    try {
      for (const FileSetting& s : parse_settings(text, "f").settings) CHECK(!s.name.empty());
      ++n_read;
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUsage);
      ++n_refused;
    }
  }
  CHECK(n_read > 100);
  CHECK(n_refused > 100);
}

TEST_CASE("settings file: what is no such file") {
  const TempDir folder;
  const auto refusal = [](const std::string& path) {
    try {
      read_settings_file(path);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("read");
  };
  CHECK(refusal(folder / "absent").find("cannot open") != std::string::npos);
  CHECK(refusal(folder.path().string()).find("not a regular file") != std::string::npos);
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(refusal(folder / "pipe").find("not a regular file") != std::string::npos);  // at once
  std::ofstream(folder / "huge") << std::string((1 << 20) + 1, '#');
  CHECK(refusal(folder / "huge").find("expected at most 1 MiB") != std::string::npos);
  std::ofstream(folder / "large") << std::string(1 << 20, '#');
  CHECK(read_settings_file(folder / "large").settings.empty());
  CHECK(given({"--config", folder / "absent"}).status == 1);
  CHECK(given({"--config", ""}).err.find("--config: expected the name of a file") !=
        std::string::npos);
}

TEST_CASE("settings: the command line wins over the environment, that over section and top") {
  const File file(
      "temp = 0.1\ntop-k = 1\ntop-p = 0.1\nmin-p = 0.1\nthreads = 3\n[chat]\ntemp = 9\n"
      "[run]\ntemp = 0.2\ntop-k = 2\ntop-p = 0.2\n");
  const Environment environment{{"SPECBOUND_TEMP", "0.3"}, {"SPECBOUND_TOP_K", "3"}};
  const Given f = file.parse({"--temp", "0.4"});
  REQUIRE(!f.status);
  CHECK(f.sampling.params.temperature == 0.4f);
  CHECK(f.sampling.params.top_k == 3);
  CHECK(f.sampling.params.top_p == 0.2f);
  CHECK(f.sampling.params.min_p == 0.1f);
  CHECK(f.model.n_threads == 3);
  CHECK(f.err == "settings from " + file.path() +
                     ": top-p, min-p, threads\nsettings from the environment: top-k\n");
  CHECK(file.parse({"--no-config"}).err.find("give one of them") != std::string::npos);
  CHECK(!file.parse({"--no-config=off"}).status);
  CHECK(file.parse({"--no-config=maybe"}).err.find("--no-config: expected on or off, found") !=
        std::string::npos);
}

TEST_CASE("settings: the default file is read where there is one, unless --no-config says no") {
  const TempDir folder;
  const Environment environment{{"XDG_CONFIG_HOME", folder.path().string()}};
  CHECK(default_settings_path() == folder / "specbound/config");
  CHECK(!given({}).status);
  std::filesystem::create_directory(folder / "specbound");
  std::ofstream(folder / "specbound/config") << "top-k = 5\n";
  CHECK(given({}).sampling.params.top_k == 5);
  CHECK(given({"--no-config"}).sampling.params.top_k == SamplingParams().top_k);
  const File other("top-k = 6");
  CHECK(other.parse().sampling.params.top_k == 6);
  {
    const Environment named{{"SPECBOUND_CONFIG", other.path()}};
    CHECK(given({}).sampling.params.top_k == 6);
    CHECK(given({"--no-config"}).sampling.params.top_k == SamplingParams().top_k);
  }
  const Environment none{{"SPECBOUND_NO_CONFIG", "1"}};
  CHECK(given({}).sampling.params.top_k == SamplingParams().top_k);
  CHECK(other.parse().sampling.params.top_k == 6);
  const Environment relative{{"XDG_CONFIG_HOME", "here"}, {"HOME", "/h"}};
  CHECK(default_settings_path() == "/h/.config/specbound/config");
  const Environment homeless{{"HOME", ""}};
  CHECK(default_settings_path() == "");
}

TEST_CASE("settings: switches, texts, files and flags that repeat") {
  const File file(
      "ignore-eos = on\nno-repack = off\nstop = a\nstop = \" b\"\nsys = Hello\n"
      "model = ~/m.gguf\ntemperature = 0.5\nseed = 1\nseed = 7\n");
  const Environment environment{{"HOME", "/home-of-test"}};
  const Given f = file.parse();
  REQUIRE(!f.status);
  CHECK(f.reply.ignore_eos);
  CHECK(!f.model.no_repack);
  CHECK(f.reply.stop.strings() == std::vector<std::string>{"a", " b"});
  CHECK(f.reply.system == "Hello");
  CHECK(f.model.model == "/home-of-test/m.gguf");
  CHECK(f.sampling.params.temperature == 0.5f);
  CHECK(f.sampling.seed == 7);
  CHECK(!file.parse({"--ignore-eos=off"}).reply.ignore_eos);
  CHECK(file.parse({"--stop", "c"}).reply.stop.strings() == std::vector<std::string>{"c"});
  const Environment variables{{"SPECBOUND_IGNORE_EOS", "no"},
                              {"SPECBOUND_STOP", "d"},
                              {"SPECBOUND_SYS", ""},
                              {"SPECBOUND_MODEL", "~/n"}};
  const Given g = file.parse();
  CHECK(!g.reply.ignore_eos);
  CHECK(g.reply.stop.strings() == std::vector<std::string>{"d"});
  CHECK(g.reply.system == "Hello");  // an empty variable is none
  CHECK(g.model.model == "~/n");     // its shell has had its way with it
}

TEST_CASE("settings: what is for one drafter alone goes where another one is asked for") {
  const File file("speculator = draft\nmodel-draft = small.gguf\naccept = rejection\n");
  const Given f = file.parse();
  CHECK(f.speculation.draft_model == "small.gguf");
  CHECK(f.speculation.acceptance == Acceptance::kRejection);
  for (const char* drafter : {"none", "ngram", "layerskip", "medusa"}) {
    CAPTURE(drafter);
    const Given other = file.parse({"--speculator", drafter});
    CHECK(other.speculation.speculator == drafter);
    other.speculation.check();
    CHECK(other.err.empty());  // nothing came from the file
  }
  {
    const Environment environment{{"SPECBOUND_SPECULATOR", "layerskip"},
                                  {"SPECBOUND_EXIT_LAYER", "3"}};
    const Given other = file.parse();
    other.speculation.check();
    CHECK(other.speculation.exit_layer == 3);
    CHECK(file.parse({"--speculator", "draft"}).speculation.draft_model == "small.gguf");
  }
  CHECK(file.parse({"--speculator", "draft", "-md", "b"}).speculation.draft_model == "b");
  const File typical("speculator = hydra\naccept = typical\nfixed-tree = on\n");
  for (const char* drafter : {"hydra", "medusa", "eagle", "draft"}) {
    CAPTURE(drafter);
    const Given other = typical.parse({"--speculator", drafter, "-md", "b"});
    const bool by_place = find_drafter(drafter)->head && is_by_place(*find_drafter(drafter)->head);
    CHECK((other.speculation.acceptance == Acceptance::kTypical) == by_place);
    CHECK(other.speculation.fixed_tree == by_place);
  }
  // Nobody asked for another one: refused, as on the command line.
  const File alone("model-draft = small.gguf\n");
  CHECK(alone.parse({"--speculator", "draft"}).speculation.draft_model == "small.gguf");
  CHECK(alone.parse().speculation.draft_model == "small.gguf");
  CHECK_THROWS_AS(file.parse({"--speculator", "auto", "--accept", "rejection"}).speculation.check(),
                  Error);
  CHECK_THROWS_AS(file.parse({"--speculator", "none", "-md", "b"}).speculation.check(), Error);
}

TEST_CASE("settings: complaints name their source") {
  CHECK(File("\ntemp = hot").refusal() == "2: temp: expected a number, found \"hot\"");
  CHECK(File("temperature = 101").refusal() == "1: temperature: expected 0 to 100, found 101");
  CHECK(File("threads = -1").refusal().starts_with("1: threads: expected a whole number from 0"));
  CHECK(File("raw = maybe").refusal() == "1: raw: expected on or off, found \"maybe\"");
  CHECK(File("chat-template = x").refusal().starts_with("1: chat-template: expected one of "));
  CHECK(File("stop =").refusal().starts_with("1: stop: expected a stop string"));
  CHECK(File("model =").refusal().starts_with("1: model: expected the name of a file"));
  CHECK(File("[run]\nspec = maybe").refusal() == "2: spec: expected on or off, found \"maybe\"");
  const Environment environment{{"SPECBOUND_TEMP", "1\n2"}, {"SPECBOUND_NO_REPACK", "2"}};
  CHECK(given({"--no-repack"}).err == "SPECBOUND_TEMP: expected a number, found \"1\\x0a2\"");
  CHECK(given({"--temp", "1"}).err == "SPECBOUND_NO_REPACK: expected on or off, found \"2\"");
  CHECK(!given({"--temp", "1", "--no-repack"}).status);  // what is not used is not looked at
}

TEST_CASE("settings: names that are known here, elsewhere, or nowhere") {
  CHECK(!File("json = on\nreplies = 3\n[verify]\nseeds = 4\n").refusal().empty());
  CHECK(!File("replies = 3\n[verify]\nseeds = 4\n[gui]\ntheme = dark\n").parse().status);
  CHECK(File("tmep = 1").refusal() == "1: tmep: no command has such a setting; did you mean temp?");
  CHECK(File("[run]\nseeds = 4").refusal() ==
        "2: seeds: run has no such setting; did you mean "
        "seed?");
  CHECK(File("[tune]\ntop-k = 4").refusal().starts_with("2: top-k: tune has no such setting"));
  CHECK(File("[rnu]\ntemp = 1").refusal() ==
        "2: [rnu]: there is no such command; did you mean run?");
  for (const char* once : {"prompt", "file", "trace", "stats-json", "config", "no-config", "help",
                           "output", "json", "resume"}) {
    CHECK(File(std::string(once) + " = x").refusal() ==
          "1: " + std::string(once) + ": is read from the command line only");
  }
  const Environment environment{{"SPECBOUND_PROMPT", "p"},
                                {"SPECBOUND_TRACE", "t"},
                                {"SPECBOUND_BINARY", "b"},
                                {"SPECBOUND_NOTHING", "n"}};
  const Given f = given({});
  CHECK(!f.status);
  CHECK(f.err == "");
  CHECK(!f.text.text);
  CHECK(f.reply.trace == "");
}

TEST_CASE("settings: what is said nearer silences what it contradicts") {
  const File file("tau = 0.9\nw-max = 3\nhead = lens\nspec = on\nsys = Hi\ndevice = cuda\n");
  const Given paper = file.parse({"--preset", "paper"});
  REQUIRE(!paper.status);
  CHECK(!paper.speculation.specbound.tau);
  CHECK(!paper.speculation.specbound.w_max);
  CHECK(paper.speculation.head == "");
  CHECK(paper.speculation.on == true);
  CHECK(paper.err == "settings from " + file.path() + ": sys, spec, device\n");
  const Given tau = file.parse({"--preset", "paper", "--tau", "0.7"});
  CHECK(tau.speculation.specbound.tau == 0.7f);
  const Given raw = file.parse({"--raw", "-ngl", "0"});
  CHECK(raw.reply.system == "");
  CHECK(raw.model.device.where == DeviceOptions::Where::kAuto);
  CHECK(file.parse({"--raw=false"}).reply.system == "Hi");
  // At one place both count, as on the command line.
  const File both("preset = paper\ntau = 0.9\n");
  CHECK(both.parse().speculation.specbound.tau == 0.9f);
  CHECK(both.parse({"--preset", "tuned"}).speculation.specbound.tau == std::nullopt);
  CHECK(both.parse({"--tau", "0.8"}).speculation.specbound.preset == Preset::kPaper);
  const File section("tau = 0.9\n[run]\npreset = paper\n");
  CHECK(!section.parse().speculation.specbound.tau);
}

TEST_CASE("settings: K/V of 8 bits from a file and the environment, whatever the device") {
  const File kv("\nkv = int8\n");
  for (const char* device : {"cpu", "cuda", "cuda:1"}) {
    CHECK(!kv.parse({"--device", device}).status);
    CHECK(kv.parse({"--device", device}).model.device.kv == KvType::kInt8);
    CHECK(kv.parse({"--device", device, "--kv", "fp16"}).model.device.kv == KvType::kFp16);
  }
  const Environment environment{{"SPECBOUND_KV", "int8"}};
  CHECK(given({"--device", "cuda"}).model.device.kv == KvType::kInt8);
}

TEST_CASE("a name that is nearly right is recognized") {
  CHECK(letters_apart("", "abc") == 3);
  CHECK(letters_apart("temp", "temp") == 0);
  CHECK(letters_apart("tmep", "temp") == 1);
  CHECK(letters_apart("kitten", "sitting") == 3);
  const std::vector<std::string> known = {"temp", "temps", "top-k", "threads"};
  CHECK(nearest("tempp", known) == "temp");
  CHECK(nearest("topk", known) == "top-k");
  CHECK(nearest("thre", known) == "threads");
  CHECK(nearest("frobnicate", known) == "");
  CHECK(nearest("", known) == "");
  CHECK(nearest("x", known) == "");
  CHECK(nearest(std::string(100000, 't'), known) == "");
}

}  // namespace settings_test
