#include "cli/train_heads_flags.h"

#include <algorithm>
#include <array>
#include <set>

#include "cli/common_flags.h"
#include "error.h"
#include "system/number_text.h"

namespace specbound {

namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 40;
constexpr double kMinutes = 30;            // without data
constexpr int64_t kMostWritten = 2000000;  // tokens in that time
constexpr int64_t kQuickWritten = 20000;   // tokens, --quick
constexpr int kMaxLayer = 100000;
constexpr int kMostUnrolled = 8;  // steps

Flag& add_count(Flags& flags, const std::string& name, int64_t& value,
                const std::string& description) {
  const auto read = [&value](const std::string& text) {
    const auto number = parse_int(text);
    if (!number || *number < 1 || *number > kMaxTokens) return false;
    value = *number;
    return true;
  };
  return flags.add_read(name, "a whole number from 1 to 2^40", read, description).type("N");
}

void add_data_flags(Flags& flags, TrainHeadsFlags& given) {
  const Flags::Group group(flags, "What is learnt");
  add_data_files(flags, given.data, "texts to learn from",
                 " (default: replies that the model writes itself, to built-in requests of many "
                 "kinds)");
  add_count(flags, "--self-generate", given.self_generate,
            "let the model write the replies itself, N tokens of them, half greedy, half sampled, "
            "and learn those: what it writes is what the heads will have to guess (default: none, "
            "without --data as many as a third to a half of --minutes has time for, with --quick "
            "too 20000)");
  flags.add_real("--self-temp", given.self_temp, 0.01, 10,
                 "temperature of the sampled half (default 0.7)");
  flags.add_files("--also", given.also,
                  "texts to learn as they are beside what the model writes, such as chats with it; "
                  "files as --data has them, may be given several times (default: none)");
  add_count(flags, "--max-tokens", given.max_tokens,
            "tokens to learn from at most (default 200000, --quick 40000; with --self-generate all "
            "of them)");
}

void add_head_flags(Flags& flags, TrainHeadsFlags& given) {
  const Flags::Group group(flags, "Heads");
  flags
      .add_read(
          "--kinds",
          "kinds among text, chained, layer, folded, full, medusa, hydra, eagle, eagle3 and "
          "kangaroo, as text,chained",
          [&given](const std::string& text) {
            auto kinds = parse_kinds(text, given.text);
            if (kinds) given.train.kinds = std::move(*kinds);
            return kinds.has_value();
          },
          "text (what was learnt itself, to look up in; nothing is trained), chained (sees the "
          "state before its row too), layer (one layer that attends to the whole text; the best "
          "guesses, given much text and time), folded (cheapest), full (the paper's: whole "
          "vocabulary, dear), eagle (EAGLE's layer, with the model's own output matrix), eagle3 "
          "(EAGLE-3's, from the states of three layers, for the tokens of the shortlist), medusa "
          "and hydra (one head for each of the next 4 tokens, with the model's own output matrix; "
          "hydra sees the tokens between), kangaroo (an attention behind an early layer, with the "
          "model's own output matrix) (default chained,folded, with --self-generate text too; with "
          "neither that nor --data chained,text)")
      .type("LIST");
  flags
      .add_read(
          "--layers", "layers as 0,1,2,4 or 1-10",
          [&given](const std::string& text) {
            auto layers = parse_layers(text);
            if (layers) given.layers = std::move(*layers);
            return layers.has_value();
          },
          "layers to put heads behind, as 0,1,2,4 or 1-10; 0, before any layer, is for chained "
          "ones, and kangaroo takes the first of the others (default: more of the shallow ones, "
          "for kangaroo 2; with none of --data, --self-generate and --kinds 0)")
      .type("LIST");
  flags
      .add_int(
          "--shortlist", given.shortlist, 1, 1 << 24,
          "tokens that chained, folded, layer and eagle3 heads can guess, the most frequent "
          "(default 1024, or 8192 of a vocabulary above 16384; rounded up to a multiple of 16)")
      .command_line_only();  // run's says how many of these are looked at
}

void add_training_flags(Flags& flags, TrainHeadsFlags& given) {
  const Flags::Group group(flags, "Training");
  flags.add_switch("--quick", given.train.quick, "least squares only: good heads in little time");
  flags.add_int("--epochs", given.train.epochs, 1, 100000,
                format("passes over what is learnt (default %d)", given.train.epochs));
  flags.add_int("--unroll", given.train.unroll, 1, kMostUnrolled,
                format("steps that a chained head or a draft layer goes on its own state in "
                       "training (default %d)",
                       given.train.unroll));
  flags.add_real("--lr", given.train.learning_rate, 1e-9, 10,
                 "learning rate (default 0.002, less where the model's rows are wider than 576)");
  flags.add_real(
      "--minutes", given.minutes, 0.01, 1e6,
      "stop training this long after the start, whatever is left to write, to read and to learn "
      "(default: no limit). With neither --data nor --self-generate nor --quick (default 30): be "
      "done by then, the "
      "model having written as much as there is time to learn");
  flags.add_switch(
      "--no-tune", given.no_tune,
      "put guessed settings into the file; without it, those that were fastest by replay "
      "of texts that the model wrote, under costs measured here (with --self-generate)");
  flags
      .add_read(
          "--seed", "a whole number from 0 to 18446744073709551615",
          [&given](const std::string& text) {
            const auto seed = parse_uint(text);
            if (seed) given.train.seed = *seed;
            return seed.has_value();
          },
          "the same seed and data give the same weights, with --no-tune the same file, but where "
          "--minutes limits it (default 0)")
      .type("N");
}

void add_file_flags(Flags& flags, TrainHeadsFlags& given) {
  const Flags::Group group(flags, "Files");
  flags.add_output_file(
      "-o,--output", given.out,
      "heads file to write (default: NAME.heads.gguf beside the model, where it is "
      "found by itself)");
  flags.add_output_file("--report", given.report, "write a page with curves and tables too, HTML");
  flags
      .add_file(
          "--features-dir", given.folder,
          "folder for hidden states while it runs (default: OUTPUT.training); emptied at the end, "
          "left for the next run after a kill")
      .type("DIR");
  flags.add_output_file(
      "--texts", given.texts,
      "keep what the model writes in this file; a later training of the same model goes on behind "
      "it and learns all of it (default: nothing is kept)");
  flags.add_size("--max-disk", given.max_disk, Flags::Zero::kRefused,
                 "bytes of hidden states at most, as 500M or 8G (default 4G)");
  flags
      .add_switch(
          "--resume", given.resume,
          "insist on going on with a training that was killed; without it that happens when "
          "there is one")
      .command_line_only();
  flags.add_switch("--fresh", given.fresh, "start over even if there is one").command_line_only();
}

}  // namespace

std::optional<std::vector<HeadKind>> parse_kinds(std::string_view list, std::optional<bool>& text) {
  std::vector<HeadKind> kinds;
  text = false;
  for (const std::string_view name : split(list, ',')) {
    if (name == "text" && !*text) {
      text = true;
      continue;
    }
    const auto kind = parse_head_kind(name);
    if (!kind || !is_trained(*kind) || std::ranges::find(kinds, *kind) != kinds.end()) {
      return std::nullopt;
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

std::optional<std::vector<int>> parse_layers(std::string_view text) {
  std::vector<int> layers;
  for (const std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > kMaxLayer) return std::nullopt;
    for (int64_t l = *first; l <= *last; ++l) layers.push_back(static_cast<int>(l));
    if (layers.size() > kMaxLayer) return std::nullopt;
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

bool TrainHeadsFlags::has(HeadKind kind) const {
  return std::find(train.kinds.begin(), train.kinds.end(), kind) != train.kinds.end();
}

bool TrainHeadsFlags::only_chained() const {
  return has(HeadKind::kChained) && std::ranges::all_of(train.kinds, [](HeadKind kind) {
           return kind == HeadKind::kChained || !is_replayed(kind);
         });
}

TrainingFolder::Begin TrainHeadsFlags::begin() const {
  return resume  ? TrainingFolder::Begin::kResume
         : fresh ? TrainingFolder::Begin::kFresh
                 : TrainingFolder::Begin::kAny;
}

int64_t TrainHeadsFlags::max_learnt_tokens() const {
  if (max_tokens > 0) return max_tokens;
  if (self_generate > 0) return std::numeric_limits<int64_t>::max();
  return train.quick ? 40000 : 200000;
}

std::vector<int> TrainHeadsFlags::head_layers(int n_layers) const {
  if (!train.kinds.empty() && std::ranges::none_of(train.kinds, is_replayed)) {
    if (layers.empty() || has(HeadKind::kKangaroo)) return {};
    throw Error(ErrorCode::kUsage,
                format("--layers: %s heads stand before the layers, found no other kind",
                       head_kind_name(train.kinds[0])));
  }
  const bool chained = has(HeadKind::kChained);
  const int first = chained ? 0 : 1;
  if (n_layers < 2) {
    throw Error(ErrorCode::kUsage,
                format("the model has %d layer: heads need two, one to leave behind", n_layers));
  }
  if (!layers.empty()) {
    if (layers.front() < first || layers.back() >= n_layers) {
      throw Error(ErrorCode::kUsage,
                  format("--layers: expected %d to %d%s, found %d", first, n_layers - 1,
                         chained ? "" : " (0 is for chained heads)",
                         layers.front() < first ? layers.front() : layers.back()));
    }
    return layers;
  }
  // 1 2 3 4 6 8 12 16 24 ..: what a deep exit saves is little, and so is the need for choice there.
  const int deepest = only_chained() ? train.deepest_chained : 3 * n_layers / 4;
  std::vector<int> chosen;
  if (chained) chosen.push_back(0);
  for (int l = 1, step = 1; l < n_layers && l <= deepest; l += step) {
    chosen.push_back(l);
    if (l >= 4 && (l & (l - 1)) == 0) step = l / 2;
  }
  return chosen;
}

// A file has one. The authors' stands behind layer 2 of 32, and so does that of any other model.
int TrainHeadsFlags::adapter_layer(int n_layers) const {
  if (n_layers < 2) {
    throw Error(
        ErrorCode::kUsage,
        format("the model has %d layer: kangaroo heads need two, one to stand behind", n_layers));
  }
  const auto first = std::ranges::find_if(layers, [](int layer) { return layer > 0; });
  const bool one = layers.size() == 1 && first != layers.end() && *first < n_layers;
  if (std::ranges::none_of(train.kinds, is_replayed) && !layers.empty() && !one) {
    const std::string found =
        layers.size() > 1 ? format("%zu layers", layers.size()) : std::to_string(layers[0]);
    throw Error(ErrorCode::kUsage,
                format("--layers: expected one layer from 1 to %d, which a kangaroo head stands "
                       "behind, found %s",
                       n_layers - 1, found.c_str()));
  }
  return first != layers.end() ? *first : std::min(2, n_layers - 1);
}

void TrainHeadsFlags::place(int n_layers) {
  train.layers = head_layers(n_layers);
  if (has(HeadKind::kKangaroo)) train.adapter_layer = adapter_layer(n_layers);
  if (!has(HeadKind::kEagle3)) return;
  if (n_layers < 3) {
    throw Error(ErrorCode::kUsage,
                format("the model has %d layers: eagle3 heads take the states of three", n_layers));
  }
  // Where the authors' do not ascend: the first, the middle and the last.
  train.states =
      n_layers >= 7 ? eagle3_layers(n_layers) : std::array{1, (n_layers + 1) / 2, n_layers};
}

std::vector<int> TrainHeadsFlags::feature_layers() const {
  std::set<int> all(train.layers.begin(), train.layers.end());
  if (has(HeadKind::kLayer)) all.insert(0);
  if (has(HeadKind::kKangaroo)) all.insert(train.adapter_layer);
  if (has(HeadKind::kEagle3)) all.insert(train.states.begin(), train.states.end());
  return {all.begin(), all.end()};
}

std::vector<std::string> TrainHeadsFlags::kinds_without_layer(int n_layers) const {
  std::vector<std::string> lines;
  const auto tell = [&lines](const char* kind, int first, const std::string& last) {
    lines.push_back(format("--layers: no %s head is made: they go on layers %d to %s", kind, first,
                           last.c_str()));
  };
  if (has(HeadKind::kChained) && train.layers.front() > train.deepest_chained) {
    tell("chained", 0, std::to_string(train.deepest_chained) + " beside other kinds");
  }
  for (const HeadKind kind : {HeadKind::kFolded, HeadKind::kFull}) {
    if (has(kind) && train.layers.back() == 0) {
      tell(head_kind_name(kind), 1, std::to_string(n_layers - 1));
    }
  }
  return lines;
}

int TrainHeadsFlags::shortlist_size(int vocab_size) const {
  const int asked = shortlist > 0 ? shortlist : vocab_size > 16384 ? 8192 : 1024;
  return std::min((asked + 15) / 16 * 16, vocab_size);
}

void TrainHeadsFlags::check() {
  if (train.kinds.empty() && !report.empty()) {
    throw Error(ErrorCode::kUsage,
                "--report: tells of trained heads, found no kind that is trained");
  }
  const auto kind = std::ranges::find_if_not(train.kinds, is_replayed);
  if (train.quick && kind != train.kinds.end()) {
    throw Error(ErrorCode::kUsage,
                format("--quick: is least squares alone, which is not enough for %s heads: leave "
                       "it out, or leave out that kind",
                       head_kind_name(*kind)));
  }
  if (data.empty() && self_generate == 0) {
    // Real models' exits are right too seldom to pay; what guesses before any layer nearly always
    // does, and its hidden states are soon there.
    if (!text) {
      train.kinds = {HeadKind::kChained};
      if (layers.empty()) layers = {0};
    }
    fills_minutes = !train.quick;
    if (fills_minutes && minutes == 0) minutes = kMinutes;
    self_generate = fills_minutes ? kMostWritten : kQuickWritten;
    if (max_tokens > 0) self_generate = std::min(self_generate, max_tokens);
  }
  for (const auto& [flag, given] :
       {std::pair("--texts", !texts.empty()), std::pair("--also", !also.empty())}) {
    if (!given || self_generate > 0) continue;
    throw Error(ErrorCode::kUsage,
                format("%s: is beside what the model writes: leave out --data, or give "
                       "--self-generate too",
                       flag));
  }
  // Texts are written and looked at side by side. A GPU looks at them one by one: where none are to
  // be written, heads learn in the memory that further K and V would take.
  model.n_sequences = kMaxRows;
  model.one_text_on_gpu = self_generate == 0;
  if (resume && fresh) {
    throw Error(ErrorCode::kUsage, "--resume goes on, --fresh starts over: give one of them");
  }
}

void add_train_heads_flags(Flags& flags, TrainHeadsFlags& given) {
  add_data_flags(flags, given);
  add_head_flags(flags, given);
  add_training_flags(flags, given);
  add_file_flags(flags, given);
  add_model_flags(flags, given.model);
}

}  // namespace specbound
