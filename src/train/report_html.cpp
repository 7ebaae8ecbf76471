#include "train/report_html.h"

#include <algorithm>

#include "error.h"
#include "train/svg.h"
#include "train/svg_plot.h"

namespace specbound {

namespace {

constexpr const char* kStyle = R"(<style>
:root{color-scheme:light dark;--fg:#1a1a1a;--bg:#fff;--dim:#5c5c5c;--line:#d8d8d8}
@media(prefers-color-scheme:dark){:root{--fg:#e8e8e8;--bg:#161616;--dim:#a8a8a8;--line:#3c3c3c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:64rem;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:0 0 .2rem}
p{margin:.2rem 0 .8rem;color:var(--dim)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(24rem,1fr));gap:1.5rem}
.table{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.2rem .8rem .2rem 0;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto}
)";

std::string name_of(const HeadReport& report) {
  return format("%s, layer %d", head_kind_name(report.kind), report.layer);
}

std::string section(const char* title, const char* text, const Plot& plot) {
  return format("<section><h2>%s</h2><p>%s</p>\n", title, text) + svg_plot(plot) + "</section>\n";
}

Plot loss_plot(const TrainedHeads& trained) {
  return {"epoch", "KL, nats a row", {{"loss", trained.loss_curve}}};
}

Plot agreement_plot(const TrainedHeads& trained, int n_layers) {
  Plot plot{"layer", "agreement", {}};
  plot.x_max = n_layers;
  plot.y_max = 1;
  for (const HeadKind kind : {HeadKind::kChained, HeadKind::kFolded, HeadKind::kFull}) {
    PlotSeries series{head_kind_name(kind), {}};
    for (const HeadReport& report : trained.reports) {
      if (report.kind == kind) series.points.emplace_back(report.layer, report.agreement);
    }
    std::sort(series.points.begin(), series.points.end());
    if (!series.points.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot depth_plot(const TrainedHeads& trained) {
  Plot plot{"drafts before, all right", "agreement", {}};
  plot.y_max = 1;
  for (const HeadReport& report : trained.reports) {
    if (report.depth_agreement.empty()) continue;
    PlotSeries series{name_of(report), {}};
    for (size_t k = 0; k < report.depth_agreement.size(); ++k) {
      series.points.emplace_back(static_cast<double>(k), report.depth_agreement[k]);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot calibration_plot(const TrainedHeads& trained, bool annealed) {
  Plot plot{"confidence", "agreement", {}};
  plot.x_max = plot.y_max = 1;
  plot.diagonal = true;
  for (const HeadReport& report : trained.reports) {
    PlotSeries series{name_of(report), {}};
    for (const ReliabilityBin& bin : annealed ? report.bins_annealed : report.bins) {
      if (bin.rows > 0) series.points.emplace_back(bin.confidence, bin.accuracy);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

Plot tau_plot(const TrainedHeads& trained, bool leaving) {
  Plot plot{"tau", leaving ? "part of rows that leave" : "part of drafts accepted", {}};
  plot.x_max = plot.y_max = 1;
  for (const HeadReport& report : trained.reports) {
    PlotSeries series{name_of(report), {}};
    for (size_t i = 0; i < report.tau.size(); ++i) {
      // Where nobody leaves, nothing is accepted or refused.
      if (!leaving && report.leaving[i] == 0) continue;
      series.points.emplace_back(report.tau[i], leaving ? report.leaving[i] : report.accepted[i]);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

std::string table(const TrainedHeads& trained) {
  std::string out =
      "<div class=\"table\"><table><tr><th>head</th><th>agreement</th><th>KL at the start</th>"
      "<th>KL at the end</th><th>calibration error</th><th>annealed</th></tr>\n";
  for (const HeadReport& report : trained.reports) {
    out += format(
        "<tr><td>%s</td><td>%.1f %%</td><td>%.3f</td><td>%.3f</td><td>%.1f %%</td>"
        "<td>%.1f %%</td></tr>\n",
        name_of(report).c_str(), 100 * report.agreement, report.kl_start, report.kl_end,
        100 * report.ece, 100 * report.ece_annealed);
  }
  return out + "</table></div>\n";
}

}  // namespace

std::string report_html(const TrainedHeads& trained, const ReportSource& source) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Exit "
      "heads: " +
      markup_escaped(source.model) + "</title>\n" + kStyle + svg_style() + "</style>\n" +
      "</head><body>\n<h1>Exit heads: " + markup_escaped(source.model) + "</h1>\n<p>" +
      markup_escaped(source.data);
  out += format(": %lld positions learnt, %lld kept apart and measured here; %.0f s",
                static_cast<long long>(trained.rows),
                static_cast<long long>(trained.validation_rows), trained.seconds);
  if (trained.tokens_x_layers_per_second > 0) {
    out += format(", %.0f tokens x layers per second", trained.tokens_x_layers_per_second);
  }
  out += "; matrices by " + markup_escaped(trained.arithmetic) + ".</p>\n" + table(trained) +
         "<div class=\"plots\">\n";
  if (!trained.loss_curve.empty()) {
    out +=
        section("Loss",
                "Divergence from the model's own distribution, sharpened for learning (its logits "
                "multiplied by a constant above 1), mean over heads.",
                loss_plot(trained));
  }
  out += section("Agreement by layer", "How often the head's first choice is the model's.",
                 agreement_plot(trained, source.n_layers));
  const Plot depth = depth_plot(trained);
  if (!depth.series.empty()) {
    out += section("Agreement in a chain", "Chained heads on their own state.", depth);
  }
  out += section("Calibration", "At temperature 1; on the dashed line confidence can be trusted.",
                 calibration_plot(trained, false));
  out += section("Calibration, annealed", "At T = 1 + 0.2 (1 - layer / layers).",
                 calibration_plot(trained, true));
  out += section("Leaving by tau", "Rows whose annealed confidence reaches tau.",
                 tau_plot(trained, true));
  out += section("Acceptance by tau", "Of those that leave, drafts that the model takes.",
                 tau_plot(trained, false));
  return out + "</div></body></html>\n";
}

}  // namespace specbound
