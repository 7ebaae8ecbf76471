#include "runtime/drafters.h"

#include <algorithm>

#include "decode/draft_verify.h"
#include "decode/ngram.h"
#include "error.h"
#include "runtime/draft_model_file.h"

namespace specbound {

void OtherDrafter::begin(Backend&, const LoadWatcher&) {}

namespace {

class NgramDrafter final : public OtherDrafter {
 public:
  explicit NgramDrafter(const DrafterSetting& setting)
      : ngram_(setting.options.ngram_max, setting.width) {}

  Speculator* speculator() override { return &ngram_; }
  std::string name() const override { return "prompt lookup"; }
  std::string description() const override {
    return format("ngram, prompt lookup of up to %d token%s, up to %d rows", ngram_.n_max(),
                  ngram_.n_max() == 1 ? "" : "s", ngram_.width());
  }

 private:
  NgramSpeculator ngram_;
};

DraftVerifyParams draft_verify_params(const DrafterSetting& setting) {
  const SpeculationOptions& options = setting.options;
  DraftVerifyParams params;
  params.skipped = options.skip_layers ? layers_in(*options.skip_layers, setting.n_layers)
                                       : default_skipped_layers(setting.n_layers);
  params.w_max = setting.width;
  params.tau = options.specbound.tau.value_or(params.tau);
  validate(params, setting.n_layers);
  return params;
}

class DraftVerifyDrafter final : public OtherDrafter {
 public:
  explicit DraftVerifyDrafter(const DrafterSetting& setting)
      : draft_verify_(draft_verify_params(setting)), n_layers_(setting.n_layers) {}

  Speculator* speculator() override { return &draft_verify_; }
  std::string name() const override { return "the model without some layers"; }
  std::string description() const override {
    const DraftVerifyParams& p = draft_verify_.params();
    return format(
        "draft-verify, the model without layer%s %s of %d, up to %d rows, threshold %g at first",
        p.skipped.size() == 1 ? "" : "s", layer_list(p.skipped).c_str(), n_layers_, p.w_max, p.tau);
  }

 private:
  DraftVerify draft_verify_;
  int n_layers_;
};

template <class Drafter>
std::unique_ptr<OtherDrafter> make(const DrafterSetting& setting) {
  return std::make_unique<Drafter>(setting);
}

using Options = SpeculationOptions;
constexpr OwnOption kLayerSkip[] = {
    {"exit_layer", "", [](const Options& options) { return options.exit_layer.has_value(); },
     [](Options& options) { options.exit_layer.reset(); }, nullptr}};
constexpr OwnOption kDraftVerify[] = {
    {"skip_layers", "", [](const Options& options) { return options.skip_layers.has_value(); },
     [](Options& options) { options.skip_layers.reset(); }, nullptr}};
constexpr OwnOption kDraft[] = {
    {"draft_model", "", [](const Options& options) { return !options.draft_model.empty(); },
     [](Options& options) { options.draft_model.clear(); },
     "draft_model=FILE, a smaller model with the same vocabulary", true},
    {"accept", "=rejection",
     [](const Options& options) { return options.acceptance == Acceptance::kRejection; },
     [](Options& options) { options.acceptance = Acceptance::kCoupled; }, nullptr}};

constexpr DrafterKind kDrafters[] = {
    {"auto", true, false, {}, nullptr},
    {"specbound", true, false, {}, nullptr},
    {"ngram", false, false, {}, make<NgramDrafter>},
    {"layerskip", true, true, kLayerSkip, nullptr},
    {"adadecode", true, true, {}, nullptr},
    {"draft-verify", false, false, kDraftVerify, make<DraftVerifyDrafter>},
    {"draft", false, false, kDraft, make_draft_model_drafter},
};

}  // namespace

std::span<const DrafterKind> drafter_kinds() {
  return kDrafters;
}

const DrafterKind* find_drafter(std::string_view name) {
  const auto found = std::ranges::find(kDrafters, name, &DrafterKind::name);
  return found == std::end(kDrafters) ? nullptr : &*found;
}

}  // namespace specbound
