// The chat pane: the conversation with its replies as they stream, the system prompt, and the
// composer under it; before a model is there, what to do about that.
#pragma once

#include <string>
#include <vector>

#include "gui/view/message_view.h"
#include "gui/view/text_box.h"

namespace specbound::gui {

class AppState;
class ExportView;
class FilePicker;
class ModelPicker;
class Probe;

// The box that messages are written in, with send or stop beside it.
class Composer {
 public:
  // In this width at the bottom of the chat pane, as high as height() says.
  void draw(AppState& state, float width, Probe& probe);
  float height(float width);
  void focus() { box_.focus(); }

 private:
  void draw_button(AppState& state, float width, float height, Probe& probe);
  void send(AppState& state);

  TextBox box_;
};

class ChatView {
 public:
  // All are drawn by the window itself, last; this opens them.
  ChatView(FilePicker& picker, ModelPicker& models, ExportView& exporter)
      : picker_(picker), models_(models), exporter_(exporter) {}

  // Fills the window or child that it is called in.
  void draw(AppState& state, Probe& probe);

  // Whether tokens are tinted by how they came about.
  bool tinted() const { return tinted_; }
  void set_tinted(bool on) { tinted_ = on; }
  // Whether replies are shown as they were written, their Markdown as text.
  bool raw() const { return messages_.raw(); }
  void set_raw(bool on) { messages_.set_raw(on); }

 private:
  void draw_header(AppState& state, Probe& probe);
  void draw_legend(Probe& probe);
  void draw_system_editor(AppState& state, Probe& probe);
  void draw_messages(AppState& state, float height, Probe& probe);
  void set_scroll(AppState& state, float width, float height);
  void scroll_to_mouse();
  void draw_empty(AppState& state, float height, Probe& probe);
  void draw_model_state(AppState& state, Probe& probe);
  void draw_loading(AppState& state, Probe& probe);
  void draw_examples(AppState& state, Probe& probe);

  FilePicker& picker_;
  ModelPicker& models_;
  ExportView& exporter_;
  Composer composer_;
  MessageView messages_;
  bool tinted_ = true;

  std::string conversation_;  // the id of the one that was shown last
  bool editing_system_ = false;
  TextBox system_;

  // Of the messages: tops_[i] is where message i begins, the last one where they end.
  std::vector<float> tops_;
  bool following_ = true;  // the newest text stays in view
  ImVec2 list_min_ = {}, list_max_ = {};
};

}  // namespace specbound::gui
