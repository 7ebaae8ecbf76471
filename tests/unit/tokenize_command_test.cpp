// specbound tokenize and detokenize as typed: what goes to which stream, and the exit statuses.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "temp_dir.h"

namespace specbound::tokenize_command_test {

namespace {

const std::string kVocabulary = SPECBOUND_TEST_DATA "/tokenizer/ggml-vocab-llama-spm.gguf";

struct Result {
  int status;
  std::string out, err;
};

class Shell {
 public:
  // `arguments` as the shell reads them, "$V" being the vocabulary file and "$B" the program.
  Result run(const std::string& arguments, const std::string& input = "") {
    write("in", input);
    const std::string command = "B='" SPECBOUND_BINARY "'; V='" + kVocabulary + "'; \"$B\" " +
                                arguments + " <'" + dir_ / "in" + "' >'" + dir_ / "out" + "' 2>'" +
                                dir_ / "err" + "'";
    const int status = std::system(command.c_str());
    REQUIRE(WIFEXITED(status));
    return {WEXITSTATUS(status), read("out"), read("err")};
  }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }

 private:
  std::string read(const std::string& name) {
    std::ifstream file(dir_ / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  test::TempDir dir_;
};

void check_ids(const Result& result, const std::string& ids) {
  CHECK(result.status == 0);
  CHECK(result.out == ids + "\n");
  CHECK(result.err == "");
}

// Nothing but one line on stderr.
void check_refused(const Result& result, int status, const std::string& mention) {
  CAPTURE(result.err);
  CHECK(result.status == status);
  CHECK(result.out == "");
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK(result.err.ends_with('\n'));
  CHECK(result.err.find(mention) != std::string::npos);
}

}  // namespace

TEST_CASE("tokenize: text from the flag, a file or standard input") {
  Shell shell;
  check_ids(shell.run("tokenize -m \"$V\" -p 'Hello world'"), "1 15043 3186");
  check_ids(shell.run("tokenize -m \"$V\" --no-bos -p 'Hello world'"), "15043 3186");
  check_ids(shell.run("tokenize --model \"$V\" -p ''"), "1");
  check_ids(shell.run("tokenize -m \"$V\" --no-bos -p ''"), "");
  check_ids(shell.run("tokenize -m \"$V\"", "Hello world"), "1 15043 3186");
  const std::string path = shell.write("text", "Hello world");
  check_ids(shell.run("tokenize -m \"$V\" -f '" + path + "'"), "1 15043 3186");
  check_ids(shell.run("tokenize -m \"$V\" -f -", "Hello world"), "1 15043 3186");
  // As run does: editors and echo put the last line end there.
  check_ids(shell.run("tokenize -m \"$V\"", "Hello world\n"), "1 15043 3186");
  check_ids(shell.run("tokenize -m \"$V\" -f -", "Hello world\r\n"), "1 15043 3186");
  check_ids(shell.run("tokenize -m \"$V\" -f -", "Hello world\n\n"), "1 15043 3186 13");
  check_ids(shell.run("tokenize -m \"$V\" -p 'Hello world\n'"), "1 15043 3186 13");
  check_ids(shell.run("tokenize -m \"$V\" --no-bos", "\n"), "");
  check_ids(shell.run("tokenize -m \"$V\" -p -x"), "1 448 29916");
  const Result text = shell.run("tokenize -m \"$V\" --no-bos -p 'Hello</s>'");
  CHECK(text.out.find(" 2\n") == std::string::npos);
  check_ids(shell.run("tokenize -m \"$V\" --no-bos --special -p 'Hello</s>'"), "15043 2");
}

TEST_CASE("detokenize: exactly the text, from arguments or standard input") {
  Shell shell;
  const auto check_text = [](const Result& result, const std::string& text) {
    CHECK(result.status == 0);
    CHECK(result.out == text);
    CHECK(result.err == "");
  };
  check_text(shell.run("detokenize -m \"$V\" 1 15043 3186 2"), "Hello world");
  check_text(shell.run("detokenize -m \"$V\" '1 15043' 3186"), "Hello world");
  check_text(shell.run("detokenize -m \"$V\" --special 1 15043 3186 2"), "<s>Hello world</s>");
  check_text(shell.run("detokenize -m \"$V\"", " 1 15043\n\t3186 \n"), "Hello world");
  check_text(shell.run("detokenize -m \"$V\""), "");
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::string text = "\n two  lines \n\xF0\x9F\xA6\x99" + all;
  check_text(shell.run("detokenize -m \"$V\"", shell.run("tokenize -m \"$V\"", text).out), text);
  const std::string gpt2 = " -m '" SPECBOUND_TEST_DATA "/tokenizer/ggml-vocab-gpt-2.gguf' ";
  check_ids(shell.run("tokenize" + gpt2 + "-p 'Hello world'"), "15496 995");
  check_text(shell.run("detokenize" + gpt2 + "15496 995"), "Hello world");
  check_text(shell.run("detokenize" + gpt2, shell.run("tokenize" + gpt2, text).out), text);
}

TEST_CASE("tokenize, detokenize: without -m, the model that run and chat would take") {
  Shell shell;
  setenv("SPECBOUND_MODEL", kVocabulary.c_str(), 1);
  const Result ids = shell.run("tokenize -p 'Hello world'");
  CHECK(ids.out == "1 15043 3186\n");
  CHECK(ids.err == "settings from the environment: model\n");
  CHECK(shell.run("detokenize 15043 3186").out == "Hello world");
  setenv("SPECBOUND_MODEL", "/absent.gguf", 1);
  for (const char* command : {"tokenize -p a", "detokenize 1"}) {
    const Result absent = shell.run(command);
    CHECK(absent.status == 1);
    CHECK(absent.err.find("/absent.gguf") != std::string::npos);
  }
  unsetenv("SPECBOUND_MODEL");
}

TEST_CASE("tokenize, detokenize: mistakes are told in one line") {
  Shell shell;
  for (const char* command : {"tokenize", "detokenize"}) {
    check_refused(shell.run(std::string(command) + " -m ''"), 2, "found an empty one");
  }
  check_refused(shell.run("tokenize -m \"$V\" -p a -f b"), 2, "-p and -f");
  check_refused(shell.run("tokenize -m \"$V\" -f ''"), 2, "found an empty one");
  check_refused(shell.run("tokenize -m \"$V\" -f /dev/zero"), 1, "64 MiB");
  check_refused(shell.run("tokenize -m \"$V\" --nonsense"), 2, "--nonsense");
  check_refused(shell.run("tokenize -m /nonexistent.gguf -p a"), 1, "/nonexistent.gguf");
  check_refused(shell.run("tokenize -m \"$V\" -f /nonexistent"), 1, "/nonexistent");
  check_refused(shell.run("tokenize -m \"$V\" -f /"), 1, "directory");
  for (const char* id : {"32000", "-1", "x", "1x", "1.5", "0x1", "99999999999999999999", "1,2"}) {
    CAPTURE(id);
    check_refused(shell.run(std::string("detokenize -m \"$V\" -- 1 ") + id), 2, "0 to 31999");
    check_refused(shell.run("detokenize -m \"$V\"", std::string("1 ") + id), 2, "0 to 31999");
  }
  for (const char* command : {"tokenize", "detokenize"}) {
    const Result help = shell.run(std::string(command) + " --help");
    CHECK(help.status == 0);
    CHECK(help.err == "");
    CHECK(help.out.find("Examples:") != std::string::npos);
  }
}

}  // namespace specbound::tokenize_command_test
