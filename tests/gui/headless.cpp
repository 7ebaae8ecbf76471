#include "gui/headless.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "gui/view/fonts.h"
#include "text/utf8.h"

namespace specbound::gui {

namespace {

using Uv = std::pair<float, float>;

// Letters by the corner of their picture in the atlas.
std::map<Uv, ImWchar> letters() {
  std::map<Uv, ImWchar> result;
  for (const ImFont* font : ImGui::GetIO().Fonts->Fonts) {
    for (const ImFontGlyph& g : font->Glyphs) {
      if (g.Visible) result.emplace(Uv{g.U0, g.V0}, static_cast<ImWchar>(g.Codepoint));
    }
  }
  return result;
}

// Calls f(vertices a, b, c, clip rectangle) for each triangle.
template <class F>
void each_triangle(F f) {
  const ImDrawData* data = ImGui::GetDrawData();
  if (!data) return;
  for (int l = 0; l < data->CmdListsCount; ++l) {
    const ImDrawList& list = *data->CmdLists[l];
    for (const ImDrawCmd& cmd : list.CmdBuffer) {
      for (unsigned i = 0; i + 2 < cmd.ElemCount; i += 3) {
        const ImDrawVert* v[3];
        for (unsigned k = 0; k < 3; ++k) {
          v[k] = &list.VtxBuffer[static_cast<int>(cmd.VtxOffset) +
                                 list.IdxBuffer[static_cast<int>(cmd.IdxOffset + i + k)]];
        }
        f(*v[0], *v[1], *v[2], cmd.ClipRect);
      }
    }
  }
}

bool clipped(ImVec2 p, const ImVec4& clip) {
  return p.x < clip.x || p.y < clip.y || p.x >= clip.z || p.y >= clip.w;
}

float side(ImVec2 a, ImVec2 b, ImVec2 p) {
  return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
}

bool inside(const ImDrawVert& a, const ImDrawVert& b, const ImDrawVert& c, ImVec2 p) {
  const float x = side(a.pos, b.pos, p), y = side(b.pos, c.pos, p), z = side(c.pos, a.pos, p);
  return (x >= 0 && y >= 0 && z >= 0) || (x <= 0 && y <= 0 && z <= 0);
}

std::string without_blanks(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) result += c;
  }
  return result;
}

// As a window's backend does.
#if IMGUI_VERSION_NUM >= 18900
void number_keys() {
  ImGui::GetIO().ConfigInputTrickleEventQueue = false;
}

void set_key(Key key, bool down) {
  ImGui::GetIO().AddKeyEvent(imgui_key(key), down);
}

void set_modifiers(bool ctrl, bool shift) {
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Ctrl, ctrl);
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Shift, shift);
}
#else
void number_keys() {
  static constexpr struct {
    ImGuiKey imgui;
    Key key;
  } kKeys[] = {{ImGuiKey_Tab, Key::kTab},
               {ImGuiKey_LeftArrow, Key::kLeft},
               {ImGuiKey_RightArrow, Key::kRight},
               {ImGuiKey_UpArrow, Key::kUp},
               {ImGuiKey_DownArrow, Key::kDown},
               {ImGuiKey_PageUp, Key::kPageUp},
               {ImGuiKey_PageDown, Key::kPageDown},
               {ImGuiKey_Home, Key::kHome},
               {ImGuiKey_End, Key::kEnd},
               {ImGuiKey_Delete, Key::kDelete},
               {ImGuiKey_Backspace, Key::kBackspace},
               {ImGuiKey_Space, Key::kSpace},
               {ImGuiKey_Enter, Key::kEnter},
               {ImGuiKey_Escape, Key::kEscape},
               {ImGuiKey_A, Key{'A'}},
               {ImGuiKey_C, Key{'C'}},
               {ImGuiKey_V, Key{'V'}},
               {ImGuiKey_X, Key{'X'}},
               {ImGuiKey_Y, Key{'Y'}},
               {ImGuiKey_Z, Key{'Z'}}};
  for (const auto& k : kKeys) ImGui::GetIO().KeyMap[k.imgui] = static_cast<int>(k.key);
}

void set_key(Key key, bool down) {
  ImGui::GetIO().KeysDown[static_cast<int>(key)] = down;
}

void set_modifiers(bool ctrl, bool shift) {
  ImGui::GetIO().KeyCtrl = ctrl;
  ImGui::GetIO().KeyShift = shift;
}
#endif

}  // namespace

Headless::Headless(float width, float height, float scale, bool dark) {
  if (ImGui::GetCurrentContext()) throw std::runtime_error("one Headless at a time");
  ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.LogFilename = nullptr;
  io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset | ImGuiBackendFlags_HasMouseCursors;
  io.ClipboardUserData = this;
  io.GetClipboardTextFn = [](void* self) {
    return static_cast<Headless*>(self)->clipboard_.c_str();
  };
  io.SetClipboardTextFn = [](void* self, const char* text) {
    static_cast<Headless*>(self)->clipboard_ = text;
  };
  number_keys();
  fonts() = {};
  set_theme(dark, scale);
  ImFontConfig config;
  config.SizePixels = std::floor(13 * scale);
  io.Fonts->AddFontDefault(&config);
  unsigned char* pixels = nullptr;
  int w = 0, h = 0;
  io.Fonts->GetTexDataAsRGBA32(&pixels, &w, &h);
  resize(width, height);
  io.MousePos = {-1, -1};
  probe().set_on(true);
}

Headless::~Headless() {
  ImGui::DestroyContext();
  probe().begin_frame();
  probe().set_on(false);
  set_theme(true, 1);
}

void Headless::set_frame(std::function<void()> draw) {
  draw_ = std::move(draw);
}

void Headless::set_content(std::function<void()> draw) {
  set_frame([draw = std::move(draw)] {
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
    ImGui::Begin(
        "content", nullptr,
        ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings);
    draw();
    ImGui::End();
  });
}

void Headless::resize(float width, float height) {
  ImGui::GetIO().DisplaySize = {width, height};
}

void Headless::frame(int n) {
  for (int i = 0; i < n; ++i) {
    ImGui::GetIO().DeltaTime = static_cast<float>(seconds_per_frame);
    probe().begin_frame();
    ImGui::NewFrame();
    if (draw_) draw_();
    ImGui::Render();
  }
}

void Headless::move(ImVec2 to) {
  ImGui::GetIO().MousePos = to;
  frame();
}

void Headless::move(std::string_view name) {
  move(rect(name).center());
}

void Headless::press(int button) {
  ImGui::GetIO().MouseDown[button] = true;
  frame();
}

void Headless::release(int button) {
  ImGui::GetIO().MouseDown[button] = false;
  frame();
}

void Headless::click(ImVec2 at, int button) {
  frame(25);  // else two clicks on one place are a double click
  move(at);
  press(button);
  release(button);
  frame();
}

void Headless::click(std::string_view name, int button) {
  click(rect(name).center(), button);
}

void Headless::double_click(ImVec2 at) {
  click(at);
  press();
  release();
  frame();
}

void Headless::drag(ImVec2 from, ImVec2 to) {
  move(from);
  press();
  for (const float share : {0.25f, 0.5f, 0.75f, 1.0f}) {
    move({from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share});
  }
  release();
  frame();
}

void Headless::wheel(float notches, float sideways) {
  ImGui::GetIO().MouseWheel += notches;
  ImGui::GetIO().MouseWheelH += sideways;
  frame(2);
}

void Headless::type(std::string_view utf8) {
  ImGui::GetIO().AddInputCharactersUTF8(std::string(utf8).c_str());
  frame(2);
}

void Headless::key(Key key, bool ctrl, bool shift) {
  set_modifiers(ctrl, shift);
  set_key(key, true);
  frame();
  set_key(key, false);
  set_modifiers(false, false);
  frame();
}

bool Headless::has(std::string_view name) const {
  return probe().find(name) != nullptr;
}

Probe::Rect Headless::rect(std::string_view name) const {
  const Probe::Rect* found = probe().find(name);
  if (!found) throw std::runtime_error("nothing drawn is called " + std::string(name));
  return *found;
}

std::string Headless::value(std::string_view name) const {
  const std::string* found = probe().find_value(name);
  return found ? *found : std::string();
}

std::vector<std::string> Headless::rects(std::string_view prefix) const {
  std::vector<std::string> result;
  for (const Probe::Rect& r : probe().rects()) {
    if (r.name.starts_with(prefix)) result.push_back(r.name);
  }
  return result;
}

std::vector<Headless::Glyph> Headless::glyphs() const {
  const std::map<Uv, ImWchar> known = letters();
  std::vector<Glyph> result;
  // A letter is two triangles: corners 0 1 2 and 0 2 3, where corner 0 is the upper left one.
  each_triangle([&](const ImDrawVert& a, const ImDrawVert& b, const ImDrawVert& c, ImVec4 clip) {
    const auto found = known.find({a.uv.x, a.uv.y});
    if (found == known.end() || b.uv.y != a.uv.y || c.uv.x != b.uv.x) return;
    if (clipped({(a.pos.x + c.pos.x) / 2, (a.pos.y + c.pos.y) / 2}, clip)) return;
    result.push_back({found->second, a.pos, c.pos, a.col});
  });
  return result;
}

std::string Headless::text(ImVec2 min, ImVec2 max) const {
  std::string result;
  const Glyph* last = nullptr;
  const std::vector<Glyph> all = glyphs();
  for (const Glyph& g : all) {
    const ImVec2 middle{(g.min.x + g.max.x) / 2, (g.min.y + g.max.y) / 2};
    if (middle.x < min.x || middle.y < min.y || middle.x > max.x || middle.y > max.y) continue;
    if (last) {
      const float em = ImGui::GetIO().Fonts->Fonts[0]->FontSize;
      if (g.min.x < last->min.x || std::fabs(g.max.y - last->max.y) > em * 0.8f) {
        result += '\n';
      } else if (g.min.x - last->max.x > em * 0.35f) {
        result += ' ';
      }
    }
    result += to_utf8(g.code);
    last = &g;
  }
  return result;
}

std::string Headless::text(std::string_view name) const {
  const Probe::Rect r = rect(name);
  return text(r.min, r.max);
}

bool Headless::shows(std::string_view wanted) const {
  return without_blanks(text()).find(without_blanks(wanted)) != std::string::npos;
}

ImU32 Headless::color_at(ImVec2 pixel) const {
  const std::map<Uv, ImWchar> known = letters();
  ImU32 result = 0;
  each_triangle([&](const ImDrawVert& a, const ImDrawVert& b, const ImDrawVert& c, ImVec4 clip) {
    if (clipped(pixel, clip) || !inside(a, b, c, pixel) || (a.col >> IM_COL32_A_SHIFT) < 128)
      return;
    if (known.contains({a.uv.x, a.uv.y})) return;
    result = a.col;
  });
  return result;
}

int Headless::triangles() const {
  int n = 0;
  each_triangle([&](const ImDrawVert&, const ImDrawVert&, const ImDrawVert&, ImVec4) { ++n; });
  return n;
}

}  // namespace specbound::gui
