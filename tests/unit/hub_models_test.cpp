// Models by name: how names are read, which file of a repository is taken, lists that lie; and the
// checksum that files are held against.
#include "library/hub_models.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "download/fetch.h"
#include "download/http.h"
#include "download/sha256.h"
#include "expect_error.h"
#include "library/load_watcher.h"
#include "library/model_name.h"
#include "temp_dir.h"

namespace hub_models_test {

using namespace specbound;
using namespace specbound::test;

namespace {

std::string sha256(std::string_view text, size_t piece = 1 << 20) {
  Sha256 hash;
  for (size_t at = 0; at < text.size(); at += piece) hash.update(text.substr(at, piece));
  return hash.finish();
}

std::string entry(const std::string& path, const std::string& size = "7") {
  return R"({"type": "file", "path": ")" + path + R"(", "size": )" + size +
         R"(, "lfs": {"oid": ")" + std::string(64, 'a') + R"(", "size": )" + size + "}}";
}

std::vector<HubModel> read_list(const std::string& page) {
  return read_hub_list({&page, 1}, "list");
}

std::vector<HubModel> models_of(const std::vector<std::string>& paths) {
  std::string list;
  for (const std::string& path : paths) list += (list.empty() ? "" : ",") + entry(path);
  return read_list("[" + list + "]");
}

std::string chosen(const std::vector<HubModel>& models, const std::string& quantization) {
  HubName name{"o", "r", quantization};
  return choose_model(models, name).files.front().path;
}

}  // namespace

TEST_CASE("sha256: the vectors of FIPS 180-4, in pieces of any size") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (size_t piece = 1; piece < 70; ++piece) {
    CHECK(sha256(two, piece) == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
  const std::string million(1000000, 'a');
  for (const size_t piece : {1000000, 63, 64, 65, 997}) {
    CHECK(sha256(million, piece) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
  // Every length of the last block: the padding begins a further one from 56 on.
  CHECK(sha256(std::string(55, 'a')) ==
        "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(sha256(std::string(56, 'a')) ==
        "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  CHECK(sha256(std::string(64, 'a')) ==
        "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  CHECK(is_sha256(sha256("")));
  CHECK_FALSE(is_sha256(std::string(64, 'A')));
  CHECK_FALSE(is_sha256(std::string(63, 'a')));
  const TempDir folder;
  CHECK(file_sha256(folder / "nothing").empty());
  std::ofstream(folder / "abc") << "abc";
  uint64_t read = 0;
  CHECK(file_sha256(folder / "abc", [&](uint64_t done) { read = done; }) == sha256("abc"));
  CHECK(read == 3);
  CHECK_THROWS_AS(file_sha256(folder / "abc", [](uint64_t) { throw Interrupted("ended"); }),
                  Interrupted);
}

TEST_CASE("names of models: what hf: takes and what it refuses") {
  const HubName name = parse_hub_name("hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:q4_k_m");
  CHECK(name.owner == "Qwen");
  CHECK(name.repo == "Qwen2.5-Coder-1.5B-Instruct-GGUF");
  CHECK(name.quantization == "Q4_K_M");
  CHECK(name.text() == "hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q4_K_M");
  CHECK(parse_hub_name("hf:a/b").text() == "hf:a/b");
  CHECK(parse_hub_name("hf:a/b:fp16").quantization == "F16");
  for (const char* prefix :
       {"hf.co/", "huggingface.co/", "https://hf.co/", "https://huggingface.co/"}) {
    CHECK(parse_hub_name(prefix + std::string("a/b:q8_0")).text() == "hf:a/b:Q8_0");
    CHECK_THROWS_AS(parse_hub_name(prefix + std::string("a/b/tree/main")), Error);
  }
  CHECK(hub_model("a/b") == "hf:a/b");
  CHECK(hub_model("hf.co/a/b") == "hf.co/a/b");
  for (const char* text : {"a/b", "Qwen/Qwen3-0.6B-GGUF", "a/b:Q8_0"}) {
    CHECK(looks_like_a_repository(text));
  }
  for (const char* text : {"a", "a/b.gguf", "a/b/c", "./b", "../b", "/a/b", "~/b", "a/", "/"}) {
    CHECK_FALSE(looks_like_a_repository(text));
  }
  CHECK(parse_hub_name("hf:a/b:x/Y z-q8_0.gguf").quantization == "x/Y z-q8_0.gguf");
  for (const char* text : {"hf:",
                           "hf:a",
                           "hf:/b",
                           "hf:a/",
                           "hf:a/b/c",
                           "hf:a/b:",
                           "hf:a/b:c/d",
                           "hf:a/..",
                           "hf:../b",
                           "hf:a/b:../c.gguf",
                           "hf:a/b:/c.gguf",
                           "hf:a/b c",
                           "hf:a/b?c",
                           "hf:a/b#c",
                           "hf:a/b%2e",
                           "hf:.a/b",
                           "hf:a/-b",
                           "hf:a/b..c",
                           "hf:a\nb/c",
                           "hf:\xc3\xa4/b"}) {
    check_mentions(expect_error(ErrorCode::kUsage, [&] { parse_hub_name(text); }),
                   {"hf:OWNER/REPO:QUANT"});
  }
  CHECK_THROWS_AS(parse_hub_name("hf:a/" + std::string(97, 'b')), Error);
  CHECK(find_hub_name("model.gguf") == std::nullopt);
  for (const ShortName& known : short_names()) {
    const auto found = find_hub_name(known.name);
    REQUIRE(found);
    CHECK(found->text() == known.hub);
    CHECK_FALSE(found->quantization.empty());
  }
}

TEST_CASE("names of models: which quantization a file name says") {
  const std::pair<const char*, const char*> kNames[] = {
      {"qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "Q4_K_M"},
      {"SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"},
      {"Llama-3.2-3B-Instruct-Q4_0_4_8.gguf", "Q4_0_4_8"},
      {"gemma-2-2b-it-f32.gguf", "F32"},
      {"a/Q8_0/x-fp16.gguf", "F16"},
      {"Q8_0/x.gguf", ""},
      {"Qwen3-0.6B.gguf", ""},
      {"x-UD-IQ2_XXS.gguf", "IQ2_XXS"},
      {"x-Q4_K_M-imat.gguf", "Q4_K_M"},
      {"x-BF16-00001-of-00002.gguf", "BF16"},
      {"q4_0", "Q4_0"},
      {"", ""},
  };
  for (const auto& name : kNames) {
    INFO(name.first);
    CHECK(quantization_of(name.first) == name.second);
  }
}

TEST_CASE("paths of a list stay in their folder") {
  for (const char* path : {"a.gguf", "a/b.gguf", "A b (1)/x+y@z=1,2_3-4.gguf", "a/b/c/d/e.gguf"}) {
    CHECK(is_safe_path(path));
  }
  for (const char* path :
       {"",        "/",        "/a",  "a/",   "a//b", ".",    "..",   "../a",
        "a/..",    "a/../b",   ".a",  "a/.b", "-a",   "a\\b", "a\nb", "a\x7f",
        "a\x1b[m", "\xc3\xa4", "a:b", "a'b",  "a\"b", "a$b",  "a*b",  "a/b/c/d/e/f"}) {
    INFO(path);
    CHECK_FALSE(is_safe_path(path));
  }
  CHECK_FALSE(is_safe_path(std::string("a\0b", 3)));
  CHECK_FALSE(is_safe_path(std::string(401, 'a')));
}

TEST_CASE("a list: models, and what is none") {
  const auto models = models_of({"m-Q8_0.gguf", "m-Q4_K_M.gguf", "README.md", "mmproj-m-f16.gguf",
                                 "m.imatrix.gguf", "m-Q8_0.heads.gguf", "../m-Q2_K.gguf"});
  REQUIRE(models.size() == 2);
  CHECK(models[0].quantization == "Q4_K_M");
  CHECK(models[1].files.front().sha256 == std::string(64, 'a'));
  CHECK(models[1].bytes() == 7);
  CHECK(read_list("[]").empty());
  CHECK(read_list(R"([{"type": "directory", "path": "a.gguf"}])").empty());
  // Of a file outside LFS there is no checksum.
  CHECK(read_list(R"([{"path": "a.gguf", "size": 3}])")[0].files[0].sha256.empty());
  for (const char* text :
       {"", "{}", "3", "[3]", R"([{"path": 3}])", R"([{"path": "a.gguf"}])",
        R"([{"path": "a.gguf", "size": -1}])", R"([{"path": "a.gguf", "size": 1.5}])",
        R"([{"path": "a.gguf", "size": 99999999999999}])",
        R"([{"path": "a.gguf", "size": 1, "lfs": 3}])",
        R"([{"path": "a.gguf", "size": 1, "lfs": {"oid": 3}}])", "[[[[[[[[[]]]]]]]]]"}) {
    INFO(text);
    check_mentions(expect_error(ErrorCode::kFormat, [&] { read_list(text); }), {"list"});
  }
}

TEST_CASE("a list in pages") {
  const std::vector<std::string> pages = {"[" + entry("m-Q8_0-00002-of-00002.gguf") + "]", "[]",
                                          "[" + entry("m-Q8_0-00001-of-00002.gguf") + "]"};
  const auto models = read_hub_list(pages, "list");
  REQUIRE(models.size() == 1);
  CHECK(models[0].files.size() == 2);
}

TEST_CASE("the next page of an answer") {
  CHECK(read_next_link("<https://h/a?b=1,2>; rel=\"next\"") == "https://h/a?b=1,2");
  CHECK(read_next_link("<https://h/a>; rel=\"prev\", <https://h/b>; Rel=\"Next\"") ==
        "https://h/b");
  for (const char* text : {"", "<", "><", "<https://h/a>", "<https://h/a>; rel=\"prev\"",
                           "https://h/a; rel=\"next\""}) {
    INFO(text);
    CHECK(read_next_link(text).empty());
  }
}

TEST_CASE("a list: split models") {
  auto models = models_of({"a/m-Q8_0-00002-of-00002.gguf", "a/m-Q8_0-00001-of-00002.gguf",
                           "b/m-Q8_0-00001-of-00003.gguf", "m-Q4_0-00000-of-00000.gguf",
                           "n-Q4_0-00003-of-00002.gguf", "o-Q5_0-00002-of-00002.gguf"});
  REQUIRE(models.size() == 2);
  CHECK(models[0].files.size() == 2);
  CHECK(models[0].files[0].path == "a/m-Q8_0-00001-of-00002.gguf");
  CHECK(models[0].quantization == "Q8_0");
  CHECK(models[0].bytes() == 14);
  CHECK(chosen(models, "m-Q8_0-00001-of-00002.gguf") == models[0].files[0].path);
  check_mentions(
      expect_error(ErrorCode::kFormat, [&] { chosen(models, "b/m-Q8_0-00001-of-00003.gguf"); }),
      {"expected 3 parts, found 1"});
}

TEST_CASE("which model is taken: what runs as it is before what is converted") {
  const std::vector<std::string> order = {"Q4_K_M", "Q4_0", "Q4_K_S", "Q8_0",
                                          "Q4_1",   "Q6_K", "F16"};
  std::vector<std::string> paths = {"m-IQ2_XXS.gguf"};
  for (const std::string& quantization : order) paths.push_back("m-" + quantization + ".gguf");
  for (const std::string& quantization : order) {
    const auto models = models_of(paths);
    CHECK(chosen(models, "") == "m-" + quantization + ".gguf");
    CHECK(chosen(models, quantization) == "m-" + quantization + ".gguf");
    std::erase(paths, "m-" + quantization + ".gguf");
  }
  CHECK(chosen(models_of(paths), "") == "m-IQ2_XXS.gguf");  // the only one
  paths.push_back("m-TQ1_0.gguf");
  const auto models = models_of(paths);
  check_mentions(expect_error(ErrorCode::kUsage, [&] { chosen(models, ""); }),
                 {"hf:o/r", "IQ2_XXS, TQ1_0"});
  check_mentions(expect_error(ErrorCode::kUsage, [&] { chosen(models, "Q8_0"); }),
                 {"hf:o/r:Q8_0", "IQ2_XXS, TQ1_0"});
  check_mentions(expect_error(ErrorCode::kUsage, [&] { chosen({}, ""); }), {"no GGUF file"});
  const auto twins = models_of({"a-Q8_0.gguf", "b/a-Q8_0.gguf"});
  check_mentions(expect_error(ErrorCode::kUsage, [&] { chosen(twins, "Q8_0"); }),
                 {"a-Q8_0.gguf, b/a-Q8_0.gguf", "hf:o/r:FILE.gguf"});
  CHECK(chosen(twins, "b/a-Q8_0.gguf") == "b/a-Q8_0.gguf");
  CHECK(chosen(twins, "a-Q8_0.gguf") == "a-Q8_0.gguf");  // a whole path before a name in a folder
  const auto inside = models_of({"b/a-Q8_0.gguf", "c/b/a-Q4_0.gguf", "c/a-Q8_0.gguf"});
  CHECK(chosen(inside, "a-Q4_0.gguf") == "c/b/a-Q4_0.gguf");
  CHECK_THROWS_AS(chosen(inside, "a-Q8_0.gguf"), Error);
  CHECK_THROWS_AS(chosen(inside, "b/a-Q4_0.gguf"), Error);  // the end of a path is none
}

TEST_CASE("a download that is ended before it reads what is there keeps it") {
  const TempDir folder;
  FetchedFile file{"https://host/a.gguf", folder / "a.gguf", 10, std::string(64, 'a')};
  const std::string part = folder / ("a.gguf." + std::string(12, 'a') + ".part");
  const std::atomic<bool> abort = true;
  FetchWatcher watcher;
  watcher.abort = &abort;
  std::ofstream(part) << "12345";
  CHECK_FALSE(fetch_file({}, file, watcher));
  CHECK(bytes_left_of(file) == 5);
  std::ofstream(part, std::ios::trunc).close();
  CHECK_FALSE(fetch_file({}, file, watcher));
  CHECK_FALSE(std::filesystem::exists(part));
}

TEST_CASE("ranges of an answer") {
  const auto range = [](const char* text) {
    HttpReply reply;
    read_content_range(text, reply);
    return std::pair(reply.range_from, reply.range_all);
  };
  using Number = std::optional<uint64_t>;
  CHECK(range("bytes 5-9/10") == std::pair(Number(5), Number(10)));
  CHECK(range("bytes 5-9/*") == std::pair(Number(5), Number()));
  for (const char* text : {"", "bytes", "bytes */10", "bytes 5", "5-9/10", "bytes -1-9/10",
                           "bytes 99999999999999999999-1/2", "items 5-9/10", "bytes 5/10-9"}) {
    INFO(text);
    CHECK(range(text).first == Number());
  }
}

}  // namespace hub_models_test
