#include "tools/ppl.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "error.h"
#include "json/json_writer.h"
#include "library/load_watcher.h"
#include "runtime/loaded_model.h"
#include "system/file_output.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/standard_output.h"
#include "terminal/terminal_text.h"
#include "tools/ppl_texts.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kDefaultWindow = 512;  // llama-perplexity's

// Of the texts scored through one path.
struct PathFigures {
  Through through;
  NllSum nll;
  int64_t rows = 0;
  double seconds = 0;
  std::vector<double> of_text;  // [text] sums of -log p

  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(rows) / seconds : 0; }
};

struct Figures {
  std::vector<PathFigures> paths;
  size_t texts = 0;  // scored
  // Where there are two paths: tokens whose -log p differs between them, and by how much at most.
  int64_t differing = 0;
  double apart = 0;
};

const char* unit_name(const PplTexts& texts, size_t n) {
  if (texts.windows) return n == 1 ? "window" : "windows";
  return n == 1 ? "text" : "texts";
}

void refuse_infinite(const std::vector<double>& nll, const PplTexts& texts, size_t number,
                     const ScoredRun& run) {
  const auto found =
      std::find_if(nll.begin(), nll.end(), [](double x) { return !std::isfinite(x); });
  if (found == nll.end()) return;
  const auto token = static_cast<long long>(run.first + (found - nll.begin()));
  throw Error(ErrorCode::kFormat,
              format("%s %zu, token %lld: expected a probability, found %s: there is no perplexity",
                     unit_name(texts, 1), number + 1, token,
                     std::isnan(*found) ? "logits that are no finite numbers (a damaged model?)"
                                        : "that the model gives this token none at all"));
}

Figures measure(LoadedModel& model, const PplTexts& texts, const std::vector<Through>& paths) {
  Figures figures;
  for (const Through through : paths) figures.paths.push_back({through, {}, 0, 0, {}});
  TextScorer scorer(model.backend());
  Progress bar("perplexity", Progress::Unit::kWork);
  const auto total = static_cast<size_t>(texts.rows()) * paths.size();
  size_t done = 0;
  std::string so_far;
  const auto go_on = [&](int rows) {
    done += static_cast<size_t>(rows);
    bar.update(done, total, so_far);
    return !interrupt_flag();
  };
  for (const ScoredRun& run : texts.runs) {
    const std::vector<int32_t> text = texts.text(run);
    std::vector<std::vector<double>> nll;
    for (PathFigures& path : figures.paths) {
      const Clock::time_point start = Clock::now();
      std::optional<std::vector<double>> found = scorer.score(text, run.first, path.through, go_on);
      if (!found) return figures;
      path.seconds += std::chrono::duration<double>(Clock::now() - start).count();
      refuse_infinite(*found, texts, figures.texts, run);
      nll.push_back(std::move(*found));
    }
    for (size_t i = 0; i < nll.size(); ++i) {
      PathFigures& path = figures.paths[i];
      double sum = 0;
      for (const double x : nll[i]) {
        path.nll.add(x);
        sum += x;
      }
      path.of_text.push_back(sum);
      path.rows += run.length - 1;
    }
    for (size_t i = 0; nll.size() == 2 && i < nll[0].size(); ++i) {
      if (std::memcmp(&nll[0][i], &nll[1][i], sizeof(double)) == 0) continue;
      ++figures.differing;
      figures.apart = std::max(figures.apart, std::abs(nll[0][i] - nll[1][i]));
    }
    ++figures.texts;
    so_far = format("perplexity %.4f", figures.paths[0].nll.perplexity());
  }
  return figures;
}

// What the figures are of.
std::string definition(const PplTexts& texts, const PplTextOptions& options) {
  if (!texts.windows) {
    return format("each text on its own, from its second token on, cut to %d", options.n_ctx);
  }
  const std::string begin = texts.bos ? ", each begun with BOS" : "";
  if (options.stride > 0) {
    return format("windows of %d tokens, %d apart%s; scored: the last %d of each", options.window,
                  options.stride, begin.c_str(), options.stride);
  }
  return format(
      "windows of %d tokens, end to end%s; scored: those from number %d on, counted from "
      "0, as llama-perplexity does",
      options.window, begin.c_str(), options.window / 2 + 1);
}

std::string plus_minus(const char* pattern, std::optional<double> error) {
  return error ? " +- " + format(pattern, *error) : "";
}

std::string report(const PplFile& file, const PplTexts& texts, const PplTextOptions& options,
                   const Figures& figures) {
  const int64_t scored = figures.paths[0].nll.count();
  std::string out = format("%s: %zu %s, %lld tokens scored\n%s\n", terminal_text(file.name).c_str(),
                           figures.texts, unit_name(texts, figures.texts),
                           static_cast<long long>(scored), definition(texts, options).c_str());
  for (const PathFigures& path : figures.paths) {
    const NllSum& nll = path.nll;
    out += format("%-8s perplexity %.4f", through_name(path.through), nll.perplexity());
    out += plus_minus("%.5f", nll.perplexity_error());
    out += format("  %.6f", nll.mean()) + plus_minus("%.6f", nll.mean_error());
    out += format(" nats a token  %.1f tok/s\n", path.tokens_per_second());
  }
  if (figures.paths.size() == 2) {
    out += figures.differing == 0
               ? std::string("the same bits for every token through both\n")
               : format("-log p differs for %lld tokens, by %.3g nats at most\n",
                        static_cast<long long>(figures.differing), figures.apart);
  }
  return out;
}

std::string report_json(LoadedModel& model, const PplFile& file, const PplTexts& texts,
                        const PplTextOptions& options, const Figures& figures) {
  Json results = Json::array(), runs = Json::array();
  for (const PathFigures& path : figures.paths) {
    results.push_back({{"through", through_name(path.through)},
                       {"perplexity", path.nll.perplexity()},
                       {"perplexity_error", or_null(path.nll.perplexity_error())},
                       {"nll", path.nll.mean()},
                       {"nll_error", or_null(path.nll.mean_error())},
                       {"tokens_per_second", path.tokens_per_second()},
                       {"seconds", path.seconds}});
  }
  for (size_t i = 0; i < figures.texts; ++i) {
    Json run = {{"tokens", texts.runs[i].length}, {"scored", texts.runs[i].scored()}};
    for (const PathFigures& path : figures.paths) {
      run[format("nll_sum_%s", through_name(path.through))] = path.of_text[i];
    }
    runs.push_back(std::move(run));
  }
  Json json = {
      {"model", model.path()},
      {"backend", model.backend().description()},
      {"file", file.name},
      {"definition", definition(texts, options)},
      {"window", texts.windows ? Json(options.window) : Json(nullptr)},
      {"stride", options.stride > 0 ? Json(options.stride) : Json(nullptr)},
      {"context", options.n_ctx},
      {"complete", figures.texts == texts.runs.size()},
      {"scored", figures.paths[0].nll.count()},
      {"cut", texts.cut},
      {"too_short", texts.too_short},
      {"skipped_lines", texts.skipped},
      {"results", std::move(results)},
      {"differing", figures.paths.size() == 2 ? Json(figures.differing) : Json(nullptr)},
      {"largest_difference", figures.paths.size() == 2 ? Json(figures.apart) : Json(nullptr)},
      {texts.windows ? "windows" : "texts", std::move(runs)}};
  return dump(json, 1) + "\n";
}

PplTextOptions text_options(const PplOptions& asked, const LoadedModel& model) {
  PplTextOptions options;
  options.n_ctx = model.n_ctx();
  options.window =
      asked.model.n_ctx > 0 ? asked.model.n_ctx : std::min(kDefaultWindow, model.n_ctx());
  options.stride = asked.stride;
  options.most = asked.chunks;
  options.whole = asked.whole;
  if (options.window < 3) {
    throw Error(ErrorCode::kUsage,
                format("-c: expected a context of at least 3 tokens, found %d", options.window));
  }
  if (options.stride >= options.window) {
    throw Error(ErrorCode::kUsage,
                format("--stride: expected less than the window of %d tokens (-c), found %d",
                       options.window, options.stride));
  }
  return options;
}

// What was left out of the texts, on stderr.
void tell_left_out(const PplTexts& texts, const PplTextOptions& options) {
  if (texts.skipped > 0) {
    std::fprintf(stderr, "skipped %lld of %lld lines; the first, %s\n",
                 static_cast<long long>(texts.skipped), static_cast<long long>(texts.lines),
                 terminal_text(texts.first_skipped).c_str());
  }
  if (texts.too_short > 0) {
    std::fprintf(stderr, "left out %lld texts of one token or none\n",
                 static_cast<long long>(texts.too_short));
  }
  if (texts.cut > 0) {
    std::fprintf(stderr, "cut %lld of %zu texts to the context of %d tokens (-c)\n",
                 static_cast<long long>(texts.cut), texts.runs.size(), options.n_ctx);
  }
}

}  // namespace

std::vector<Through> PplOptions::paths() const {
  if (through == "both") return {Through::kPrefill, Through::kDecode};
  return {through == "decode" ? Through::kDecode : Through::kPrefill};
}

bool ppl(const PplOptions& asked) {
  if (!asked.json.empty()) check_writable(asked.json);

  catch_interrupts();
  const PplFile file = read_ppl_file(asked.file.empty() ? "-" : asked.file);
  LoadedModel model(asked.model, terminal_watcher());
  const PplTextOptions options = text_options(asked, model);
  const auto chat_template = [&model]() -> const ChatTemplate& { return model.chat_template(); };
  const PplTexts texts = make_ppl_texts(file, model.tokenizer(), chat_template, options);
  tell_left_out(texts, options);
  model.load();

  const Figures figures = measure(model, texts, asked.paths());
  const size_t all = texts.runs.size();
  if (figures.texts == 0) {
    throw Interrupted(format("interrupted before the first %s was scored", unit_name(texts, 1)));
  }
  if (!asked.json.empty())
    write_file(asked.json, report_json(model, file, texts, options, figures));
  if (!write_stdout(report(file, texts, options, figures))) return false;
  if (figures.texts < all) {
    throw Interrupted(
        format("interrupted after %zu of %zu %s", figures.texts, all, unit_name(texts, all)));
  }
  return true;
}

}  // namespace specbound
