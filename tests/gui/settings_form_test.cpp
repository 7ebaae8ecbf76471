// The settings form: what a wish becomes, what is refused and where that is said, and that a
// control being moved does not jump back to older answers.
#include "gui/model/settings_form.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

namespace specbound::gui::settings_form_test {
namespace {

const std::string kFine;

Drafting demo() {
  Drafting drafting;
  drafting.possible = drafting.on = true;
  drafting.drafter = "chained heads";
  drafting.head_layers = {0, 2, 4, 8, 12};
  drafting.params.w_max = 8;
  drafting.params.d_max = 8;
  drafting.params.tau = 0.5f;
  drafting.params.check_layers = {2, 8};
  return drafting;
}

// A form at rest over a worker that has answered everything.
SettingsForm form_of(const Drafting& drafting) {
  SettingsForm form;
  form.sync(drafting, 16, 0, kFine);
  return form;
}

std::vector<int> switched_on(const SettingsForm& form) {
  std::vector<int> layers;
  for (const auto& toggle : form.layers()) {
    if (toggle.on) layers.push_back(toggle.layer);
  }
  return layers;
}

}  // namespace

TEST_CASE("settings form: every control teaches and has a name of its own") {
  std::vector<std::string> names;
  for (int i = 0; i < kFields; ++i) {
    const FieldText& text = field_text(static_cast<Field>(i));
    CHECK(static_cast<int>(text.field) == i);
    CHECK(std::string(text.teaches).size() > 30);
    CHECK(std::find(names.begin(), names.end(), text.name) == names.end());
    names.push_back(text.name);
  }
  CHECK(preset_texts().size() == kPresets);
}

TEST_CASE("settings form: a change carries all settings and only the wish is other") {
  SettingsForm form = form_of(demo());
  const auto change = form.set_tau(0.75f);
  REQUIRE(change);
  REQUIRE(change->params);
  CHECK(change->params->tau == 0.75f);
  CHECK(change->params->d_max == 8);
  CHECK(change->params->check_layers == std::vector<int>{2, 8});
  CHECK_FALSE(change->on);
  CHECK_FALSE(change->preset);
  CHECK(form.params().tau == 0.75f);  // at once, before the worker answers
  CHECK(form.changed());
  CHECK_FALSE(form.set_tau(0.75f));  // as it is

  CHECK(form.set_alpha(0.5f)->params->alpha == 0.5f);
  CHECK(form.set_d_max(12)->params->d_max == 12);
  CHECK(form.set_w_max(16)->params->w_max == 16);
  CHECK(form.set_on(false)->on == false);
  CHECK_FALSE(form.set_on(false));
}

TEST_CASE("settings form: a slider being moved stays where it is until all is answered") {
  SettingsForm form = form_of(demo());
  REQUIRE(form.set_tau(0.6f));
  REQUIRE(form.set_tau(0.7f));
  Drafting answer = demo();
  answer.params.tau = 0.6f;
  form.sync(answer, 16, 1, kFine);
  CHECK(form.params().tau == 0.7f);
  answer.params.tau = 0.7f;
  form.sync(answer, 16, 0, kFine);
  CHECK(form.params().tau == 0.7f);
  CHECK(form.changed());
}

TEST_CASE("settings form: what the worker refuses goes back, with the reason beside it") {
  SettingsForm form = form_of(demo());
  REQUIRE(form.set_w_max(5));
  form.sync(demo(), 16, 1, kFine);
  form.sync(demo(), 16, 0, "w_max: expected what fits, found 5");
  CHECK(form.params().w_max == 8);
  CHECK(form.refusal(Field::kWMax) == "expected what fits, found 5");
  CHECK_FALSE(form.changed());
  form.sync(demo(), 16, 0, "w_max: expected what fits, found 5");  // told, not answered again
  REQUIRE(form.set_tau(0.7f));
  CHECK(form.refusal(Field::kWMax).empty());

  // Without a flag's name it belongs to what was moved.
  form.sync(demo(), 16, 0, "no drafter");
  CHECK(form.refusal(Field::kTau) == "no drafter");
}

TEST_CASE("settings form: impossible values are refused before the worker is asked") {
  SettingsForm form = form_of(demo());
  for (const float tau : {-0.1f, 1.5f, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    CHECK_FALSE(form.set_tau(tau));
    CHECK(form.refusal(Field::kTau).starts_with("expected 0 to 1, found"));
    CHECK(form.params().tau == 0.5f);
  }
  CHECK_FALSE(form.set_alpha(-1));
  CHECK_FALSE(form.refusal(Field::kAlpha).empty());
  CHECK(form.refusal(Field::kTau).empty());  // only the newest one is shown
  CHECK_FALSE(form.set_w_max(17));
  CHECK(form.refusal(Field::kWMax) == "expected 1 to 16, found 17");
  CHECK_FALSE(form.set_d_max(0));
  CHECK_FALSE(form.refusal(Field::kDMax).empty());
  CHECK_FALSE(form.changed());
}

TEST_CASE("settings form: check layers are toggles, and one of them must be asked") {
  SettingsForm form = form_of(demo());
  CHECK(switched_on(form) == std::vector<int>{2, 8});
  CHECK(form.toggle_layer(4, true)->params->check_layers == std::vector<int>{2, 4, 8});
  CHECK(form.toggle_layer(0, true)->params->check_layers == std::vector<int>{0, 2, 4, 8});
  CHECK_FALSE(form.toggle_layer(0, true));
  CHECK_FALSE(form.toggle_layer(3, true));  // has no head
  CHECK(form.toggle_layer(0, false));
  CHECK(form.toggle_layer(2, false));
  CHECK(form.toggle_layer(4, false));
  CHECK_FALSE(form.toggle_layer(8, false));  // an empty list would mean all
  CHECK(form.refusal(Field::kCheckLayers).find("at least one") != std::string::npos);
  CHECK(switched_on(form) == std::vector<int>{8});
  CHECK_FALSE(form.set_d_max(7));
  CHECK(form.refusal(Field::kDMax).find("shallowest one is 8") != std::string::npos);
}

TEST_CASE("settings form: layers beyond d_max are remembered") {
  SettingsForm form = form_of(demo());
  REQUIRE(form.set_d_max(4));
  Drafting answer = demo();
  answer.params.d_max = 4;
  answer.params.check_layers = {2};  // those that the bound leaves
  form.sync(answer, 16, 0, kFine);
  CHECK(switched_on(form) == std::vector<int>{2, 8});
  CHECK(form.layers()[3].layer == 8);
  CHECK(form.layers()[3].beyond);
  CHECK_FALSE(form.layers()[1].beyond);
  CHECK(form.set_d_max(8)->params->check_layers == std::vector<int>{2, 8});

  // Who asked for every layer means the deeper ones as well.
  Drafting lens = demo();
  lens.head_layers = {1, 2, 3, 4, 5};
  lens.params.d_max = 3;
  lens.params.check_layers = {1, 2, 3};
  SettingsForm all = form_of(lens);
  CHECK(all.set_d_max(5)->params->check_layers == lens.head_layers);
}

TEST_CASE("settings form: a preset takes back what was set by hand") {
  SettingsForm form = form_of(demo());
  REQUIRE(form.set_tau(0.9f));
  form.sync(demo(), 16, 0, kFine);
  const auto change = form.choose(Preset::kPaper);
  REQUIRE(change);
  CHECK(change->preset == Preset::kPaper);
  CHECK_FALSE(change->params);
  CHECK_FALSE(form.changed());
  Drafting paper = demo();
  paper.preset = Preset::kPaper;
  paper.params = paper_params();
  paper.params.check_layers = {2, 4, 8};
  form.sync(paper, 16, 0, kFine);
  CHECK(form.preset() == Preset::kPaper);
  CHECK(switched_on(form) == std::vector<int>{2, 4, 8});
}

TEST_CASE("settings form: another model brings its own layers, none brings nothing") {
  SettingsForm form = form_of(demo());
  REQUIRE(form.set_tau(0.9f));
  Drafting other = demo();
  other.head_layers = {1, 3};
  other.params.check_layers = {3};
  form.sync(other, 4, 0, "tau: old news");
  CHECK(switched_on(form) == std::vector<int>{3});
  CHECK_FALSE(form.changed());
  CHECK(form.refusal(Field::kTau).empty());
  CHECK(form.deepest() == 3);

  form.sync(Drafting(), 0, 0, kFine);
  CHECK_FALSE(form.possible());
  CHECK_FALSE(form.has_settings());
  CHECK(form.layers().empty());
  CHECK_FALSE(form.set_tau(0.3f));
  CHECK_FALSE(form.toggle_layer(1, true));
  CHECK(form.deepest() == 1);
}

TEST_CASE("settings form: sampling") {
  SettingsForm form;
  const SamplingParams now;
  SamplingParams wanted = now;
  CHECK_FALSE(form.set_sampling(now, wanted, Field::kTemperature));
  wanted.temperature = 0;
  CHECK(form.set_sampling(now, wanted, Field::kTemperature)->temperature == 0);
  wanted.temperature = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(form.set_sampling(now, wanted, Field::kTemperature));
  CHECK(form.refusal(Field::kTemperature).starts_with("expected 0 to 100"));
  wanted = now;
  wanted.top_p = 2;
  CHECK_FALSE(form.set_sampling(now, wanted, Field::kTopP));
  CHECK(form.refusal(Field::kTopP) == "expected 0 to 1, found 2");
  wanted = now;
  wanted.top_k = -1;
  CHECK_FALSE(form.set_sampling(now, wanted, Field::kTopK));
  CHECK(form.refusal(Field::kTopK) == "expected 0 or more, found -1");

  SamplingParams odd = now;
  odd.temperature = 0;
  odd.seed = 7;
  CHECK(SettingsForm::default_sampling(odd).temperature == SamplingParams().temperature);
  CHECK(SettingsForm::default_sampling(odd).seed == 7);
}

TEST_CASE("settings form: a seed is any 64-bit number and nothing else") {
  SettingsForm form;
  const SamplingParams now;
  CHECK(form.set_seed(now, "18446744073709551615")->seed == 18446744073709551615u);
  CHECK(form.refusal(Field::kSeed).empty());
  for (const char* text : {"", "-1", "1.5", "18446744073709551616", "seven", " 7", "\xff\x01"}) {
    CHECK_FALSE(form.set_seed(now, text));
    CHECK(form.refusal(Field::kSeed).starts_with("expected a whole number from 0 to"));
  }
  CHECK_FALSE(form.set_seed(now, "0"));  // as it is
  CHECK(form.refusal(Field::kSeed).empty());
}

TEST_CASE("settings form: the reply budget") {
  SettingsForm form;
  CHECK(form.set_reply_budget(0) == -1);
  CHECK(form.set_reply_budget(5) == 5);
  CHECK_FALSE(form.set_reply_budget(-3));
  CHECK(form.refusal(Field::kReplyBudget) == "expected 0 (no budget) or more tokens, found -3");
}

}  // namespace specbound::gui::settings_form_test
