// What can draft: one row of a table for each, and for those that are no exits what they are made
// of. A new drafter is a row here, and what it drafts with. docs/architecture.md 9.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "decode/speculator.h"
#include "library/load_watcher.h"
#include "model/datastore.h"
#include "model/exit_heads.h"
#include "model/gguf.h"
#include "runtime/speculation_options.h"

namespace specbound {

class Backend;
class LoadedModel;

// A drafter with rules of its own, beside the tree of all sources and what exit heads' settings
// say.
class OtherDrafter {
 public:
  virtual ~OtherDrafter() = default;
  // Before it first drafts: brings what it needs beside the backend, once. Throws as loading does.
  virtual void begin(Backend& backend, const LoadWatcher& watcher);
  // nullptr until begin(), where that has something to do.
  virtual Speculator* speculator() = 0;
  virtual std::string name() const = 0;         // "prompt lookup"
  virtual std::string description() const = 0;  // "ngram, prompt lookup of up to ..."
  // The file of a second model; nullptr: none.
  virtual const Gguf* second_model() const { return nullptr; }
  // That it is planned to take of a GPU in begin().
  virtual size_t gpu_bytes() const { return 0; }
};

struct DrafterSetting {
  const SpeculationOptions& options;
  int n_layers;
  int width;                  // rows of a round
  const LoadedModel* target;  // nullptr where there are only its files
  const ExitHeads* heads;     // of the file, where they are opened; they outlive the drafter
  const Datastore* store;     // likewise
};

// An option that is for some drafters alone, each of which has it, or for one and the tree of all
// sources.
struct OwnOption {
  const char* name;   // as errors have it
  const char* value;  // the one that needs the drafter, as "=rejection"; empty: any
  bool (*given)(const SpeculationOptions&);
  void (*drop)(SpeculationOptions&);
  const char* required;  // what the drafter cannot do without; nullptr: it can
  bool in_tree = false;  // auto knows it too

  bool same(const OwnOption& other) const {
    return std::string_view(name) == other.name && std::string_view(value) == other.value;
  }
};

struct DrafterKind {
  const char* name;   // as SpeculationOptions::speculator has it
  bool exits_early;   // rows leave the model early, as exit heads' settings say
  bool own_settings;  // ... where another paper says, without presets
  std::span<const OwnOption> options;
  std::unique_ptr<OtherDrafter> (*make)(const DrafterSetting&);  // nullptr: exit heads draft
  std::optional<HeadKind> head = {};  // of the heads file, which it drafts with alone
  bool by_masks = false;              // drafts with the mask tokens of that file
  bool by_tau = false;                // drafts while it is sure enough, without exits

  bool by_file() const { return head || by_masks; }
  // Whether `option`, one of its own, is for that drafter.
  bool has(const OwnOption& option, std::string_view drafter) const {
    return drafter == name || (option.in_tree && drafter == "auto");
  }
};
std::span<const DrafterKind> drafter_kinds();
// nullptr: there is none of that name.
const DrafterKind* find_drafter(std::string_view name);

}  // namespace specbound
