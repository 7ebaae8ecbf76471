// `specbound info`: what a GGUF file holds, and whether and why it can run here; what exit heads
// there are. Everything is first gathered as JSON; the text for people is a rendering of the same
// report.
#include <charconv>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "cli/command.h"
#include "cli/common_flags.h"
#include "engine/cpu/kv_cache.h"
#include "error.h"
#include "json/json_writer.h"
#include "library/model_path.h"
#include "model/config.h"
#include "model/conversion.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "runtime/gpu_fit.h"
#include "system/number_text.h"
#include "terminal/progress.h"
#include "terminal/terminal_text.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "tools/heads_report.h"

namespace specbound::info_command {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWholeArray = 8;        // arrays up to here are shown whole
constexpr size_t kFirstOfArray = 4;      // elements shown of longer ones
constexpr size_t kShownCharacters = 72;  // of a string, for people

Json number_json(GgufType type, const std::byte* bytes) {
  return std::visit([](auto number) { return Json(number); }, load_number(type, bytes));
}

// A value as JSON; of a long array the first elements and the count.
Json value_json(const Gguf& gguf, std::string_view key, const GgufValue& value) {
  if (!value.is_array) {
    if (value.type == GgufType::kString) return *gguf.get_string(key);
    return number_json(value.type, value.bytes.data());
  }
  const size_t shown = value.count <= kWholeArray ? value.count : kFirstOfArray;
  Json elements = Json::array();
  if (value.type == GgufType::kString) {
    const auto strings = *gguf.get_strings(key);
    for (size_t i = 0; i < shown; ++i) elements.push_back(strings[i]);
  } else {
    const size_t size = value.count ? value.bytes.size() / value.count : 0;
    for (size_t i = 0; i < shown; ++i) {
      elements.push_back(number_json(value.type, value.bytes.data() + i * size));
    }
  }
  if (shown == value.count) return elements;
  return {{"count", value.count}, {"first", elements}};
}

Json metadata_json(const Gguf& gguf) {
  Json::object_t object;
  // Keys are unique already; operator[] would search all earlier ones for each.
  for (const auto& [key, value] : gguf.metadata()) {
    object.push_back({std::string(key), value_json(gguf, key, value)});
  }
  return object;
}

// The files of a split model.
Json files_json(const Gguf& gguf) {
  Json files = Json::array();
  for (const Gguf::File& part : gguf.parts()) {
    files.push_back({{"file", part.path}, {"bytes", part.bytes}, {"tensors", part.n_tensors}});
  }
  return files;
}

void report_tensors(const Gguf& gguf, bool list, Json& report) {
  struct Sum {
    uint64_t tensors = 0, parameters = 0, bytes = 0;
    Json json() const {
      return {{"tensors", tensors}, {"parameters", parameters}, {"bytes", bytes}};
    }
  };
  Sum total;
  std::map<std::string, Sum> by_type;
  Json all = Json::array();
  for (const GgufTensor& tensor : gguf.tensors()) {
    uint64_t n = 1;
    for (uint64_t size : tensor.shape) n *= size;
    const char* type = dtype_info(tensor.type)->name;
    for (Sum* sum : {&total, &by_type[type]}) {
      sum->tensors += 1;
      sum->parameters += n;
      sum->bytes += tensor.bytes.size();
    }
    if (list) {
      all.push_back({{"name", tensor.name},
                     {"type", type},
                     {"shape", tensor.shape},
                     {"bytes", tensor.bytes.size()}});
    }
  }
  report["totals"] = total.json();
  report["by_type"] = Json::object();
  for (const auto& [type, sum] : by_type) report["by_type"][type] = sum.json();
  if (list) report["tensors"] = std::move(all);
}

Json config_json(const ModelConfig& c) {
  return {{"architecture", c.architecture},
          {"n_layers", c.n_layers},
          {"dim", c.dim},
          {"ffn_dim", c.ffn_dim},
          {"n_experts", c.n_experts},
          {"n_experts_used", c.n_experts_used},
          {"n_heads", c.n_heads},
          {"n_kv_heads", c.n_kv_heads},
          {"head_dim", c.head_dim},
          {"vocab_size", c.vocab_size},
          {"max_seq_len", c.max_seq_len},
          {"norm_eps", c.norm_eps},
          {"rope_theta", c.rope_theta},
          {"rope_scale", c.rope_scale},
          {"rope_scaling", c.yarn ? "yarn" : "linear"},
          {"windowed_rope_theta", c.windowed_rope_theta},
          {"rope_pairs", c.rope_style == RopeStyle::kInterleaved ? "interleaved" : "halves"},
          {"rope_dim", c.rope_dim},
          {"rope_skips_each", c.no_rope_step},
          {"rope_original_context", c.rope_original_context},
          {"rope_attn_factor", c.rope_attn_factor},
          {"activation", c.activation == Activation::kGelu ? "gelu" : "silu"},
          {"embedding_scale", c.embedding_scale},
          {"score_scale", c.score_scale},
          {"attn_softcap", c.attn_softcap},
          {"final_softcap", c.final_softcap},
          {"window", c.window},
          {"window_step", c.window_step},
          {"kv_cache_bytes_per_token", c.n_layers * kv_position_bytes(c, KvType::kFp16)},
          {"kv_cache_int8_bytes_per_token", c.n_layers * kv_position_bytes(c, KvType::kInt8)}};
}

// Can the weights run, and if not, why: the loader itself is asked.
void report_runs(const Gguf& gguf, Json& report) {
  report["vocabulary_only"] = gguf.tensors().empty();
  report["config"] = nullptr;
  report["runs"] = false;
  report["reason"] = nullptr;
  report["conversion"] = nullptr;
  report["gpu"] = nullptr;
  try {
    const ModelConfig config = read_config(gguf);
    report["config"] = config_json(config);
    const Weights weights = map_weights(gguf, config);
    report["config"]["tied_embeddings"] = weights.tied;
    report["config"]["llama3_rope_scaling"] =
        weights.rope_factors != nullptr && weights.rope_factors_long == nullptr;
    report["config"]["weight_bytes_per_token"] = weights.bytes_per_token();
    const std::string conversion = conversion_note(weights);
    report["conversion"] = conversion.empty() ? Json() : Json(conversion);
    report["runs"] = true;
    report["gpu"] = gpu_json(gguf, config, weights);
  } catch (const Error& error) {
    report["reason"] = reason_text(error, gguf.path());
  }
}

// Can text be turned into this file's token ids.
void report_text(const Gguf& gguf, Json& report) {
  report["tokenizer"] = nullptr;
  report["text"] = false;
  report["text_reason"] = nullptr;
  report["text_notes"] = Json::array();
  try {
    const std::string_view kind = gguf.get_string("tokenizer.ggml.model").value_or("none");
    report["tokenizer"] = kind;
    if (kind == "none") {
      report["text_reason"] = "the file has no vocabulary: ids only";
      return;
    }
    report["text_notes"] = Tokenizer::from_gguf(gguf)->notes();
    report["text"] = true;
  } catch (const Error& error) {
    report["text_reason"] = reason_text(error, gguf.path());
  }
}

// ---- the report for people ----

// Text from a file as a quoted string on one line of a terminal, cut.
std::string shown_text(std::string_view text) {
  std::string out = "\"";
  size_t at = 0;
  for (size_t shown = 0; at < text.size() && shown < kShownCharacters; ++shown) {
    const std::string_view c = text.substr(at, utf8_head(text.substr(at)).length);
    if (c == "\n") {
      out += "\\n";
    } else if (c == "\"" || c == "\\") {
      out += "\\" + std::string(c);
    } else {
      out += terminal_text(c);
    }
    at += c.size();
  }
  out += "\"";
  if (at < text.size()) out += format(" ... (%zu bytes)", text.size());
  return out;
}

std::string size_text(uint64_t bytes) {
  if (bytes < 10 * 1024) return grouped(bytes) + " B";
  const double mib = static_cast<double>(bytes) / (1 << 20);
  if (mib < 1) return format("%.1f KiB", mib * 1024);
  return mib < 1024 ? format("%.1f MiB", mib) : format("%.2f GiB", mib / 1024);
}

std::string value_text(const Json& value) {
  if (value.is_string()) return shown_text(value.get_ref<const std::string&>());
  if (value.is_number_float()) {  // shortest text that reads back as the same float
    char text[32];
    const double number = value.get<double>();
    const bool is_float = static_cast<double>(static_cast<float>(number)) == number;
    const auto end = is_float ? std::to_chars(text, text + sizeof(text), static_cast<float>(number))
                              : std::to_chars(text, text + sizeof(text), number);
    return std::string(text, end.ptr);
  }
  if (value.is_object()) {  // a long array
    std::string text = "[";
    for (const Json& element : value["first"]) text += value_text(element) + ", ";
    return text + format("... %s in all]", grouped(value["count"].get<uint64_t>()).c_str());
  }
  if (value.is_array()) {
    std::string text = "[";
    for (const Json& element : value) {
      if (text.size() > 1) text += ", ";
      text += value_text(element);
    }
    return text + "]";
  }
  return value.dump();
}

std::string type_text(const GgufValue& value) {
  return value.is_array ? std::string(gguf_type_name(value.type)) + "[]"
                        : gguf_type_name(value.type);
}

void print_metadata(const Gguf& gguf, const Json& report) {
  std::printf("\nmetadata (%zu)\n", gguf.metadata().size());
  size_t width = 0;
  for (const auto& [key, value] : gguf.metadata()) {
    width = std::max(width, std::min<size_t>(key.size(), 48));
  }
  auto shown = report["metadata"].begin();  // the same entries in the same order
  for (const auto& [key, value] : gguf.metadata()) {
    std::printf("  %-*s  %-8s  %s\n", static_cast<int>(width), printable(key).c_str(),
                type_text(value).c_str(), value_text(*shown++).c_str());
  }
}

void print_tensors(const Json& report) {
  const Json& totals = report["totals"];
  std::printf("\ntensors (%s)\n", grouped(totals["tensors"].get<uint64_t>()).c_str());
  const auto line = [](const std::string& name, const Json& sum) {
    std::printf("  %-8s  %6s tensors  %15s parameters  %10s\n", name.c_str(),
                grouped(sum["tensors"].get<uint64_t>()).c_str(),
                grouped(sum["parameters"].get<uint64_t>()).c_str(),
                size_text(sum["bytes"].get<uint64_t>()).c_str());
  };
  for (const auto& [type, sum] : report["by_type"].items()) line(type, sum);
  if (report["by_type"].size() > 1) line("all", totals);
  if (!report.contains("tensors") || report["tensors"].empty()) return;

  std::printf("\n");
  int width = 0;
  for (const Json& tensor : report["tensors"]) {
    const int length = printable(tensor["name"].get_ref<const std::string&>()).size();
    width = std::max(width, length);
  }
  for (const Json& tensor : report["tensors"]) {
    std::string shape;
    for (const Json& size : tensor["shape"]) {
      if (!shape.empty()) shape += " x ";
      shape += std::to_string(size.get<uint64_t>());
    }
    std::printf("  %-*s  %-8s  %-20s  %10s\n", width,
                printable(tensor["name"].get_ref<const std::string&>()).c_str(),
                tensor["type"].get_ref<const std::string&>().c_str(), shape.c_str(),
                size_text(tensor["bytes"].get<uint64_t>()).c_str());
  }
}

// What only some architectures compute, each where it is.
void print_particulars(const Json& c) {
  const auto number = [&](const char* key) { return c[key].get<uint64_t>(); };
  const auto is = [&](const char* key, double value) { return c[key].get<double>() == value; };
  if (!is("window", 0)) {
    const std::string step = value_text(c["window_step"]);
    std::printf("  window      %s positions in every %s\n", grouped(number("window")).c_str(),
                is("window_step", 1)   ? "layer"
                : is("window_step", 2) ? "other layer"
                                       : ("layer but each " + step + "th").c_str());
  }
  if (!is("attn_softcap", 0) || !is("final_softcap", 0)) {
    std::printf("  soft caps   scores %s, logits %s\n", value_text(c["attn_softcap"]).c_str(),
                value_text(c["final_softcap"]).c_str());
  }
  if (c["activation"] != "silu") std::printf("  ffn         gelu\n");
  if (!is("embedding_scale", 1)) {
    std::printf("  embedding   times %s\n", value_text(c["embedding_scale"]).c_str());
  }
}

// How far a rope departs from the plain one.
std::string rope_text(const Json& c) {
  std::string text =
      "theta " + value_text(c["rope_theta"]) + ", " + c["rope_pairs"].get_ref<const std::string&>();
  if (c["rope_scale"] != 1.0) {
    text += ", " + c["rope_scaling"].get_ref<const std::string&>() + " scaling " +
            value_text(c["rope_scale"]);
  }
  if (c["windowed_rope_theta"] != 0.0) {
    text += "; in windowed layers theta " + value_text(c["windowed_rope_theta"]);
  }
  if (c.value("llama3_rope_scaling", false)) text += ", llama3 scaling";
  if (c["rope_dim"] != c["head_dim"]) {
    text += ", " + value_text(c["rope_dim"]) + " of " + value_text(c["head_dim"]) + " numbers";
  }
  if (c["rope_skips_each"] != 0) {
    text += ", but not in every " + value_text(c["rope_skips_each"]) + "th layer";
  }
  if (c["rope_original_context"] != 0) {
    text += ", long factors past " + value_text(c["rope_original_context"]);
  }
  return text;
}

void print_config(const Json& report) {
  const Json& c = report["config"];
  if (c.is_null()) return;
  const auto number = [&](const char* key) { return c[key].get<uint64_t>(); };
  std::printf("\nmodel\n");
  std::printf("  layers      %s\n", grouped(number("n_layers")).c_str());
  std::printf("  dim         %s, ffn %s\n", grouped(number("dim")).c_str(),
              grouped(number("ffn_dim")).c_str());
  if (c["n_experts"] != 0) {
    std::printf("  experts     %s, a token goes through %s of them\n",
                grouped(number("n_experts")).c_str(), grouped(number("n_experts_used")).c_str());
  }
  std::printf("  heads       %s of %s, %s for keys and values\n",
              grouped(number("n_heads")).c_str(), grouped(number("head_dim")).c_str(),
              grouped(number("n_kv_heads")).c_str());
  std::printf("  vocabulary  %s%s\n", grouped(number("vocab_size")).c_str(),
              c.value("tied_embeddings", false) ? ", embedding and head tied" : "");
  std::printf("  context     %s, K/V cache %s a token, %s with --kv int8\n",
              grouped(number("max_seq_len")).c_str(),
              size_text(number("kv_cache_bytes_per_token")).c_str(),
              size_text(number("kv_cache_int8_bytes_per_token")).c_str());
  std::printf("  rope        %s\n", rope_text(c).c_str());
  std::printf("  rmsnorm     eps %s\n", value_text(c["norm_eps"]).c_str());
  print_particulars(c);
  if (c.contains("weight_bytes_per_token")) {
    std::printf("  read        %s of weights a token\n",
                size_text(number("weight_bytes_per_token")).c_str());
  }
}

double megabytes(const Json& bytes) {
  return 1e-6 * static_cast<double>(bytes.get<uint64_t>());
}

void print_gpu(const Json& gpu) {
  if (gpu.is_null()) return;
  const std::string reason = gpu["reason"].is_null() ? "" : gpu["reason"].get<std::string>();
  std::string line = terminal_text(gpu["name"].get_ref<const std::string&>());
  if (gpu.contains("bytes")) {
    const Json& bytes = gpu["bytes"];
    line += format(
        ", %.1f of %.1f MB at a context of %d (weights %.1f, exit heads %.1f, K/V %.1f, workspace "
        "%.1f, reserve %.1f)",
        megabytes(bytes["total"]), megabytes(gpu["total_bytes"]), gpu["context"].get<int>(),
        megabytes(bytes["weights"]), megabytes(bytes["exit_heads"]), megabytes(bytes["kv_cache"]),
        megabytes(bytes["workspace"]), megabytes(bytes["reserve"]));
  }
  std::printf("GPU         %s: %s%s%s\n", gpu["runs"] == true ? "yes" : "no", line.c_str(),
              reason.empty() ? "" : ": ", reason.c_str());
}

void print_verdict(const Json& report) {
  const auto text = [&](const char* key) {
    return report[key].is_string() ? report[key].get<std::string>() : std::string();
  };
  std::printf("\n");
  if (report["vocabulary_only"] == true) {
    std::printf("runs here   no: a vocabulary only, without tensors%s\n",
                report["text"] == true ? " (tokenize and detokenize can use it)" : "");
  } else if (report["runs"] == true) {
    std::printf("runs here   yes\n");
    if (report["conversion"].is_string()) {
      std::printf("conversion  %s\n", text("conversion").c_str());
    }
    print_gpu(report["gpu"]);
  } else {
    std::printf("runs here   no: %s\n", terminal_text(text("reason")).c_str());
  }
  const std::string kind = report["tokenizer"].is_string()
                               ? "tokenizer " + shown_text(text("tokenizer"))
                               : std::string("tokenizer unreadable");
  std::printf(
      "text        %s (%s)\n",
      report["text"] == true ? "yes" : ("no: " + terminal_text(text("text_reason"))).c_str(),
      kind.c_str());
  for (const Json& note : report["text_notes"]) {
    std::printf("            %s\n", terminal_text(note.get<std::string>()).c_str());
  }
}

struct InfoFlags {
  std::string path;
  bool tensors = false, json = false;
};

void declare(Flags& flags, InfoFlags& given) {
  flags.add_text("-m,--model,FILE", given.path, "the GGUF file").type("FILE.gguf");
  flags.add_switch("--tensors", given.tensors, "list every tensor").command_line_only();
  flags.add_switch("--json", given.json, "print the report as JSON").command_line_only();
}

int run(InfoFlags& given) {
  if (given.path.empty()) {
    throw Error(ErrorCode::kUsage, "expected a GGUF file, found none: specbound info FILE");
  }
  const std::string path = find_model(given.path, terminal_watcher());

  const Gguf gguf = Gguf::open(path);
  Json report = {{"file", path}, {"bytes", gguf.file_size()}, {"gguf_version", gguf.version()}};
  if (gguf.parts().size() > 1) report["files"] = files_json(gguf);
  report["metadata"] = metadata_json(gguf);
  report_tensors(gguf, given.tensors, report);
  report_runs(gguf, report);
  report_text(gguf, report);
  const bool is_heads = is_heads_file(gguf);
  if (is_heads) {
    report["exit_heads"] = heads_file_json(path);
  } else if (report["runs"] == true) {
    report["exit_heads"] = model_heads_json(gguf);
  }
  if (given.json) {
    std::printf("%s\n", dump(report, 2).c_str());
    return 0;
  }
  std::printf("file        %s\n", terminal_text(path).c_str());
  const size_t n_files = gguf.parts().size();
  std::printf("format      GGUF version %u, %s bytes%s\n", gguf.version(),
              grouped(gguf.file_size()).c_str(),
              n_files > 1 ? format(" in %zu files", n_files).c_str() : "");
  print_metadata(gguf, report);
  print_tensors(report);
  if (is_heads) {
    print_heads_file(report["exit_heads"]);
    return 0;
  }
  print_config(report);
  print_verdict(report);
  if (report.contains("exit_heads")) print_model_heads(path, report["exit_heads"]);
  return 0;
}

const CommandOf<InfoFlags> kInfo(
    {.rank = 150,
     .name = "info",
     .summary = "what a GGUF file holds, and whether it can run here",
     .text = "What a GGUF file holds, and whether it can run here.",
     .footer = "Examples:\n"
               "  specbound info model.gguf\n"
               "  specbound info model.gguf --tensors --json > model.json"},
    declare, run);

}  // namespace

}  // namespace specbound::info_command
