#include "gui/engine/engine.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "app/file_output.h"
#include "decode/layer_guesses.h"
#include "error.h"
#include "gui/engine/engine_model.h"

namespace specbound::gui {

std::string what_failed() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory: expected less to be asked for; a smaller context (-c) or a smaller "
           "model needs less";
  } catch (const std::exception& e) {
    return e.what();
  }
}

Engine::Engine(EngineHost& host, const std::string& trace) : host_(host) {
  if (!trace.empty()) trace_.emplace(trace, open_output(trace));
}

Engine::~Engine() = default;

// ---- loading ----

void Engine::load(const LoadRequest& request) {
  close_trace();
  unload();  // two may not fit into memory
  try {
    open(request);
  } catch (...) {
    host_.emit(LoadFailed{what_failed()});
    unload();
  }
}

void Engine::unload() {
  unguessed_ = {};
  model_.reset();
}

void Engine::open(const LoadRequest& request) {
  host_.emit(LoadProgress{"opening", 0});
  model_ = std::make_unique<Model>(request);
  LoadedModel& loaded = model_->loaded;
  Speculation& speculation = model_->speculation;

  LoadWatcher watcher;
  watcher.progress = [this, shown = -1](const std::string& label, size_t done,
                                        size_t total) mutable {
    if (model_->session) return;  // a draft model that is switched on later
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    const int percent = static_cast<int>(100 * share);
    if (std::exchange(shown, percent) != percent) host_.emit(LoadProgress{label, share});
  };
  watcher.note = [this](const std::string& line) { host_.emit(Note{line}); };
  watcher.abort = &host_.abort_flag();
  (void)loaded.chat_template(watcher.note);
  loaded.load(speculation.heads(), watcher);
  speculation.attach(loaded.backend(), watcher);
  model_->session.emplace(loaded.backend(), Sampler(sampling_));
  model_->session->set_speculator(speculation.speculator());

  ModelInfo info;
  info.path = loaded.path();
  info.architecture = loaded.config().architecture;
  info.backend = loaded.backend().description();
  info.n_layers = loaded.config().n_layers;
  info.vocab_size = loaded.config().vocab_size;
  info.n_ctx = loaded.n_ctx();
  info.load_seconds = loaded.load_seconds();
  info.drafting = drafting();
  host_.emit(ModelLoaded{std::move(info)});
}

// ---- settings ----

Drafting Engine::drafting() const {
  Drafting drafting;
  if (!model_) return drafting;
  const Speculation& speculation = model_->speculation;
  drafting.drafter = speculation.drafter();
  drafting.possible = !drafting.drafter.empty();
  drafting.on = speculation.active();
  drafting.description = speculation.description();
  drafting.preset = speculation.preset();
  drafting.params = speculation.params();
  drafting.head_layers = speculation.head_layers();
  return drafting;
}

void Engine::change(const EngineSetting& setting) {
  std::visit([this](const auto& s) { apply(s); }, setting);
  if (!under_way_) return;
  under_way_->speculator = model_->speculation.speculator();
  const TraceReply settings = settings_of(*under_way_);
  if (trace_) trace_->settings(settings);
  host_.emit(SettingsApplied{under_way_->id, settings});
}

void Engine::apply(const SamplingParams& params) {
  try {
    validate(params);
    if (model_) model_->session->set_sampling(params);
    sampling_ = params;
  } catch (...) {
    host_.emit(Note{what_failed()});
  }
}

void Engine::apply(const DraftingChange& change) {
  std::string refusal = model_ ? "" : kNoModel;
  if (model_) {
    Speculation& speculation = model_->speculation;
    try {
      if (change.preset) speculation.choose(*change.preset);
      if (change.params) speculation.change(*change.params);
      if (change.on && !speculation.set_active(*change.on, "switched off")) {
        refusal = speculation.description();
      }
    } catch (...) {
      refusal = what_failed();
    }
    model_->session->set_speculator(speculation.speculator());
  }
  host_.emit(DraftingChanged{drafting(), std::move(refusal)});
}

// ---- the layers' guesses ----

void Engine::guess() {
  if (!can_guess()) return;
  const Tokenizer& tokenizer = model_->loaded.tokenizer();
  const int from = std::max(unguessed_.begin, unguessed_.end - kMaxRows);
  const auto take = [&](int row, std::span<const LayerTop> layers) {
    Guesses guesses{unguessed_.id, row + 1, {}};
    for (const LayerTop& top : layers) {
      guesses.layers.push_back({top.token, top.probability, tokenizer.piece(top.token)});
    }
    host_.emit(std::move(guesses));
  };
  try {
    const auto goes_on = [&] { return !host_.wanted_elsewhere(); };
    if (guess_layers(*model_->session, from, unguessed_.end, take, goes_on)) unguessed_.end = from;
  } catch (...) {
    unguessed_ = {};
    host_.emit(Note{what_failed()});
  }
}

// ---- trace ----

void Engine::close_trace() {
  if (!trace_ || !trace_->has_header()) return;
  // Its header names one model, whose vocabulary spells its tokens.
  trace_->close();
  check_trace();
  host_.emit(Note{trace_->path() + ": the trace ends here, with the model that it began with"});
  trace_.reset();
}

void Engine::check_trace() {
  if (!trace_ || trace_failed_ || trace_->error() == 0) return;
  trace_failed_ = true;
  host_.emit(Note{format("%s: cannot write the trace: %s; what is there is not all of it",
                         trace_->path().c_str(), std::strerror(trace_->error()))});
}

}  // namespace specbound::gui
