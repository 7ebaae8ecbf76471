// The list of conversations at the left: new, choose, search, rename, delete after a question.
#pragma once

#include <imgui.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace specbound::gui {

class AppState;
struct Conversation;
class Probe;

class SideList {
 public:
  // Fills the window or child that it is called in.
  void draw(AppState& state, Probe& probe);

 private:
  void search(const AppState& state);
  bool is_found(const Conversation& conversation);
  void draw_row(AppState& state, size_t index, Probe& probe);
  // At the end of the row that begins at `row`, up to `right`.
  void draw_row_buttons(const Conversation& conversation, size_t index, ImVec2 row, float right,
                        Probe& probe);
  void begin_rename(const Conversation& conversation);
  void draw_rename(AppState& state, size_t index, Probe& probe);
  void draw_question(AppState& state, Probe& probe);

  std::string search_;
  std::vector<size_t> found_;  // indices of what is listed
  // By id, what a conversation was when it was searched for searched_: looking through all texts in
  // each frame would be too much.
  struct Searched {
    std::string title;
    size_t messages = 0;
    uint64_t last = 0;  // key of the last message
    size_t bytes = 0;   // of its text
    bool operator==(const Searched&) const = default;
  };
  std::unordered_map<std::string, std::pair<Searched, bool>> results_;
  std::string searched_;

  std::string renaming_;  // id of the conversation whose title is being edited; empty: none
  std::string title_;     // what it says so far
  bool focus_title_ = false;
  std::string removing_;  // id of the conversation that the question is about; empty: none
  bool ask_ = false;      // the question is to be opened
};

}  // namespace specbound::gui
