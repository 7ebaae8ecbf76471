#include "runtime/drafters.h"

#include <algorithm>

#include "drafters/draft_verify.h"
#include "drafters/head_tree.h"
#include "drafters/kangaroo.h"
#include "drafters/lookahead.h"
#include "drafters/ngram.h"
#include "drafters/rest.h"
#include "drafters/space.h"
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

class LookaheadDrafter final : public OtherDrafter {
 public:
  explicit LookaheadDrafter(const DrafterSetting& setting)
      : lookahead_(setting.options.lookahead.value_or(LookaheadParams())) {
    const int rows = setting.options.specbound.rows(kMaxRows);
    if (rows >= lookahead_.width()) return;
    throw Error(ErrorCode::kUsage,
                format("w_max: expected the %d rows of lookahead=%s or more, found %d",
                       lookahead_.width(), lookahead_text(lookahead_.params()).c_str(), rows));
  }

  Speculator* speculator() override { return &lookahead_; }
  std::string name() const override { return "lookahead"; }
  std::string description() const override {
    const LookaheadParams& p = lookahead_.params();
    return format("lookahead, a window of %d column%s of %d level%s, up to %d %d-gram%s, %d rows",
                  p.window, p.window == 1 ? "" : "s", p.ngram - 1, p.ngram == 2 ? "" : "s",
                  p.guesses, p.ngram, p.guesses == 1 ? "" : "s", lookahead_.width());
  }

 private:
  Lookahead lookahead_;
};

class RestDrafter final : public OtherDrafter {
 public:
  // The paper takes more rows than there are.
  explicit RestDrafter(const DrafterSetting& setting)
      : rest_(*setting.store, setting.options.specbound.rows(kMaxRows)) {}

  Speculator* speculator() override { return &rest_; }
  std::string name() const override { return "a datastore"; }
  std::string description() const override {
    return format("rest, a tree of what stands in %s (%zu tokens), up to %d rows",
                  rest_.store().path().c_str(), rest_.store().tokens().size(), rest_.width());
  }

 private:
  Rest rest_;
};

class HeadTreeDrafter final : public OtherDrafter {
 public:
  HeadTreeDrafter(const DrafterSetting& setting, HeadKind kind)
      : tree_(*setting.heads, kind, setting.options.specbound.rows(kMaxRows),
              {.fixed = setting.options.fixed_tree,
               .typical = setting.options.acceptance == Acceptance::kTypical}),
        file_(setting.heads->path()) {}  // the papers take more rows than there are

  Speculator* speculator() override { return &tree_; }
  std::string name() const override { return format("%s heads", tree_.name()); }
  std::string description() const override {
    return format("%s, a%s tree by %s, up to %d rows of %d level%s%s", tree_.name(),
                  tree_.rules().fixed ? " fixed" : "", file_.c_str(), tree_.width(), tree_.levels(),
                  tree_.levels() == 1 ? "" : "s",
                  tree_.rules().typical
                      ? ", accepted where typical: another text, of other probabilities"
                      : "");
  }

 private:
  HeadTree tree_;
  std::string file_;
};

KangarooParams kangaroo_params(const DrafterSetting& setting) {
  KangarooParams params;
  params.w_max = setting.options.specbound.rows(params.w_max);
  params.eta = setting.options.specbound.tau.value_or(params.eta);
  validate(params);
  return params;
}

class KangarooDrafter final : public OtherDrafter {
 public:
  explicit KangarooDrafter(const DrafterSetting& setting)
      : kangaroo_(*setting.heads, kangaroo_params(setting)),
        file_(setting.heads->path()),
        n_layers_(setting.n_layers) {}

  Speculator* speculator() override { return &kangaroo_; }
  std::string name() const override { return "kangaroo heads"; }
  std::string description() const override {
    return format("kangaroo, %d of %d layers and an adapter of %s, up to %d rows, threshold %g",
                  kangaroo_.layer(), n_layers_, file_.c_str(), kangaroo_.width(),
                  kangaroo_.params().eta);
  }

 private:
  Kangaroo kangaroo_;
  std::string file_;
  int n_layers_;
};

class SpaceDrafter final : public OtherDrafter {
 public:
  explicit SpaceDrafter(const DrafterSetting& setting)
      : space_(setting.heads->masks(), setting.options.specbound.rows(kMaxRows)),
        file_(setting.heads->path()) {
    constexpr int kLeast = 4;  // the root, a draft, a mask behind each
    if (space_.width() >= kLeast) return;
    throw Error(ErrorCode::kUsage, format("w_max: expected the %d rows that a draft takes or more, "
                                          "found %d",
                                          kLeast, space_.width()));
  }
  Speculator* speculator() override { return &space_; }
  std::string name() const override { return "mask tokens"; }
  std::string description() const override {
    return format("space, %d of %d mask tokens of %s behind each row, up to %d rows",
                  space_.drafts(), space_.masks().count, file_.c_str(), space_.width());
  }

 private:
  Space space_;
  std::string file_;
};

template <HeadKind kind>
std::unique_ptr<OtherDrafter> make_tree(const DrafterSetting& setting) {
  return std::make_unique<HeadTreeDrafter>(setting, kind);
}

template <class Drafter>
std::unique_ptr<OtherDrafter> make(const DrafterSetting& setting) {
  return std::make_unique<Drafter>(setting);
}

using Options = SpeculationOptions;
constexpr OwnOption kAuto[] = {
    {"no_siblings", "", [](const Options& options) { return options.no_siblings; },
     [](Options& options) { options.no_siblings = false; }, nullptr},
    {"controller", "=on", [](const Options& options) { return options.controller.value_or(false); },
     [](Options& options) { options.controller.reset(); }, nullptr}};
constexpr OwnOption kNgram[] = {
    {"ngram_max", "", [](const Options& options) { return options.ngram_max != kUsualNgram; },
     [](Options& options) { options.ngram_max = kUsualNgram; }, nullptr}};
constexpr OwnOption kLayerSkip[] = {
    {"exit_layer", "", [](const Options& options) { return options.exit_layer.has_value(); },
     [](Options& options) { options.exit_layer.reset(); }, nullptr}};
constexpr OwnOption kDraftVerify[] = {
    {"skip_layers", "", [](const Options& options) { return options.skip_layers.has_value(); },
     [](Options& options) { options.skip_layers.reset(); }, nullptr}};
constexpr OwnOption kLookahead[] = {
    {"lookahead", "", [](const Options& options) { return options.lookahead.has_value(); },
     [](Options& options) { options.lookahead.reset(); }, nullptr}};
constexpr OwnOption kRest[] = {
    {"datastore", "", [](const Options& options) { return !options.datastore.empty(); },
     [](Options& options) { options.datastore.clear(); },
     "datastore=FILE, which specbound datastore build makes of texts", true}};
constexpr OwnOption kDraft[] = {
    {"draft_model", "", [](const Options& options) { return !options.draft_model.empty(); },
     [](Options& options) { options.draft_model.clear(); },
     "draft_model=FILE, a smaller model with the same vocabulary", true},
    {"accept", "=rejection",
     [](const Options& options) { return options.acceptance == Acceptance::kRejection; },
     [](Options& options) { options.acceptance = Acceptance::kCoupled; }, nullptr},
    {"siblings", "", [](const Options& options) { return options.siblings > 1; },
     [](Options& options) { options.siblings = 1; }, nullptr}};
constexpr OwnOption kByPlace[] = {
    {"fixed_tree", "", [](const Options& options) { return options.fixed_tree; },
     [](Options& options) { options.fixed_tree = false; }, nullptr},
    {"accept", "=typical",
     [](const Options& options) { return options.acceptance == Acceptance::kTypical; },
     [](Options& options) { options.acceptance = Acceptance::kCoupled; }, nullptr}};

constexpr DrafterKind kDrafters[] = {
    {"auto", true, false, kAuto, nullptr},
    {"specbound", true, false, {}, nullptr},
    {"ngram", false, false, kNgram, make<NgramDrafter>},
    {"layerskip", true, true, kLayerSkip, nullptr},
    {"adadecode", true, true, {}, nullptr},
    {"draft-verify", false, false, kDraftVerify, make<DraftVerifyDrafter>, {}, false, true},
    {"lookahead", false, false, kLookahead, make<LookaheadDrafter>},
    {"rest", false, false, kRest, make<RestDrafter>},
    {"draft", false, false, kDraft, make_draft_model_drafter, {}, false, true},
    {"medusa", false, false, kByPlace, make_tree<HeadKind::kMedusa>, HeadKind::kMedusa},
    {"hydra", false, false, kByPlace, make_tree<HeadKind::kHydra>, HeadKind::kHydra},
    {"eagle", false, false, {}, make_tree<HeadKind::kEagle>, HeadKind::kEagle},
    {"eagle3", false, false, {}, make_tree<HeadKind::kEagle3>, HeadKind::kEagle3},
    {"mtp", false, false, {}, make_tree<HeadKind::kMtp>, HeadKind::kMtp},
    {"kangaroo", false, false, {}, make<KangarooDrafter>, HeadKind::kKangaroo, false, true},
    {"space", false, false, {}, make<SpaceDrafter>, {}, true},
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
