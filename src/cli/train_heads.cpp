// specbound train-heads: from dialogues to a heads file. The stages in their order: texts, tokens,
// shortlist, hidden states, training, the file. stdout carries the summary, stderr the rest.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/heads_output.h"
#include "cli/train_heads_flags.h"
#include "cli/train_heads_summary.h"
#include "corpus/corpus.h"
#include "corpus/feature_passes.h"
#include "corpus/held_texts.h"
#include "corpus/running_time.h"
#include "corpus/seed_prompts.h"
#include "corpus/self_generate.h"
#include "corpus/written_states.h"
#include "error.h"
#include "library/load_watcher.h"
#include "library/model_path.h"
#include "model/weights.h"
#include "runtime/gpu.h"
#include "runtime/loaded_model.h"
#include "system/file_output.h"
#include "system/number_text.h"
#include "templates/chat_template.h"
#include "terminal/flag_names.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/standard_output.h"
#include "terminal/terminal_text.h"
#include "tools/cost_report.h"
#include "tools/data_files.h"
#include "tools/tuning.h"
#include "train/head_learner.h"
#include "train/report_html.h"

namespace specbound::train_heads_command {

namespace {

namespace fs = std::filesystem;

constexpr const char* kTeaching =
    "Exit heads guess the next token from a shallow layer, so that most layers run for several "
    "tokens at once. They are trained on the hidden states of the model, which itself stays as it "
    "is; a guess never changes a byte of the text, however bad it is. Without --data they learn "
    "what the model itself answers to built-in requests of many kinds. What matters most is that "
    "the data is like what the model will be asked: where you have a few thousand dialogues, give "
    "those.\n"
    "\n"
    "A training that was killed or ended by Ctrl-C goes on where it was when the same command is "
    "given again.\n"
    "\n"
    "Examples:\n"
    "  specbound train-heads -m model.gguf\n"
    "  specbound train-heads -m model.gguf --data chat.jsonl --quick\n"
    "  specbound train-heads -m model.gguf --data chat.jsonl.xz --self-generate 200000\n"
    "  specbound train-heads -m model.gguf --data chat.jsonl --data notes.txt --minutes 10 \\\n"
    "    --report heads.html\n"
    "  specbound train-heads -m model.gguf --data chat.jsonl --kinds full --layers 1-10 \\\n"
    "    -o paper.heads.gguf\n"
    "  specbound train-heads -m model.gguf --minutes 240 --kinds layer,chained,text --layers 0\n"
    "  specbound train-heads -m model.gguf --self-generate 200000 --kinds chained,medusa,hydra \\\n"
    "    --report kinds.html";

// The parts of --minutes after which no more is written, no more of the hidden states is made and,
// where it is to be filled, learning ends and nothing more is written to tune on.
constexpr double kWriting = 0.35, kWritingWithStates = 0.5, kLookingOn = 0.65, kLearning = 0.9,
                 kTuning = 0.95;
constexpr double kKeepSeconds = 5;  // between two notes of the time that it took
constexpr int kRounds = 20;         // over the built-in requests, at most
constexpr double kSteps = 1e6;      // of a progress bar
constexpr const char* kInterrupted = "interrupted: no heads were written";

class Training {
 public:
  explicit Training(TrainHeadsFlags given)
      : flags_(std::move(given)), model_(flags_.model, terminal_watcher()) {
    if (flags_.out.empty()) flags_.out = sidecar_heads(model_.path());
    check_distinct(flags_.out, flags_.report);
    check_heads_output(flags_.out);
    std::error_code ignored;
    target_ = fs::weakly_canonical(flags_.out, ignored).string();  // through symbolic links
    if (target_.empty()) target_ = flags_.out;
    if (!flags_.report.empty()) check_writable(flags_.report);
    if (!flags_.texts.empty()) {
      check_distinct(flags_.texts, flags_.out);
      check_distinct(flags_.texts, flags_.report);
      check_new_file(flags_.texts);
    }
    flags_.place(model_.config().n_layers);
    if (flags_.only_chained()) {
      flags_.train.deepest_chained = flags_.train.layers.back();  // those that were asked for
    } else {
      for (const std::string& line : flags_.kinds_without_layer(model_.config().n_layers))
        say(line);
    }
    flags_.train.threads = flags_.model.n_threads;
    check_rows("hidden", model_.config().dim);
    if (flags_.wants_prompts()) check_rows("attention's", model_.config().q_dim());
    if (flags_.folder.empty()) flags_.folder = flags_.out + ".training";
  }

  int run() {
    read_data();
    TrainingFolder folder(flags_.folder);
    const bool resumed = folder.begin(made_with(), flags_.begin());
    if (resumed) {
      std::fprintf(stderr, "going on with the training in %s\n",
                   terminal_text(flags_.folder).c_str());
      std::ifstream(folder.spent()) >> before_;
    }
    TrainedHeads trained;
    try {
      model_.load();
      trained = learn(folder, resumed);
    } catch (...) {
      if (may_go_on_later()) keep(folder, resumed);
      throw;
    }
    if (!flags_.report.empty()) {
      write_file(flags_.report, report_html(trained, {model_.path(), joined(flags_.data),
                                                      model_.config().n_layers}));
    }
    const TrainingSummary summary = {flags_,    corpus_,           trained,       model_.path(),
                                     seconds(), shortlist_.size(), settings_from_};
    return write_stdout(training_summary(summary)) ? 0 : 1;
  }

 private:
  // For the same command once more. Time is something to go on from where it is what is given out.
  void keep(TrainingFolder& folder, bool resumed) const {
    const bool begun = learnt_ > 0 || fs::exists(folder.texts());
    if (!resumed && !begun && !(flags_.minutes > 0 && fs::exists(folder.spent()))) return;
    folder.keep();
    say("what there is so far is kept in " + terminal_text(flags_.folder) +
        ": the same command goes on from there, with --fresh it starts over");
  }

  // All of it, to the file. What is on disk goes when that is there.
  TrainedHeads learn(const TrainingFolder& folder, bool resumed) {
    std::optional<FeatureStore> features;
    if (!flags_.train.kinds.empty()) {
      features.emplace(flags_.folder, flags_.feature_layers(), model_.config().dim,
                       flags_.max_disk);
      if (flags_.wants_prompts()) features->with_prompts();
    }
    TrainedHeads trained;
    try {
      make_texts(folder, features && !resumed ? &*features : nullptr);
      if (std::ranges::any_of(flags_.train.kinds, learns_shortlist)) {
        shortlist_ = count_shortlist(texts_, model_.config().vocab_size,
                                     flags_.shortlist_size(model_.config().vocab_size),
                                     [this](int32_t id) { return model_.ends_reply(id); });
      }
      if (features) {
        compute_features(*features, folder, resumed);
        trained = train(*features, folder);
      }
      finish(trained, folder);
    } catch (...) {
      if (features && may_go_on_later()) features->keep();
      throw;
    }
    return trained;
  }

  void finish(TrainedHeads& trained, const TrainingFolder& folder) {
    trained.heads.base = heads_base(model_.gguf(), model_.config());
    trained.heads.learnt = trained.rows;
    if (flags_.keeps_text()) trained.heads.text = reply_tokens(texts_, kMostTextTokens);
    set_defaults(trained, folder);
    if (prefer_layer(trained.reports, model_.config().n_layers, trained.heads.defaults)) {
      settings_from_ = "guessed: its chains are right for longest, for what they cost";
    }
    write(trained);
  }

  void check_rows(const char* which, int width) const {
    if (width % 32 == 0) return;
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected %s rows of a multiple of 32 for heads in Q8_0, found %d",
                       model_.path().c_str(), which, width));
  }
  // Of this run and those that were killed.
  double seconds() const { return before_ + time_.seconds(); }
  // From now on, of a part of --minutes.
  double until(double part) const { return 60 * flags_.minutes * part - seconds(); }
  // For the run after a kill.
  void keep_time(const TrainingFolder& folder) {
    if (time_.seconds() < kept_at_ + kKeepSeconds) return;
    kept_at_ = time_.seconds();
    try {
      write_file(folder.spent(), format("%.1f\n", seconds()));
    } catch (const Error&) {  // those that run on are not ended by it
    }
  }
  std::function<double()> clock() const {
    return [this] { return time_.seconds(); };
  }

  void read_data() {
    if (flags_.data.empty()) {
      chat_template_ = model_.find_chat_template();
      corpus_ = seed_prompts(chat_template_ != nullptr);
      const std::string much = flags_.fills_minutes
                                   ? format("%g minutes in all", flags_.minutes)
                                   : grouped(flags_.self_generate) + " tokens of it";
      std::fprintf(stderr,
                   "no --data: learning what the model answers to %s built-in requests, %s\n",
                   grouped(std::ssize(corpus_.texts)).c_str(), much.c_str());
    } else {
      corpus_ = read_data_files(flags_.data, kInterrupted);
      if (corpus_.dialogues > 0) chat_template_ = &model_.chat_template();
    }
    if (!flags_.also.empty()) {
      also_ = read_data_files(flags_.also, kInterrupted, "also");
      if (also_.dialogues > 0) chat_template_ = &model_.chat_template();
    }
    const int rounds = flags_.fills_minutes ? kRounds : 1;
    for (int round = 0; round < rounds; ++round) {
      for (const size_t i : shuffled_order(corpus_.texts.size(), flags_.train.seed + round)) {
        order_.push_back(&corpus_.texts[i]);
      }
    }
  }

  // All that the texts and their hidden states depend on.
  TrainingFolder::MadeWith made_with() const {
    const std::string layers =
        joined(flags_.feature_layers(), ",", [](int layer) { return std::to_string(layer); });
    TrainingFolder::MadeWith all = {
        {"model", model_fingerprint(model_.gguf())},
        {"data", format("%016llx", static_cast<unsigned long long>(corpus_.hash))},
        {"--also", format("%016llx", static_cast<unsigned long long>(also_.hash))},
        {"--texts", flags_.texts},
        {"--seed", std::to_string(flags_.train.seed)},
        {"--chat-template", flags_.model.chat_template},
        {"-c", std::to_string(model_.n_ctx())},
        {"--self-generate", std::to_string(flags_.self_generate)},
        {"--minutes", flags_.fills_minutes ? format("%g", flags_.minutes) : "any"},
        {"--self-temp", format("%.9g", flags_.self_temp)},
        {"--max-tokens", std::to_string(flags_.max_learnt_tokens())},
        {"--layers", layers},
        {"--max-disk", std::to_string(flags_.max_disk)}};
    // Trainings of builds that knew FP16 alone go on.
    const KvType kv = flags_.model.device.kv;
    if (kv != KvType::kFp16) all.emplace_back("--kv", kv_type_name(kv));
    if (flags_.wants_prompts()) all.emplace_back("a draft layer in --kinds", "yes");
    return all;
  }

  // `features`: of a training that begins.
  void make_texts(const TrainingFolder& folder, FeatureStore* features) {
    flags_.self_generate > 0 ? generate_texts(folder, features) : encode_texts();
    learnt_ = learnt_tokens(texts_);
    if (learnt_ == 0) {
      throw Error(ErrorCode::kUsage,
                  format("nothing to learn: no reply begins within the context of %d tokens",
                         model_.n_ctx()));
    }
    const bool tuned = flags_.self_generate > 0 && !flags_.no_tune &&
                       std::ranges::any_of(flags_.train.kinds, is_replayed);
    split_ = split_texts(texts_, {.held = held_,
                                  .first = texts_.size() - written_,
                                  .wanted = tuned ? kShippedTuningTokens : 0,
                                  .most = flags_.max_learnt_tokens()});
  }

  void encode_texts() {
    const int64_t most = flags_.max_learnt_tokens();
    Progress bar("tokens", Progress::Unit::kWork);
    int64_t n = 0;
    for (const CorpusText* text : order_) {
      if (n >= most) break;
      check_interrupt(kInterrupted);
      for (TrainingText& t :
           training_texts(*text, model_.tokenizer(), chat_template_, model_.n_ctx())) {
        if (n >= most) break;
        n += learnt_tokens(t);
        texts_.push_back(std::move(t));
      }
      bar.update(static_cast<size_t>(n), static_cast<size_t>(most));
    }
    held_ = texts_.size();
  }

  std::span<const float> output_norm() const {
    return {model_.weights().output_norm, static_cast<size_t>(model_.config().dim)};
  }

  // Whether their states can be had as texts are written, which are then all that is learnt.
  bool keeps_states(const FeatureStore& features) {
    std::error_code error;
    return flags_.max_learnt_tokens() >= flags_.self_generate && also_.texts.empty() &&
           (flags_.texts.empty() || !fs::exists(flags_.texts, error)) && !flags_.wants_prompts() &&
           WrittenStates::possible(features.layers(), model_.backend());
  }

  void generate_texts(const TrainingFolder& folder, FeatureStore* features) {
    const double start = time_.seconds();
    std::optional<WrittenStates> states;
    if (features && keeps_states(*features)) {
      states.emplace(*features, model_.backend(), output_norm(), flags_.fills_minutes);
    }
    Progress bar("writing replies", Progress::Unit::kWork);
    SelfGenerateOptions options;
    options.tokens = flags_.self_generate;
    options.temperature = static_cast<float>(flags_.self_temp);
    options.seed = flags_.train.seed;
    options.distinct = corpus_.texts.size();
    const std::optional<size_t> whole = whole_texts(folder);
    if (whole) options.tokens = 0;  // hidden states may be there of just these
    if (flags_.minutes > 0) {
      const double part = flags_.train.kinds.empty() ? 1 : states ? kWritingWithStates : kWriting;
      options.seconds = std::max(1.0, until(part));
    }
    options.clock = clock();
    options.file = flags_.texts.empty() ? folder.texts() : flags_.texts;
    options.warn = [](const std::string& warning) { say(terminal_text(warning)); };
    options.model = model_fingerprint(model_.gguf());
    options.ends_reply = [this](int32_t id) { return model_.ends_reply(id); };
    options.abort = &interrupt_flag();
    options.states = states ? &*states : nullptr;
    int64_t before = -1, in_file = -1;
    options.progress = [&](int64_t tokens, int64_t finished) {
      if (before < 0) before = in_file = finished;
      const double s = time_.seconds() - start;
      const double part = options.seconds > 0 ? s / options.seconds : 0;
      const double of_all = static_cast<double>(tokens) / static_cast<double>(flags_.self_generate);
      bar.update(static_cast<size_t>(std::min(1.0, std::max(part, of_all)) * kSteps),
                 static_cast<size_t>(kSteps),
                 format("%.0f tok/s", static_cast<double>(tokens - before) / s));
      if (std::exchange(in_file, finished) < finished) keep_time(folder);  // a kill costs the rest
    };
    texts_ = self_generate(model_.backend(), model_.tokenizer(), chat_template_, order_, options);
    check_interrupt(kInterrupted);
    if (whole && texts_.size() > *whole) texts_.resize(*whole);  // others have added theirs
    if (whole && *whole != texts_.size()) {
      throw Error(ErrorCode::kFormat,
                  format("%s: expected %zu texts, found %zu: fresh=on starts over",
                         options.file.c_str(), *whole, texts_.size()));
    }
    if (!whole) write_file(folder.whole(), std::to_string(texts_.size()) + "\n");
    // Only now: those that are held out stand behind all others that there will be.
    if (states) states->finish();
    written_ = texts_.size();
    held_ = flags_.fills_minutes ? hold_out(texts_) : written_;
    const int64_t all = learnt_tokens(texts_);
    add_also();
    std::fprintf(stderr, "replies: the model wrote %s, %s tokens, in %s\n",
                 grouped(written_).c_str(), grouped(all).c_str(),
                 time_text(time_.seconds() - start).c_str());
    if (all < flags_.self_generate && flags_.minutes == 0) {
      std::fprintf(stderr,
                   "replies: --self-generate %lld asked for more: the data has no further "
                   "turns\n",
                   static_cast<long long>(flags_.self_generate));
    }
  }

  // In front, as what is learnt for certain.
  void add_also() {
    std::vector<TrainingText> texts;
    for (const CorpusText& text : also_.texts) {
      check_interrupt(kInterrupted);
      std::ranges::move(training_texts(text, model_.tokenizer(), chat_template_, model_.n_ctx()),
                        std::back_inserter(texts));
    }
    texts_.insert(texts_.begin(), std::make_move_iterator(texts.begin()),
                  std::make_move_iterator(texts.end()));
    held_ += texts.size();
  }

  // How many an interrupted run wrote, if that was all it was to write.
  static std::optional<size_t> whole_texts(const TrainingFolder& folder) {
    std::error_code error;
    if (!fs::exists(folder.whole(), error)) return std::nullopt;
    size_t n = 0;
    std::ifstream(folder.whole()) >> n;
    return n;
  }

  // Whether there is no time, or where minutes are filled no room, for more hidden states than of
  // what is held out: what is learnt has to be validated.
  bool no_more_states(const FeaturePasses& passes) const {
    if (flags_.minutes == 0 || passes.learnt_rows() == 0) return false;
    return until(kLookingOn) <= 0 ||
           (flags_.fills_minutes && passes.bytes() > flags_.max_disk / 10 * 9);
  }

  void compute_features(FeatureStore& features, const TrainingFolder& folder, bool resumed) {
    const double start = time_.seconds();
    if (!(resumed && features.resume())) {
      Progress bar("hidden states", Progress::Unit::kWork);
      const int64_t most = std::min(learnt_, flags_.max_learnt_tokens());
      int64_t left_out = 0;  // texts
      FeaturePasses passes(features, model_.backend(), output_norm(), &interrupt_flag());
      for (size_t i = static_cast<size_t>(features.n_texts()); i < texts_.size(); ++i) {
        const bool wanted = i < split_.learnt || i >= split_.held;
        if (!wanted || (i < split_.held && no_more_states(passes))) {
          if (!passes.leave_out()) check_interrupt(kInterrupted);
          left_out += wanted;
          continue;
        }
        if (!passes.add(texts_[i])) {
          check_interrupt(kInterrupted);
          if (passes.learnt_rows() == 0) {
            throw Error(ErrorCode::kUsage,
                        format("--max-disk: one text needs more than %s: raise it, or give fewer "
                               "--layers",
                               size_text(flags_.max_disk).c_str()));
          }
          std::fprintf(stderr,
                       "features: --max-disk %s is reached: learning from %s of %s tokens\n",
                       size_text(flags_.max_disk).c_str(), grouped(passes.learnt_rows()).c_str(),
                       grouped(most).c_str());
          break;
        }
        bar.update(static_cast<size_t>(features.n_learnt_rows()), static_cast<size_t>(most));
        keep_time(folder);
      }
      if (!passes.finish()) check_interrupt(kInterrupted);
      features.finish();
      if (left_out > 0) {
        std::fprintf(stderr, "features: no time or room for %s of %s texts\n",
                     grouped(left_out).c_str(), grouped(std::ssize(texts_)).c_str());
      }
    }
    const std::string prompts = features.n_prompt_rows() == 0
                                    ? ""
                                    : " and " + grouped(features.n_prompt_rows()) + " of prompts";
    std::fprintf(stderr, "features: %s tokens%s at %zu layers, %s on disk, in %s\n",
                 grouped(features.n_learnt_rows()).c_str(), prompts.c_str(),
                 features.layers().size(), size_text(features.bytes()).c_str(),
                 time_text(time_.seconds() - start).c_str());
  }

  TrainedHeads train(const FeatureStore& features, const TrainingFolder& folder) {
    const Weights& weights = model_.weights();
    const std::vector<float> lm_head = matrix_floats(weights.lm_head);
    TrainOptions options = flags_.train;
    options.checkpoint = folder.checkpoint();
    options.clock = clock();
    options.softcap = model_.config().final_softcap;
    options.embedding = weights.token_embd;
    options.config = &model_.config();
    options.rope_factors = weights.rope_factors_for(model_.config(), model_.n_ctx());
    options.output_norm = weights.output_norm;
    if (flags_.minutes > 0) {
      options.seconds = std::max(1.0, until(flags_.fills_minutes ? kLearning : 1));
    }
    if (Device* const gpu = model_.backend().gpu()) {
      options.device_learner = [gpu](const LearningTask& task) {
        return gpu_engine().learner(*gpu, task);
      };
    }
    FeatureSource source = feature_source(features);
    const size_t n_texts = static_cast<size_t>(features.n_texts());
    if (n_texts > split_.held) {
      source.held_rows = learnt_tokens(std::span(texts_).first(n_texts).subspan(split_.held));
    }
    std::optional<Progress> bar;
    std::string stage, arithmetic;
    TrainedHeads trained = train_heads(
        source, lm_head, shortlist_, heads_base(model_.gguf(), model_.config()), options,
        [&](const TrainProgress& progress) {
          if (interrupt_flag()) return false;  // what was learnt is saved
          keep_time(folder);
          if (!progress.warning.empty()) {
            bar.reset();
            stage.clear();
            say(progress.warning);
          }
          if (arithmetic != progress.arithmetic) {
            arithmetic = progress.arithmetic;
            std::fprintf(stderr, "training: matrices by %s\n", terminal_text(arithmetic).c_str());
          }
          if (stage != progress.stage) {
            bar.reset();
            stage = progress.stage;
            bar.emplace(stage, Progress::Unit::kWork);
          }
          std::string suffix;
          if (progress.loss > 0) suffix = format("loss %.4f", progress.loss);
          if (progress.tokens_x_layers_per_second > 0) {
            suffix += format("%s%.0f tokens x layers/s", suffix.empty() ? "" : "  ",
                             progress.tokens_x_layers_per_second);
          }
          bar->update(static_cast<size_t>(progress.done * kSteps), static_cast<size_t>(kSteps),
                      suffix);
          return true;
        });
    if (trained.heads.heads.empty()) check_interrupt(kInterrupted);
    unseen_ = first_unseen(texts_, n_texts, trained.validation_rows);
    return trained;
  }

  // What the file ships: tuned on what the model wrote, or guessed from the validation.
  void set_defaults(TrainedHeads& trained, const TrainingFolder& folder) {
    if (trained.heads.heads.empty()) return;
    trained.heads.defaults = guess_defaults(trained.reports, model_.config().n_layers,
                                            static_cast<int>(shortlist_.size()));
    if (nothing_to_tune(trained)) return;
    if (flags_.no_tune) {
      settings_from_ = "guessed: --no-tune";
      return;
    }
    settings_from_ =
        "guessed: there are no texts by the model to tune on; --self-generate makes them";
    if (flags_.self_generate == 0) return;
    std::optional<ShippedSettings> tuned;
    try {
      tuned = tune(trained, folder);
    } catch (const Interrupted&) {  // what was trained is not lost for it
      clear_interrupt();
      settings_from_ = "guessed: interrupted while settings were tuned";
      return;
    } catch (const Error& e) {
      settings_from_ = std::string("guessed: ") + e.what();
      return;
    }
    if (!tuned) return;
    if (tuned->defaults.w_max == 1) {
      settings_from_ = format("guessed: by replay on %s tokens nothing beats plain decoding",
                              grouped(tuned->tokens).c_str());
      return;
    }
    trained.heads.defaults = tuned->defaults;
    settings_from_ = format("tuned by replay on %s tokens: predicted %.2fx",
                            grouped(tuned->tokens).c_str(), tuned->speedup);
  }

  std::optional<ShippedSettings> tune(const TrainedHeads& trained, const TrainingFolder& folder) {
    const TemporaryFile file(folder.tuned());
    NewHeads tuned = trained.heads;
    std::erase_if(tuned.heads, [](const NewHead& head) { return !is_replayed(head.kind); });
    write_exit_heads(file.path(), tuned);
    const ExitHeads heads = ExitHeads::open(file.path(), model_.gguf(), model_.config());
    return tune_shipped(model_, heads,
                        {texts_, unseen_, static_cast<float>(flags_.self_temp), flags_.train.seed,
                         [this] { return flags_.minutes > 0 && until(kTuning) <= 0; }});
  }

  void write(const TrainedHeads& trained) {
    // Whole or not at all: a model that finds half a file beside it would refuse to start.
    const TemporaryFile file(target_);
    write_exit_heads(file.path(), trained.heads);
    ExitHeads::open(file.path(), model_.gguf(), model_.config());
    std::error_code error;
    fs::rename(file.path(), target_, error);
    if (error) {
      throw Error(ErrorCode::kFile,
                  format("%s: cannot write: %s", flags_.out.c_str(), error.message().c_str()));
    }
  }

  TrainHeadsFlags flags_;
  RunningTime time_;
  double before_ = 0, kept_at_ = 0;  // seconds: of runs that were killed, and when they were kept
  LoadedModel model_;
  Corpus corpus_, also_;
  const ChatTemplate* chat_template_ = nullptr;  // if there are dialogues
  std::vector<const CorpusText*> order_;         // shuffled
  std::vector<TrainingText> texts_;
  size_t written_ = 0;  // of them by the model, the last ones
  size_t held_ = 0;     // those from here on answer prompts that no other text does
  TextSplit split_;
  size_t unseen_ = 0;   // settings are tuned on those from here on
  int64_t learnt_ = 0;  // tokens, in texts_
  std::vector<int32_t> shortlist_;
  std::string target_;         // what the output is, links resolved
  std::string settings_from_;  // how the file came to its settings, in words
};

int run(TrainHeadsFlags& given) {
  given.check();
  catch_interrupts();
  return Training(std::move(given)).run();
}

const CommandOf<TrainHeadsFlags> kTrainHeads(
    {.rank = 60,
     .name = "train-heads",
     .summary = "train exit heads, which make a model fast, on texts like yours",
     .text =
         "Train exit heads for a model and write them beside it, where run and chat find them. The "
         "summary goes to stdout, everything else to stderr.",
     .footer = kTeaching},
    add_train_heads_flags, run);

}  // namespace

}  // namespace specbound::train_heads_command
