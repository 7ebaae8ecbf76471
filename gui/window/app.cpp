#include "gui/window/app.h"

#include <imgui.h>

#include <algorithm>
#include <filesystem>

#include "error.h"
#include "gui/model/app_state.h"
#include "gui/model/conversation.h"
#include "gui/model/frame_times.h"
#include "gui/model/replay_player.h"
#include "gui/model/trace_model.h"
#include "gui/model/window_settings.h"
#include "gui/view/main_view.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/window/font_atlas.h"
#include "gui/window/window.h"
#include "gui/worker/worker_thread.h"

namespace specbound::gui {

namespace {

constexpr double kFrame = 1.0 / 60;   // seconds between the starts of frames, at least
constexpr double kFontsEvery = 0.25;  // seconds between two makings of the font atlas, at least
constexpr int kFramesAfterInput = 3;  // ImGui settles popups and layouts within so many
constexpr int kFramesAfterEvents = 2;
constexpr double kMinimizedWait = 0.25;  // seconds

WindowSettings settings_with(const AppFlags& flags, WindowSettings settings) {
  if (flags.dark) settings.dark = *flags.dark;
  if (flags.width) settings.width = *flags.width;
  if (flags.height) settings.height = *flags.height;
  return settings;
}

class App {
 public:
  explicit App(const AppFlags& flags)
      : settings_path_(window_settings_path()),
        settings_(settings_with(flags, load_window_settings(settings_path_))),
        json_(flags.ui_json),
        window_(settings_.width, settings_.height, "SpecBound"),
        scale_flag_(flags.scale),
        atlas_(find_fonts(font_folders())),
        worker_(flags.trace, &Window::wake),
        store_(conversations_folder()),
        state_(worker_, store_, trace_),
        view_(settings_) {
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.LogFilename = nullptr;
    // A cursor that blinks would draw frames all the time.
    io.ConfigInputTextCursorBlink = false;
    probe().set_on(json_.on());
    start(flags);
  }

  void run();

 private:
  // Without a home conversations are kept as long as the window is open.
  static std::string conversations_folder() {
    try {
      return default_conversations_folder();
    } catch (const Error&) {
      return {};
    }
  }

  void start(const AppFlags& flags);
  void load_default();
  void fit_fonts(double now);
  int frames_wanted();
  void frame();
  void write_json();

  std::string settings_path_;
  WindowSettings settings_;
  UiJsonFile json_;
  Window window_;
  std::optional<double> scale_flag_;
  FontAtlas atlas_;
  float scale_ = 0, density_ = 0;
  bool dark_ = true;
  double fonts_made_at_ = 0;
  bool fonts_wanted_ = false;
  TraceModel trace_;
  WorkerThread worker_;
  ConversationStore store_;
  AppState state_;
  MainView view_;
  FrameTimes times_;
  uint64_t input_frame_ = 0;     // the newest that saw keys or the pointer
  bool default_loaded_ = false;  // or there was no need to
};

void App::start(const AppFlags& flags) {
  state_.set_launch({flags.model, flags.speculation, flags.learning});
  state_.set_recent_models(settings_.recent);
  state_.set_sampling(flags.sampling.resolve());
  state_.set_random_seed(!flags.sampling.seed.has_value());
  state_.set_reply_budget(flags.n_predict);
  if (!flags.system.empty()) state_.set_system(flags.system);
  if (!flags.replay.empty()) state_.open_replay(flags.replay);
  if (!flags.file.empty()) state_.open_file(flags.file);
  // A model from the settings gives way to one that is named as the file to open.
  if (!flags.model.model.empty() && state_.model_state() == ModelState::kNone) {
    state_.load(flags.model.model);
  }
}

// Who only looks at a trace needs no model, unless it turns out to be none.
void App::load_default() {
  if (default_loaded_ || state_.opening_replay()) return;
  default_loaded_ = true;
  if (!state_.replay() && state_.model_state() == ModelState::kNone) state_.load("");
}

// Sizes and characters of the fonts, and colours, as they are to be now.
void App::fit_fonts(double now) {
  const float scale = scale_flag_ ? static_cast<float>(*scale_flag_) : window_.content_scale();
  const float density = window_.density();
  const bool dark = view_.settings().dark;
  const bool rescaled = scale != scale_ || density != density_;
  if (rescaled || dark != dark_) set_theme(dark, scale);
  scale_ = scale;
  density_ = density;
  dark_ = dark;
  fonts_wanted_ = atlas_.wants_build() || fonts_wanted_;
  if (!rescaled && (!fonts_wanted_ || now < fonts_made_at_ + kFontsEvery)) return;
  fonts_wanted_ = false;
  fonts_made_at_ = now;
  atlas_.build(scale, density);
  window_.upload_fonts();
}

void App::frame() {
  const double start = Window::now();
  fit_fonts(start);
  probe().begin_frame();
  if (ReplayPlayer* replay = state_.replay()) replay->advance(start);
  // Smooth edges are triangles too many for a processor that has a reply to compute.
  ImGuiStyle& style = ImGui::GetStyle();
  style.AntiAliasedLines = style.AntiAliasedFill = !(window_.software() && state_.busy());
  if (window_.has_input()) input_frame_ = times_.frames();
  window_.begin_frame();
  if (probe().on()) {
    probe().value("input.seen", std::to_string(window_.inputs_seen()));
    probe().value("input.frames", std::to_string(times_.frames() - input_frame_));
    probe().value("frames.whole", std::to_string(window_.whole_frames()));
  }
  view_.draw(state_, probe(), times_, window_.renderer());
  window_.end_frame();
  times_.add(start, Window::now() - start);
  const std::string& path = state_.model().path;
  window_.set_title(path.empty()
                        ? "SpecBound"
                        : std::filesystem::path(path).filename().string() + " - SpecBound");
  if (view_.quit_wanted()) window_.close();
}

void App::write_json() {
  try {
    json_.frame(probe(), times_, Window::now());
  } catch (const Error& e) {
    json_ = UiJsonFile();
    state_.add_error(e.what());
  }
}

// At least, whatever else happens.
int App::frames_wanted() {
  if (window_.has_input()) return kFramesAfterInput;
  const ReplayPlayer* replay = state_.replay();
  return (replay && replay->playing()) || fonts_wanted_ ? 1 : 0;
}

void App::run() {
  int frames_due = kFramesAfterInput;
  double next_frame = 0;
  while (!window_.closing()) {
    frames_due = std::max(frames_due, frames_wanted());
    // What comes meanwhile waits for the frame: the worker wakes the window once for all of it.
    if (const double left = next_frame - Window::now(); frames_due > 0 && left > 0) {
      window_.wait(left);
      continue;
    }
    for (const WorkerEvent& event : worker_.take_events()) {
      state_.apply(event);
      frames_due = std::max(frames_due, kFramesAfterEvents);
    }
    load_default();
    for (const std::string& path : window_.take_dropped_files()) {
      state_.open_file(path);
    }
    if (window_.take_activity()) {
      frames_due = kFramesAfterInput;
      worker_.give_way();
    }
    frames_due = std::max(frames_due, frames_wanted());
    const double now = Window::now();
    if (window_.minimized()) {
      window_.wait(kMinimizedWait);
    } else if (frames_due > 0) {
      next_frame = (now < next_frame + kFrame ? next_frame : now) + kFrame;
      --frames_due;
      frame();
      write_json();
      window_.wait(0);
    } else if (json_.due() >= 0) {
      if (now < json_.due()) window_.wait(json_.due() - now);
      write_json();
    } else {
      window_.wait(-1);
    }
  }
  view_.set_size(window_.size());
  save_window_settings(settings_path_, view_.settings());
}

}  // namespace

void run_app(const AppFlags& flags) {
  App(flags).run();
}

}  // namespace specbound::gui
