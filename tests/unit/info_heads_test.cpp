// What `specbound info` says of exit heads.
#include "tools/heads_report.h"

#include <doctest/doctest.h>

#include <fstream>

#include "expect_error.h"
#include "library/model_path.h"
#include "temp_dir.h"
#include "tiny_heads.h"

namespace specbound::test::info_heads_test {
namespace {

using Json = nlohmann::ordered_json;

std::string write_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

TEST_CASE("info: a file of exit heads, and the one beside a model") {
  const TempDir dir;
  TinySpec spec;
  spec.n_layers = 3;
  const std::string path = write_bytes(dir / "m.gguf", tiny_model(spec));
  const Gguf model = Gguf::open(path);
  const ModelConfig config = read_config(model);
  CHECK(!is_heads_file(model));
  const Json none = model_heads_json(model);
  CHECK(none["file"].is_null());
  CHECK(none["model_fingerprint"] == model_fingerprint(model));

  const std::string heads_path = sidecar_heads(path);
  NewHeads written = random_heads(heads_base(model, config));
  written.text = {1, 2, 3, -1};
  written.heads[2].temperature = 1.5f;
  write_exit_heads(heads_path, written);
  CHECK(is_heads_file(Gguf::open(heads_path)));
  const Json file = heads_file_json(heads_path);
  CHECK(file["reason"].is_null());
  CHECK(file["base"] == Json({{"architecture", "llama"},
                              {"n_layers", 3},
                              {"dim", 64},
                              {"vocab_size", 97},
                              {"fingerprint", model_fingerprint(model)}}));
  REQUIRE(file["heads"].size() == 7);
  CHECK(file["heads"][0] == Json({{"kind", "full"},
                                  {"layer", 1},
                                  {"inner", 0},
                                  {"bytes", 64 * 64 * 2},
                                  {"margin_scale", 1.25},
                                  {"margin_offset", -0.5}}));
  CHECK(file["heads"][2]["temperature"] == 1.5);
  CHECK(file["heads"][4]["kind"] == "chained");
  CHECK(file["heads"][4]["layer"] == 0);
  CHECK(file["heads"][4]["inner"] == 32);
  CHECK(file["heads"][4]["bytes"] == (64 * 128 + 32 * 128 + 64 * 32) / 32 * 34);
  CHECK(file["shortlist"] == 32);
  CHECK(file["text"] == 4);
  CHECK(file["settings"] == Json({{"kind", "folded"},
                                  {"check_layers", {1, 2}},
                                  {"shortlist", 16},
                                  {"alpha", 0.2},
                                  {"tau", 0.55},
                                  {"d_max", 10},
                                  {"w_max", 8}}));

  const Json beside = model_heads_json(model);
  CHECK(beside["file"] == heads_path);
  CHECK(beside["reason"].is_null());
  CHECK(beside["heads"] == file["heads"]);

  // The heads of a model that was trained further, and a file cut short.
  spec.seed = 2;
  const std::string other_path = write_bytes(dir / "other.gguf", tiny_model(spec));
  std::filesystem::copy_file(heads_path, sidecar_heads(other_path));
  const Json other = model_heads_json(Gguf::open(other_path));
  CHECK(other["file"] == sidecar_heads(other_path));
  check_mentions(other["reason"], {"made for another model", "expected fingerprint"});
  CHECK(!other.contains("heads"));

  std::filesystem::resize_file(heads_path, std::filesystem::file_size(heads_path) - 100);
  check_mentions(heads_file_json(heads_path)["reason"], {"tensor '", "cut short"});
}

}  // namespace
}  // namespace specbound::test::info_heads_test
