#include "runtime/draft_model_file.h"

#include <algorithm>
#include <string_view>

#include "drafters/draft_model.h"
#include "error.h"
#include "library/model_path.h"

namespace specbound {
namespace {

// What a token is, as a file says it; types are ordinary where it has none.
struct Token {
  std::string_view text;
  int32_t type;

  bool operator==(const Token&) const = default;
};

class Tokens {
 public:
  explicit Tokens(const Gguf& gguf)
      : texts_(gguf.get_strings("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>())),
        types_(gguf.get_ints("tokenizer.ggml.token_type").value_or(std::vector<int32_t>())) {}

  int size() const { return static_cast<int>(texts_.size()); }
  Token operator[](int id) const {
    return {texts_[id], static_cast<size_t>(id) < types_.size() ? types_[id] : 1};
  }

 private:
  std::vector<std::string_view> texts_;
  std::vector<int32_t> types_;
};

std::string shown(const Token& token) {
  return format("\"%s\" of type %d", printable(token.text).c_str(), token.type);
}

}  // namespace

void check_same_vocabulary(const LoadedModel& target, const LoadedModel& drafter) {
  const auto require_same = [&](const std::string& what, const std::string& expected,
                                const std::string& found) {
    if (expected == found) return;
    throw Error(
        ErrorCode::kUsage,
        format(
            "draft_model=%s: a draft model needs the vocabulary of %s: %s: expected %s, found %s",
            drafter.path().c_str(), target.path().c_str(), what.c_str(), expected.c_str(),
            found.c_str()));
  };
  const auto require_same_id = [&](const char* what, int64_t expected, int64_t found) {
    require_same(what, std::to_string(expected), std::to_string(found));
  };
  require_same_id("vocab_size", target.config().vocab_size, drafter.config().vocab_size);
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre"}) {
    const auto word = [key](const LoadedModel& model) {
      const auto text = model.gguf().get_string(key);
      return text ? '"' + printable(*text) + '"' : std::string("none");
    };
    require_same(key, word(target), word(drafter));
  }
  const Tokens expected(target.gguf()), found(drafter.gguf());
  require_same_id("number of tokens", expected.size(), found.size());
  for (int id = 0; id < expected.size(); ++id) {
    if (expected[id] == found[id]) continue;
    require_same(format("token %d", id), shown(expected[id]), shown(found[id]));
  }
  require_same_id("BOS token", target.tokenizer().bos(), drafter.tokenizer().bos());
  require_same_id("EOS token", target.tokenizer().eos(), drafter.tokenizer().eos());
  const auto end = [](bool is) {
    return is ? "one that ends a reply" : "one that does not end a reply";
  };
  for (int id = 0; id < expected.size(); ++id) {
    const bool ends = target.tokenizer().is_end(id), other = drafter.tokenizer().is_end(id);
    if (ends != other) require_same(format("token %d", id), end(ends), end(other));
  }
}

DraftModelFile::DraftModelFile(const std::string& path, const LoadedModel& target)
    : target_(target) {
  ModelOptions options = target.options_beside(find_model(path, target.watcher()));
  model_.emplace(options);
  check_same_vocabulary(target, *model_);
  // Behind the context that it was trained on it would draft nonsense.
  if (const int trained = config().max_seq_len; trained < options.n_ctx) {
    options.n_ctx = trained;
    model_.emplace(options);
  }
}

void DraftModelFile::load(const Backend& target, const LoadWatcher& watcher) {
  LoadWatcher draft = watcher;
  draft.progress = [&](const std::string& label, size_t done, size_t total) {
    if (watcher.progress) watcher.progress("draft model: " + label, done, total);
  };
  draft.note = [&](const std::string& line) { watcher.say("draft " + line); };
  model_->go_beside(target_);
  try {
    model_->load(nullptr, draft, &target);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit) throw;
    throw Error(e.code(), format("draft_model=%s: %s; speculation=off does without it",
                                 path().c_str(), e.what()));
  }
  loaded_ = true;
}

namespace {

class DraftModelDrafter final : public OtherDrafter {
 public:
  explicit DraftModelDrafter(const DrafterSetting& setting)
      : file_(setting.options.draft_model, *setting.target),
        width_(setting.width),
        tau_(setting.options.specbound.tau.value_or(DraftModel::kTau)),
        acceptance_(setting.options.acceptance),
        siblings_(setting.options.siblings) {}

  void begin(Backend& backend, const LoadWatcher& watcher) override {
    if (file_.loaded()) return;
    file_.load(backend, watcher);
    drafter_.emplace(file_.backend(), width_, tau_, acceptance_, siblings_);
  }
  Speculator* speculator() override { return drafter_ ? &*drafter_ : nullptr; }
  std::string name() const override { return "the draft model " + file_.path(); }
  std::string description() const override {
    return format("draft, by %s (%d layers), up to %d rows, tau %g%s%s", file_.path().c_str(),
                  file_.config().n_layers, width_, tau_,
                  siblings_ > 1
                      ? format(", up to %d drafts a place", std::min(siblings_, width_ - 1)).c_str()
                      : "",
                  acceptance_ == Acceptance::kRejection
                      ? ", accepted by rejection: the probabilities of plain decoding, another text"
                      : "");
  }
  const Gguf* second_model() const override { return &file_.gguf(); }
  size_t gpu_bytes() const override { return file_.gpu_bytes(); }

 private:
  DraftModelFile file_;
  int width_;
  float tau_;
  Acceptance acceptance_;
  int siblings_;
  std::optional<DraftModel> drafter_;  // there once the file is loaded
};

}  // namespace

std::unique_ptr<OtherDrafter> make_draft_model_drafter(const DrafterSetting& setting) {
  SB_CHECK(setting.target);
  return std::make_unique<DraftModelDrafter>(setting);
}

}  // namespace specbound
