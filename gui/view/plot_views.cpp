#include "gui/view/plot_views.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "gui/model/layer_map.h"
#include "gui/view/fonts.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

constexpr float kPlotHeight = 250, kPhaseHeight = 130;  // points, with its texts
constexpr float kColumnWidth = 330;                     // from twice this on there are two columns
constexpr int kDots = 1500;                             // of the newest checks

// Where values lie on the screen: x from `x_min` to `x_max`, y from 0 to y.max.
struct PlotArea {
  ImVec2 min, max;
  double x_min = 0, x_max = 1;
  double y_max = 1;

  float x(double value) const {
    const double share = (value - x_min) / std::max(x_max - x_min, 1e-12);
    return min.x + static_cast<float>(std::clamp(share, 0.0, 1.0)) * width();
  }
  float y(double value) const {
    const double share = std::clamp(value / std::max(y_max, 1e-12), 0.0, 1.0);
    return max.y - static_cast<float>(share) * (max.y - min.y);
  }
  float width() const { return max.x - min.x; }
};

// The height that title and caption take at this width.
float plot_text_height(const PlotText& text, float width) {
  ImGui::PushFont(fonts().small);
  const float height = ImGui::CalcTextSize(text.caption.c_str(), nullptr, false, width).y;
  ImGui::PopFont();
  return height + ImGui::GetFontSize() + theme().px(10);
}

// Draws title and headline; gives the space between them and the caption, where the small font is
// chosen until end_plot().
ImVec2 begin_plot(const char* title, const PlotText& text, ImVec2 size) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float above = plot_text_height(text, size.x);
  list->AddText(at, theme().text, title);
  const float title_end = ImGui::CalcTextSize(title).x;
  const float headline = ImGui::CalcTextSize(text.headline.c_str()).x;
  if (title_end + headline + theme().px(12) < size.x) {
    list->AddText({at.x + size.x - headline, at.y}, theme().accent, text.headline.c_str());
  }
  ImGui::SetCursorScreenPos({at.x, at.y + ImGui::GetFontSize() + theme().px(4)});
  ImGui::PushFont(fonts().small);
  return {size.x, std::max(size.y - above, theme().px(30))};
}

void end_plot(const PlotText& text, ImVec2 size) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::GetWindowDrawList()->AddText(ImGui::GetFont(), ImGui::GetFontSize(), at, theme().dim,
                                      text.caption.c_str(), nullptr, size.x);
  ImGui::PopFont();
}

// The area inside `size` at the cursor, with the y axis' labels and grid drawn, room for the x
// axis' labels below, and `y_name` above the axis.
PlotArea plot_area(ImVec2 size, const Axis& y, const char* y_name, float right = 0) {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  float widest = 0;
  const int steps = static_cast<int>(std::lround(y.max / y.step));
  for (int i = 0; i <= steps; ++i) {
    widest = std::max(widest, ImGui::CalcTextSize(y.label(i * y.step).c_str()).x);
  }
  PlotArea area;
  area.min = {at.x + widest + t.px(8), at.y + ImGui::GetFontSize() + t.px(6)};
  area.max = {at.x + size.x - right - t.px(4), at.y + size.y - ImGui::GetFontSize() - t.px(6)};
  area.max.x = std::max(area.max.x, area.min.x + t.px(10));
  area.max.y = std::max(area.max.y, area.min.y + t.px(10));
  area.y_max = y.max;
  list->AddText(at, t.dim, y_name);
  for (int i = 0; i <= steps; ++i) {
    const float line = std::round(area.y(i * y.step));
    list->AddLine({area.min.x, line}, {area.max.x, line}, i == 0 ? t.axis : t.grid, t.px(1));
    const std::string label = y.label(i * y.step);
    const float width = ImGui::CalcTextSize(label.c_str()).x;
    list->AddText({area.min.x - width - t.px(5), line - ImGui::GetFontSize() / 2}, t.dim,
                  label.c_str());
  }
  return area;
}

// A label centred under x, and the axis' name at its right end.
void draw_x_label(const PlotArea& area, float x, const std::string& text, ImU32 color) {
  const float width = ImGui::CalcTextSize(text.c_str()).x;
  ImGui::GetWindowDrawList()->AddText({std::round(x - width / 2), area.max.y + theme().px(3)},
                                      color, text.c_str());
}

void draw_x_name(const PlotArea& area, const char* name) {
  const float width = ImGui::CalcTextSize(name).x;
  ImGui::GetWindowDrawList()->AddText(
      {area.max.x - width, area.min.y - ImGui::GetFontSize() - theme().px(6)}, theme().dim, name);
}

// Labels 0 .. seconds under the area.
void draw_time_axis(const PlotArea& area, double seconds) {
  const double unit = seconds < 1 ? 1e3 : 1;
  const double end = seconds * unit;
  const int steps = std::clamp(static_cast<int>(area.width() / theme().px(64)), 1, 8);
  const Axis axis = round_axis(end, steps);
  const int n = static_cast<int>(end / axis.step + 1e-9);
  for (int i = 0; i <= n; ++i) {
    const float x = area.x(i * axis.step / unit);
    ImGui::GetWindowDrawList()->AddLine({x, area.max.y}, {x, area.max.y + theme().px(3)},
                                        theme().axis, theme().px(1));
    const std::string label = i == 0 ? "0" : axis.label(i * axis.step) + (unit > 1 ? " ms" : " s");
    const float half = ImGui::CalcTextSize(label.c_str()).x / 2;
    draw_x_label(area, std::min(x, area.max.x + theme().px(4) - half), label, theme().dim);
  }
}

// A bar of drafts: right ones at the bottom, wrong ones on them, dropped ones on top.
void draw_stack(const PlotArea& area, float x0, float x1, const DraftCount& count) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  int below = 0;
  const auto part = [&](int n, ImU32 color) {
    if (n <= 0) return;
    list->AddRectFilled({x0, area.y(below + n)}, {x1, area.y(below)}, color);
    below += n;
  };
  part(count.accepted, theme().accepted);
  part(count.rejected, theme().rejected);
  part(count.dropped, theme().faint);
}

void draw_line(const PlotArea& area, const std::vector<TimePoint>& points, ImU32 color) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (const TimePoint& p : points) list->PathLineTo({area.x(p.seconds), area.y(p.value)});
  list->PathStroke(color, 0, theme().px(2));
  if (points.size() > 40 || points.empty()) return;
  for (const TimePoint& p : points) {
    list->AddCircleFilled({area.x(p.seconds), area.y(p.value)}, theme().px(2.2f), color);
  }
}

// From left to right, in steps: lines drawn solid would claim more than dashes do.
void draw_dashes(ImVec2 from, ImVec2 to, ImU32 color) {
  const float length = std::hypot(to.x - from.x, to.y - from.y), dash = theme().px(6);
  if (!(length > 0)) return;
  const ImVec2 step = {(to.x - from.x) / length, (to.y - from.y) / length};
  for (float at = 0; at < length; at += 2 * dash) {
    const float end = std::min(at + dash, length);
    ImGui::GetWindowDrawList()->AddLine({from.x + step.x * at, from.y + step.y * at},
                                        {from.x + step.x * end, from.y + step.y * end}, color,
                                        theme().px(1.5f));
  }
}

// A name beside a line, on a patch that hides what is behind.
void draw_tag(ImVec2 at, ImU32 color, const std::string& text) {
  const ImVec2 extent = ImGui::CalcTextSize(text.c_str());
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({at.x - theme().px(3), at.y},
                      {at.x + extent.x + theme().px(3), at.y + extent.y},
                      faded(theme().background, 0.8f), theme().px(3));
  list->AddText(at, color, text.c_str());
}

// How many slots a label of three digits takes.
int labels_apart(float slot) {
  return std::max(1, static_cast<int>(std::ceil(ImGui::CalcTextSize("000").x / slot)));
}

// Where the pointer is in the area.
bool pointed_at(const PlotArea& area) {
  return ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(area.min, area.max);
}

int slot_under_mouse(const PlotArea& area, float slot, int n) {
  return std::clamp(static_cast<int>((ImGui::GetIO().MousePos.x - area.min.x) / slot), 0, n - 1);
}

}  // namespace

void PlotViews::update(const TraceModel& trace, const ReplyTrace* reply) {
  const uint64_t id = reply ? reply->id : 0;
  if (trace_ == &trace && reply_ == id && version_ == trace.version() && version_ != 0) return;
  trace_ = &trace;
  reply_ = id;
  version_ = trace.version();
  const int n_layers = reply ? map_layers(*reply) : trace.n_layers();
  exits_ = exit_plot(reply, n_layers);
  checks_ = check_plot(reply, n_layers);
  rate_ = rate_plot(reply);
  gain_ = gain_plot(reply);
  places_ = place_plot(reply);
  phases_ = phase_plot(reply);
}

void PlotViews::draw(const TraceModel& trace, const ReplyTrace* reply, Probe& probe) {
  update(trace, reply);
  struct Plot {
    const char* name;
    const char* title;
    const PlotText& text;
    void (PlotViews::*draw)(ImVec2);
    float height;
  };
  const Plot plots[] = {
      {"plots.rate", "Speed", rate_.text, &PlotViews::draw_rate, kPlotHeight},
      {"plots.exits", "Where drafts left", exits_.text, &PlotViews::draw_exits, kPlotHeight},
      {"plots.gain", "What it gains", gain_.text, &PlotViews::draw_gain, kPlotHeight},
      {"plots.checks", "How sure the layers were", checks_.text, &PlotViews::draw_checks,
       kPlotHeight},
      {"plots.time", "Where the time goes", phases_.text, &PlotViews::draw_phases, kPhaseHeight},
      {"plots.places", "Right drafts by place", places_.text, &PlotViews::draw_places, kPlotHeight},
  };
  const float room = ImGui::GetContentRegionAvail().x, gap = theme().px(20);
  const bool two = room >= theme().px(2 * kColumnWidth);
  const float width = two ? (room - gap) / 2 : room;
  const ImVec2 start = ImGui::GetCursorScreenPos();
  float bottoms[2] = {start.y, start.y};
  for (const Plot& plot : plots) {
    const int column = two && bottoms[1] < bottoms[0] ? 1 : 0;
    const ImVec2 at = {start.x + static_cast<float>(column) * (width + gap), bottoms[column]};
    const ImVec2 size = {width, theme().px(plot.height)};
    ImGui::SetCursorScreenPos(at);
    if (ImGui::IsRectVisible(at, {at.x + size.x, at.y + size.y})) {
      const ImVec2 inside = begin_plot(plot.title, plot.text, size);
      const ImVec2 inner = ImGui::GetCursorScreenPos();
      if (plot.text.empty.empty()) {
        (this->*plot.draw)(inside);
      } else {
        placeholder(plot.text.empty, inside, inside.x);
      }
      ImGui::SetCursorScreenPos({inner.x, inner.y + inside.y + theme().px(2)});
      end_plot(plot.text, size);
      probe.rect(plot.name, at, {at.x + size.x, at.y + size.y});
      probe.value(plot.name + std::string(".headline"), plot.text.headline);
      probe.value(plot.name + std::string(".empty"), plot.text.empty);
    }
    bottoms[column] = at.y + size.y + gap;
  }
  ImGui::SetCursorScreenPos(start);
  ImGui::Dummy({room, std::max(bottoms[0], bottoms[1]) - start.y});
}

void PlotViews::draw_exits(ImVec2 size) {
  PlotArea area = plot_area(size, round_axis(exits_.highest, 3, true), "drafts");
  draw_x_name(area, "exit layer");
  const int n = static_cast<int>(exits_.layers.size());
  const float slot = area.width() / static_cast<float>(std::max(n, 1));
  const int every = labels_apart(slot);
  for (int i = 0; i < n; ++i) {
    const float x = area.min.x + slot * static_cast<float>(i);
    const float gap = std::min(slot * 0.15f, theme().px(4));
    draw_stack(area, x + gap, x + slot - gap, exits_.layers[i]);
    const int layer = exits_.first_layer + i;
    if (i % every == 0) draw_x_label(area, x + slot / 2, std::to_string(layer), theme().dim);
  }
  if (!pointed_at(area) || n == 0) return;
  const int i = slot_under_mouse(area, slot, n);
  const DraftCount& c = exits_.layers[i];
  const int layer = exits_.first_layer + i;
  const std::string where = layer == 0 ? "before any layer" : format("layer %d", layer);
  ImGui::SetTooltip("%s: %d drafts\n%d right, %d wrong, %d dropped", where.c_str(), c.total(),
                    c.accepted, c.rejected, c.dropped);
}

void PlotViews::draw_checks(ImVec2 size) {
  const Theme& t = theme();
  const bool anneals = !checks_.temperatures.empty();
  const float right = anneals ? ImGui::CalcTextSize("0.00").x + t.px(8) : 0;
  PlotArea area = plot_area(size, {1, 0.25, 2}, "confidence", right);
  draw_x_name(area, anneals ? "layer / T" : "layer");
  area.x_min = checks_.first_layer - 0.5;
  area.x_max = checks_.n_layers + 0.5;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float slot = area.width() / static_cast<float>(checks_.n_layers - checks_.first_layer + 1);
  const int every = labels_apart(slot);
  for (int l = checks_.first_layer; l <= checks_.n_layers; l += every) {
    draw_x_label(area, area.x(l), std::to_string(l), t.dim);
  }
  // The newest are drawn last, over the others; those of a layer side by side, so that they show.
  const int n = std::min<int>(kDots, static_cast<int>(checks_.checks.size()));
  for (int i = n - 1; i >= 0; --i) {
    const CheckOutcome& check = checks_.checks[i];
    const ImU32 color = check.result == CheckResult::kRight   ? t.accepted
                        : check.result == CheckResult::kWrong ? t.rejected
                                                              : t.faint;
    const float aside = (static_cast<float>(i * 37 % 16) / 15 - 0.5f) * slot * 0.7f;
    const float confidence = std::isfinite(check.confidence) ? check.confidence : 0;
    list->AddCircleFilled({area.x(check.layer) + aside, area.y(confidence)}, t.px(1.8f),
                          faded(color, check.result == CheckResult::kContinued ? 0.6f : 0.9f), 6);
  }
  if (anneals) {
    const double most = std::max<double>(checks_.temperatures.front(), 1.01);
    const auto y = [&](float temperature) { return area.y((temperature - 1) / (most - 1) * 0.9); };
    for (size_t i = 1; i < checks_.temperatures.size(); ++i) {
      const int layer = checks_.first_layer + static_cast<int>(i);
      draw_dashes({area.x(layer - 1), y(checks_.temperatures[i - 1])},
                  {area.x(layer), y(checks_.temperatures[i])}, t.second_line);
    }
    for (const double temperature : {1.0, most}) {
      list->AddText(
          {area.max.x + t.px(4), y(static_cast<float>(temperature)) - ImGui::GetFontSize() / 2},
          t.second_line, format("%.2f", temperature).c_str());
    }
    draw_tag(
        {area.x(checks_.first_layer) + t.px(4), y(static_cast<float>(most)) - ImGui::GetFontSize()},
        t.second_line, "T");
  }
  if (checks_.tau) {
    const float line = area.y(*checks_.tau);
    list->AddLine({area.min.x, line}, {area.max.x, line}, t.threshold, t.px(2));
    const std::string name = format("tau %.2f", *checks_.tau);
    draw_tag({area.max.x - ImGui::CalcTextSize(name.c_str()).x - t.px(4),
              line - ImGui::GetFontSize() - t.px(1)},
             t.threshold, name);
  }
  if (!pointed_at(area)) return;
  const int layer = checks_.first_layer +
                    slot_under_mouse(area, slot, checks_.n_layers - checks_.first_layer + 1);
  int seen = 0, left = 0, right_ones = 0;
  for (const CheckOutcome& check : checks_.checks) {
    if (check.layer != layer) continue;
    ++seen;
    left += check.result != CheckResult::kContinued;
    right_ones += check.result == CheckResult::kRight;
  }
  std::string text = format("layer %d: %d checks, %d tokens exited, %d of them right", layer, seen,
                            left, right_ones);
  if (anneals && checks_.tau) {
    const float temperature = checks_.temperatures[layer - checks_.first_layer];
    text += format("\nT = %.3f: before it is softened, a guess has to be %.2f sure at least",
                   temperature, least_raw_confidence(*checks_.tau, temperature));
  }
  ImGui::SetTooltip("%s", text.c_str());
}

void PlotViews::draw_rate(ImVec2 size) {
  PlotArea area = plot_area(size, round_axis(rate_.highest * 1.05, 4), "tokens/s");
  area.x_max = std::max(rate_.seconds, 1e-6);
  draw_time_axis(area, rate_.seconds);
  draw_x_name(area, "time of decoding");
  draw_line(area, rate_.tokens_per_second, theme().line);
  if (!rate_.plain) return;
  const float y = area.y(*rate_.plain);
  draw_dashes({area.min.x, y}, {area.max.x, y}, theme().threshold);
  draw_tag({area.min.x + theme().px(6), y - ImGui::GetFontSize() - theme().px(2)},
           theme().threshold, format("without speculation: %.1f", *rate_.plain));
}

void PlotViews::draw_gain(ImVec2 size) {
  PlotArea area = plot_area(size, round_axis(gain_.highest * 1.05, 4), "times / tokens a round");
  area.x_max = std::max(gain_.seconds, 1e-6);
  draw_time_axis(area, gain_.seconds);
  draw_dashes({area.min.x, area.y(1)}, {area.max.x, area.y(1)}, theme().axis);
  draw_line(area, gain_.compression_rate, theme().second_line);
  draw_line(area, gain_.speedup, theme().line);
  const float y = area.min.y - ImGui::GetFontSize() - theme().px(6);
  const float cr = ImGui::CalcTextSize("CR").x, gap = theme().px(12);
  draw_tag({area.max.x - cr, y}, theme().second_line, "CR");
  if (gain_.speedup.empty()) return;
  draw_tag({area.max.x - cr - gap - ImGui::CalcTextSize("speedup").x, y}, theme().line, "speedup");
}

void PlotViews::draw_places(ImVec2 size) {
  PlotArea area = plot_area(size, {100, 25, 0}, "right, %");
  draw_x_name(area, "place in its round");
  const int n = static_cast<int>(places_.places.size());
  const float slot = area.width() / static_cast<float>(std::max(n, 1));
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (int i = 0; i < n; ++i) {
    const DraftCount& c = places_.places[i];
    const float x = area.min.x + slot * static_cast<float>(i);
    const float gap = std::max(slot * 0.15f, (slot - theme().px(48)) / 2);
    draw_x_label(area, x + slot / 2, std::to_string(i + 1), theme().dim);
    const auto rate = c.acceptance();
    if (!rate) continue;
    list->AddRectFilled({x + gap, area.min.y}, {x + slot - gap, area.max.y},
                        faded(theme().rejected, 0.25f));
    list->AddRectFilled({x + gap, area.y(100 * *rate)}, {x + slot - gap, area.max.y},
                        theme().accepted);
    const std::string text = format("%.0f", 100 * *rate);
    const float width = ImGui::CalcTextSize(text.c_str()).x;
    if (width < slot - 2 * gap) {
      list->AddText({x + (slot - width) / 2, area.max.y - ImGui::GetFontSize() - theme().px(3)},
                    area.max.y - area.y(100 * *rate) > ImGui::GetFontSize()
                        ? theme().text_on(theme().accepted)
                        : theme().text,
                    text.c_str());
    }
  }
  if (!pointed_at(area) || n == 0) return;
  const int i = slot_under_mouse(area, slot, n);
  const DraftCount& c = places_.places[i];
  ImGui::SetTooltip(
      "draft %d of a round: %d right, %d wrong,\n%d dropped because one before it was wrong", i + 1,
      c.accepted, c.rejected, c.dropped);
}

void PlotViews::draw_phases(ImVec2 size) {
  const Theme& t = theme();
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = std::min(t.px(26), size.y / 2);
  float x = at.x;
  for (int i = 0; i < kPhases; ++i) {
    const float width = static_cast<float>(phases_.share[i]) * size.x;
    const ImVec2 max = {x + width, at.y + height};
    list->AddRectFilled({x, at.y}, max, t.phase[i]);
    const std::string text = format("%.0f%%", 100 * phases_.share[i]);
    const ImVec2 extent = ImGui::CalcTextSize(text.c_str());
    if (extent.x + t.px(6) < width) {
      list->AddText({x + (width - extent.x) / 2, at.y + (height - extent.y) / 2},
                    t.text_on(t.phase[i]), text.c_str());
    }
    if (ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect({x, at.y}, max)) {
      ImGui::SetTooltip("%s\n%.1f%% of the time, %.3f ms a token",
                        phase_meaning(static_cast<Phase>(i)), 100 * phases_.share[i],
                        phases_.token_ms[i]);
    }
    x += width;
  }
  // The legend, on as many lines as it needs.
  float left = at.x, y = at.y + height + t.px(7);
  const float font = ImGui::GetFontSize();
  for (int i = 0; i < kPhases; ++i) {
    const std::string text = format("%s %.2f ms", kPhaseNames[i], phases_.token_ms[i]);
    const float width = font + t.px(4) + ImGui::CalcTextSize(text.c_str()).x;
    if (left > at.x && left + width > at.x + size.x) {
      left = at.x;
      y += font + t.px(4);
    }
    list->AddRectFilled({left, y + t.px(2)}, {left + font - t.px(4), y + font - t.px(2)},
                        t.phase[i]);
    list->AddText({left + font, y}, t.dim, text.c_str());
    left += width + t.px(12);
  }
}

}  // namespace specbound::gui
