#include "tools/heads_report.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "error.h"
#include "library/heads_path.h"
#include "library/model_path.h"
#include "model/config.h"
#include "model/exit_heads.h"
#include "system/number_text.h"
#include "terminal/terminal_text.h"

namespace specbound {
namespace {

using Json = nlohmann::ordered_json;

Json head_json(const HeadWeights& head) {
  size_t bytes = 0;
  for (const Matrix* m : head.matrices()) bytes += m->bytes();
  for (const float* norm : {head.norm, head.embedding_norm, head.state_norm, head.block.attn_norm,
                            head.block.ffn_norm}) {
    if (norm) bytes += static_cast<size_t>(head.block.wo.n_out) * sizeof(float);  // (dim)
  }
  bytes += head.tokens.size() * sizeof(int32_t);
  for (const auto& [bias, n] : {std::pair(head.map_bias, head.map.n_out),
                                {head.block.bq, head.block.wq.n_out},
                                {head.block.bk, head.block.wk.n_out},
                                {head.block.bv, head.block.wv.n_out}}) {
    if (bias) bytes += sizeof(float) * static_cast<size_t>(n);
  }
  for (const MedusaHead& one : head.medusa) {
    for (const MedusaHead::Block& b : one.blocks) {
      bytes += sizeof(float) * (b.map.n_out + b.residual.n_out);
    }
    if (one.lm_bias) bytes += sizeof(float) * one.lm_head.n_out;
  }
  Json json = {{"kind", head_kind_name(head.kind)},
               {"layer", head.layer},
               {"inner", head.inner.n_out},
               {"bytes", bytes},
               {"margin_scale", shortest_decimal(head.margin_scale)},
               {"margin_offset", shortest_decimal(head.margin_offset)}};
  if (head.temperature != 1) json["temperature"] = shortest_decimal(head.temperature);
  if (!head.medusa.empty()) json["places"] = head.medusa.size();
  return json;
}

Json heads_json(const ExitHeads& heads) {
  const HeadsBase& base = heads.base();
  const HeadDefaults& d = heads.defaults();
  Json json;
  json["base"] = {{"architecture", base.architecture},
                  {"n_layers", base.n_layers},
                  {"dim", base.dim},
                  {"vocab_size", base.vocab_size},
                  {"fingerprint", base.fingerprint}};
  json["heads"] = Json::array();
  for (const HeadWeights& head : heads.heads()) json["heads"].push_back(head_json(head));
  json["shortlist"] = heads.shortlist().size();
  json["text"] = heads.text().size();
  json["masks"] = heads.masks().count;
  json["reason"] = nullptr;
  if (!heads.can_guess()) return json;
  json["settings"] = {{"kind", head_kind_name(d.kind)},
                      {"check_layers", d.check_layers},
                      {"shortlist", d.shortlist},
                      {"alpha", shortest_decimal(d.alpha)},
                      {"tau", shortest_decimal(d.tau)},
                      {"d_max", d.d_max},
                      {"w_max", d.w_max}};
  return json;
}

std::string numbers_text(const Json& numbers) {
  return joined(numbers, ", ", [](const Json& n) { return std::to_string(n.get<int>()); });
}

// "folded at 1, 2; medusa at 0 for 5 places; text of 9 tokens", one entry a kind that there is.
std::string kinds_text(const Json& heads) {
  std::string text;
  for (HeadKind kind : kHeadKinds) {
    Json layers = Json::array();
    std::string places;
    for (const Json& head : heads["heads"]) {
      if (head["kind"] != head_kind_name(kind)) continue;
      layers.push_back(head["layer"]);
      if (head.contains("places")) places = format(" for %d places", head["places"].get<int>());
    }
    if (layers.empty()) continue;
    text += format("%s%s at %s", text.empty() ? "" : "; ", head_kind_name(kind),
                   numbers_text(layers).c_str()) +
            places;
  }
  if (heads["text"] > 0) {
    text += format("%stext of %zu tokens", text.empty() ? "" : "; ", heads["text"].get<size_t>());
  }
  if (heads["masks"] > 0) {
    text += format("%s%d mask tokens", text.empty() ? "" : "; ", heads["masks"].get<int>());
  }
  return text;
}

std::string text_of(const Json& value) {
  return terminal_text(value.get_ref<const std::string&>());
}

int number_of(const Json& value) {
  return value.get<int>();
}

}  // namespace

std::string reason_text(const Error& error, const std::string& path) {
  const std::string text = error.what(), prefix = path + ": ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

bool is_heads_file(const Gguf& gguf) {
  const GgufValue* value = gguf.find("general.architecture");
  return value && !value->is_array && value->type == GgufType::kString &&
         *gguf.get_string("general.architecture") == kHeadsArchitecture;
}

Json heads_file_json(const std::string& path) {
  try {
    return heads_json(ExitHeads::from_gguf(Gguf::open(path)));
  } catch (const Error& error) {
    return {{"reason", reason_text(error, path)}};
  }
}

void print_heads_file(const Json& heads) {
  if (!heads["reason"].is_null()) {
    std::printf("\nexit heads  cannot be used: %s\n", text_of(heads["reason"]).c_str());
    return;
  }
  const Json& base = heads["base"];
  std::printf("\nexit heads\n");
  std::printf("  made for    %s, %d layers, dim %d, vocabulary %d, fingerprint %s\n",
              text_of(base["architecture"]).c_str(), number_of(base["n_layers"]),
              number_of(base["dim"]), number_of(base["vocab_size"]),
              text_of(base["fingerprint"]).c_str());
  std::printf("  heads       %s\n", kinds_text(heads).c_str());
  std::printf("  shortlist   %d tokens\n", number_of(heads["shortlist"]));
  if (!heads.contains("settings")) return;
  const Json& settings = heads["settings"];
  std::printf("  settings    %s, check layers %s, shortlist %d\n",
              text_of(settings["kind"]).c_str(), numbers_text(settings["check_layers"]).c_str(),
              number_of(settings["shortlist"]));
  std::printf("              tau %g, alpha %g, d-max %d, w-max %d\n", settings["tau"].get<double>(),
              settings["alpha"].get<double>(), number_of(settings["d_max"]),
              number_of(settings["w_max"]));
}

Json model_heads_json(const Gguf& model) {
  const std::string path = heads_path(model.path(), model);
  Json json = {{"model_fingerprint", model_fingerprint(model)}, {"file", nullptr}};
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return json;
  try {
    Json found = heads_json(ExitHeads::open(path, model, read_config(model)));
    json["file"] = path;
    json.update(found);
  } catch (const Error& refusal) {
    json["file"] = path;
    json["reason"] = reason_text(refusal, path);
  }
  return json;
}

void print_model_heads(const std::string& model_path, const Json& heads) {
  if (heads["file"].is_null()) {
    std::printf("exit heads  none: %s makes them\n",
                terminal_text(train_command(model_path)).c_str());
    return;
  }
  const std::string file = text_of(heads["file"]);
  if (!heads["reason"].is_null()) {
    std::printf("exit heads  cannot be used: %s: %s\n", file.c_str(),
                text_of(heads["reason"]).c_str());
    return;
  }
  std::printf("exit heads  %s: %s\n", file.c_str(), kinds_text(heads).c_str());
}

}  // namespace specbound
