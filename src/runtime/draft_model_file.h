// The model that drafts for another one (-md): a second GGUF of the same vocabulary, loaded on the
// same device, with K/V of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "library/load_watcher.h"
#include "runtime/drafters.h"
#include "runtime/loaded_model.h"

namespace specbound {

// Throws Error(kUsage) naming the first difference, unless every id means the same in both: the
// number of tokens, their texts and kinds, the special ids, and how text is cut into pieces before
// tokens are made of it.
void check_same_vocabulary(const LoadedModel& target, const LoadedModel& drafter);

class DraftModelFile {
 public:
  // Opens it. `target` must outlive it. Throws Error(kUsage) for another vocabulary, and what
  // LoadedModel throws.
  DraftModelFile(const std::string& path, const LoadedModel& target);

  // Makes its backend beside that of the target, which is loaded by now, once. Throws Error(kLimit)
  // when there is no memory for it, Interrupted on the watcher's `abort`.
  void load(const Backend& target, const LoadWatcher& watcher);
  bool loaded() const { return loaded_; }
  Backend& backend() { return model_->backend(); }  // after load()

  const std::string& path() const { return model_->path(); }
  const ModelConfig& config() const { return model_->config(); }
  const Gguf& gguf() const { return model_->gguf(); }
  size_t gpu_bytes() const { return model_->gpu_bytes(); }  // before load()

 private:
  const LoadedModel& target_;
  std::optional<LoadedModel> model_;
  bool loaded_ = false;
};

// Opens the file that the options name; it is loaded when it is first to draft.
std::unique_ptr<OtherDrafter> make_draft_model_drafter(const DrafterSetting& setting);

}  // namespace specbound
