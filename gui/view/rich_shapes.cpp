#include "gui/view/rich_shapes.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "gui/view/fonts.h"
#include "gui/view/selectable_text.h"
#include "gui/view/theme.h"

namespace specbound::gui {

namespace {

constexpr float kSlant = 0.18f;  // of italics: how far a point goes right for each one up

ImFont* font_for(RichFont font) {
  ImFont* chosen = font == RichFont::kMono      ? fonts().mono
                   : font == RichFont::kHeading ? fonts().heading
                                                : fonts().body;
  return chosen ? chosen : ImGui::GetIO().Fonts->Fonts[0];
}

// Slants the letters drawn since `first` about their baseline.
void slant(ImDrawList& list, int first, float baseline) {
  for (int i = first; i < list.VtxBuffer.Size; ++i) {
    ImVec2& corner = list.VtxBuffer[i].pos;
    corner.x += (baseline - corner.y) * kSlant;
  }
}

}  // namespace

void draw_piece(std::string_view text, const RichPiece& piece, float height, RichFont main) {
  const Theme& t = theme();
  const ImFont &line_font = *font_for(main), &own = *font_for(piece.font);
  const float unit = ImGui::GetIO().FontGlobalScale;  // of a font's own measures
  const float ascent = own.Ascent * unit;
  const float top = piece.at.y + std::floor((height - line_font.FontSize * unit) / 2 +
                                            line_font.Ascent * unit - ascent);
  const float baseline = std::round(top + ascent);
  const ImU32 color = (piece.style & kAside) != 0  ? t.dim
                      : (piece.style & kLink) != 0 ? t.accent
                                                   : t.text;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const int first = list.VtxBuffer.Size;
  const std::string_view part = text.substr(piece.bytes.begin, piece.bytes.end - piece.bytes.begin);
  ImGui::PushFont(font_for(piece.font));
  draw_characters({piece.at.x, top}, color, part, *piece.metrics);
  // Without a font of its own for it: twice, a little apart.
  const float apart = std::max(1.0f, std::round(t.px(0.7f)));
  if ((piece.style & kBold) != 0) {
    draw_characters({piece.at.x + apart, top}, color, part, *piece.metrics);
  }
  ImGui::PopFont();
  if ((piece.style & kItalic) != 0) slant(list, first, baseline);
  const float right = piece.at.x + piece.width;
  if ((piece.style & kLink) != 0 && (piece.style & kAside) == 0) {
    list.AddLine({piece.at.x, baseline + t.px(2)}, {right, baseline + t.px(2)}, faded(color, 0.5f),
                 t.px(1));
  }
  if ((piece.style & kStruck) != 0) {
    const float y = std::round(baseline - ascent * 0.3f);
    list.AddLine({piece.at.x, y}, {right, y}, color, t.px(1));
  }
}

ImU32 code_background() {
  const Theme& t = theme();
  return mixed(t.background, t.raised, 0.7f);
}

void draw_code_box(ImVec2 at, float width, float height) {
  const Theme& t = theme();
  ImGui::GetWindowDrawList()->AddRectFilled({at.x - t.px(2), at.y + t.px(1)},
                                            {at.x + width + t.px(2), at.y + height - t.px(1)},
                                            code_background(), t.px(3));
}

void begin_overlapped_item(const char* id, ImVec2 size) {
#if IMGUI_VERSION_NUM >= 18970
  ImGui::SetNextItemAllowOverlap();
  ImGui::InvisibleButton(id, size);
#else
  ImGui::InvisibleButton(id, size, ImGuiButtonFlags_AllowItemOverlap);
  ImGui::SetItemAllowOverlap();
#endif
}

}  // namespace specbound::gui
