// A model's own layer of multi-token prediction, out of a checkpoint in MiMo's layout: what does
// not fit is one Error, what is not of the layer is left alone.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "broken_heads.h"
#include "expect_error.h"

namespace specbound::convert_mtp_test {
namespace {

using nlohmann::json;
using published::Broken;
using published::case_named;
using published::refused;
using test::check_mentions;
using test::expect_error;

const std::string kLayer = "model.mtp_layers.0.";

}  // namespace

TEST_CASE("mtp checkpoints that do not fit are refused") {
  const auto config = [](const char* key, const json& value, ErrorCode code = ErrorCode::kFormat) {
    return refused(
        "mtp", [&](Broken& b) { b.config[key] = value; }, code);
  };
  const char* const count = "num_nextn_predict_layers";
  check_mentions(config(count, 0), {"dir/config.json", count, "1 to 64", "found 0"});
  check_mentions(config(count, 65), {count, "1 to 64", "found 65"});
  check_mentions(config(count, "1"), {count, "found \"1\""});
  check_mentions(config("num_hidden_layers", 1), {"num_hidden_layers", "expected 2", "found 1"});
  check_mentions(config("hidden_size", 65), {"hidden_size", "expected 64", "found 65"});
  check_mentions(config("vocab_size", 100), {"vocab_size", "expected 101", "found 100"});
  check_mentions(config("num_key_value_heads", 4), {"num_key_value_heads", "expected 2", "4"});
  check_mentions(config("head_dim", 32), {"head_dim", "expected 16", "found 32"});
  check_mentions(config("rms_norm_eps", 1e-5), {"rms_norm_eps", "expected 0.002"});
  check_mentions(config("rope_theta", 640000), {"rope_theta", "expected 1e+06", "found 640000"});
  check_mentions(config("intermediate_size", 96), {"gate_proj.weight", "expected the shape (96"});
  check_mentions(config("intermediate_size", 65), {"intermediate_size", "a multiple of 32"});
  check_mentions(config("hidden_act", "gelu", ErrorCode::kUnsupported), {"hidden_act", "'gelu'"});
  for (const auto& entry : Broken(case_named("mtp")).tensors) {
    const std::string lost = entry.first;
    if (!lost.starts_with(kLayer)) continue;
    CAPTURE(lost);
    // Biases there are all or none.
    const std::string none = refused("mtp", [&](Broken& b) { b.tensors.erase(lost); });
    if (lost.ends_with("q_proj.bias")) {
      check_mentions(none, {"k_proj.bias", "no more than a layer of MiMo has"});
    } else {
      check_mentions(none, {lost, "found none"});
    }
    check_mentions(refused("mtp", [&](Broken& b) { b.tensors.at(lost).shape.push_back(1); }),
                   {lost, "expected the shape"});
    check_mentions(refused("mtp", [&](Broken& b) { b.tensors.at(lost).dtype = "I16"; }),
                   {lost, "expected F32, F16 or BF16, found I16"});
    const uint16_t bits = 0x7fc0;
    check_mentions(
        refused("mtp",
                [&](Broken& b) { std::memcpy(b.tensors.at(lost).bytes.data() + 8, &bits, 2); }),
        {"out.gguf", "exit.0.mtp.", "expected finite values"});
  }
  check_mentions(refused("mtp",
                         [](Broken& b) {
                           b.tensors[kLayer + "self_attn.q_norm.weight"] = {"F32", {1}, "1234"};
                         }),
                 {"q_norm.weight", "no more than a layer of MiMo has"});
  check_mentions(refused("mtp",
                         [](Broken& b) {
                           b.tensors["model.mtp_layers.1.input_proj.weight"] = {"F32", {1}, "1234"};
                         }),
                 {count, "as many as there are tensors of", "found 1"});
  check_mentions(refused("mtp",
                         [](Broken& b) {
                           std::string& bytes = b.tensors.at("model.embed_tokens.weight").bytes;
                           std::ranges::reverse(bytes);
                         }),
                 {"model.embed_tokens.weight", "expected the model's own"});
  // A directory of the model without the layer.
  check_mentions(refused(
                     "mtp",
                     [](Broken& b) {
                       std::erase_if(b.tensors,
                                     [](const auto& e) { return e.first.starts_with(kLayer); });
                     },
                     ErrorCode::kUnsupported),
                 {"dir/config.json", "'model.mtp_layers.0.input_proj.weight', of a model's own"});
}

TEST_CASE("mtp: the rest of the model's checkpoint, and further layers, are left alone") {
  Broken whole(case_named("mtp"));
  const json config = whole.config;
  const auto heads = [&] {
    const std::string bytes = whole.file();
    const Checkpoint checkpoint = Checkpoint::of(
        Safetensors::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "x"), "dir");
    return exit_heads_file(
        "out", read_published_heads(whole.config, "config.json", checkpoint, whole.model, {}));
  };
  const std::vector<std::byte> alone = heads();
  for (const char* name : {"model.layers.0.mlp.up_proj.weight", "model.norm.weight"}) {
    whole.tensors[name] = {"I64", {}, "12345678"};
  }
  CHECK(heads() == alone);
  whole.tensors["model.mtp_layers.1.input_proj.weight"] = {"BOOL", {2}, "12"};
  whole.config["num_nextn_predict_layers"] = 2;
  CHECK(heads() == alone);
  // Nothing that the file leaves unsaid is refused.
  for (const char* key : {"num_nextn_predict_layers", "rope_theta", "hidden_act", "head_dim"}) {
    whole.config.erase(key);
  }
  whole.tensors.erase("model.mtp_layers.1.input_proj.weight");
  CHECK(heads() == alone);
}

}  // namespace specbound::convert_mtp_test
