// Tiny models and heads files to make a Speculation of, from flags as a person writes them.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/speculation_flags.h"
#include "engine_rig.h"
#include "parse.h"
#include "runtime/speculation.h"

namespace specbound::test {

inline constexpr int kLayers = 16;
inline constexpr const char* kPath =
    "tiny.gguf";  // a file that is not there has no heads beside it

inline const TinyModel& tiny(int n_layers) {
  static std::map<int, std::unique_ptr<TinyModel>> models;
  std::unique_ptr<TinyModel>& model = models[n_layers];
  if (!model) {
    TinySpec spec;
    spec.n_layers = n_layers;
    spec.dim = 32;
    spec.n_heads = spec.n_kv_heads = 2;
    spec.ffn_dim = 32;
    spec.type = DType::kQ8_0;
    model = std::make_unique<TinyModel>(spec);
  }
  return *model;
}

inline std::unique_ptr<Speculation> speculation(const SpeculationOptions& flags,
                                                int n_layers = kLayers,
                                                const std::string& path = kPath) {
  const TinyModel& model = tiny(n_layers);
  return std::make_unique<Speculation>(flags, path, model.gguf, model.config);
}

inline HeadTensor zeros(int n_out, int n_in) {
  return {n_out, n_in, std::vector<float>(size_t(n_out) * n_in)};
}

// Heads of these kinds and layers, with 48 tokens.
inline void write_heads(const std::string& path,
                        const std::vector<std::pair<HeadKind, std::vector<int>>>& kinds,
                        HeadDefaults defaults) {
  const TinyModel& model = tiny(kLayers);
  const int dim = model.config.dim;
  NewHeads file;
  file.base = heads_base(model.gguf, model.config);
  for (int id = 0; id < 48; ++id) file.shortlist.push_back(id);
  for (const auto& [kind, layers] : kinds) {
    for (const int layer : layers) {
      NewHead head;
      head.kind = kind;
      head.layer = layer;
      if (kind == HeadKind::kFull) head.map = zeros(dim, dim);
      if (kind == HeadKind::kFolded) head.folded = zeros(48, dim);
      if (kind == HeadKind::kChained) head.map = zeros(dim, 2 * dim);
      file.heads.push_back(head);
    }
  }
  file.defaults = std::move(defaults);
  write_exit_heads(path, file);
}

struct Parsed : Parse {
  SpeculationOptions flags;
};

// Exit heads alone, whose settings most tests are about, unless another drafter is named.
inline Parsed parse(std::vector<std::string> arguments) {
  if (std::ranges::find(arguments, "--speculator") == arguments.end()) {
    arguments.insert(arguments.begin(), {"--speculator", "specbound"});
  }
  Parsed parsed;
  Flags flags("test");
  add_speculation_flags(flags, parsed.flags);
  parse_into(flags, std::move(arguments), parsed);
  return parsed;
}

}  // namespace specbound::test
