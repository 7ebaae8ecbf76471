// The built-in layouts. Each is written from the chat template that the models of its family carry;
// tests/golden holds what Jinja2 makes of those.
#include <string>
#include <vector>

#include "text/template_layout.h"

namespace specbound {

namespace {

using Layouts = std::vector<TemplateLayout>;
using SystemPlace = TemplateLayout::SystemPlace;
using ReplyStyle = TemplateLayout::ReplyStyle;

constexpr const char* kSmolLm3System =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face. Your role as an "
    "assistant involves thoroughly exploring questions through a systematic thinking process "
    "before providing the final precise and accurate solutions. This requires engaging in a "
    "comprehensive cycle of analysis, summarizing, exploration, reassessment, reflection, "
    "backtracking, and iteration to develop well-considered thinking process. Please "
    "structure your response into two main sections: Thought and Solution using the specified"
    " format: <think> Thought section </think> Solution section. In the Thought section, "
    "detail your reasoning process in steps. Each step should include detailed considerations"
    " such as analysing questions, summarizing relevant findings, brainstorming new ideas, "
    "verifying the accuracy of the current steps, refining any errors, and revisiting "
    "previous steps. In the Solution section, based on various attempts, explorations, and "
    "reflections from the Thought section, systematically present the final solution that you"
    " deem correct. The Solution section should be logical, accurate, and concise and detail "
    "necessary steps needed to reach the conclusion.";

constexpr const char* kDeepSeekCoderSystem =
    "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by "
    "Deepseek "
    "Company, and you only answer questions related to computer science. For politically sensitive "
    "questions, security and privacy issues, and other non-computer science questions, you will "
    "refuse to answer\n";

TemplateLayout vicuna() {
  return {.name = "vicuna",
          .system = {"", " "},
          .user = {"USER: ", " ASSISTANT:"},
          .reply = {" ", "{eos}"}};
}

TemplateLayout chatml() {
  return {.name = "chatml",
          .begin = "",
          .system = {"<|im_start|>system\n", "<|im_end|>\n"},
          .user = {"<|im_start|>user\n", "<|im_end|>\n"},
          .reply = {"<|im_start|>assistant\n", "<|im_end|>\n"},
          .prompt = "<|im_start|>assistant\n",
          .controls = {"<|im_start|>", "<|im_end|>"}};
}

void add_chatml(Layouts& out) {
  const auto add = [&](const char* name) -> TemplateLayout& {
    out.push_back(chatml());
    out.back().name = name;
    return out.back();
  };
  add("chatml");
  add("qwen2").default_system = "You are a helpful assistant.";
  add("qwen2.5").default_system =
      "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
  add("qwen3").reply_style = ReplyStyle::kThoughtsAtEnd;
  TemplateLayout& trimmed = add("qwen3.5");
  trimmed.reply_style = ReplyStyle::kThoughtsAtEnd;
  trimmed.system.trimmed = trimmed.user.trimmed = trimmed.reply.trimmed = true;
  trimmed.prompt += "<think>\n";
  TemplateLayout& qwq = add("qwq");
  qwq.reply_style = ReplyStyle::kAnswerLine;
  qwq.prompt += "<think>\n";
  add("smollm2").default_system =
      "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

  TemplateLayout smollm3 = chatml();
  smollm3.name = "smollm3";
  smollm3.default_system = kSmolLm3System;
  smollm3.thinking_switch = true;
  smollm3.reply_style = ReplyStyle::kNoBlankLines;
  smollm3.system.after = "\n\n<|im_end|>\n";
  for (const char* today : {"Today Date: 26 July 2024\n", ""}) {
    smollm3.system.before = std::string("<|im_start|>system\n## Metadata\n\n") +
                            "Knowledge Cutoff Date: June 2025\n" + today +
                            "Reasoning Mode: /think\n\n## Custom Instructions\n\n";
    out.push_back(smollm3);
  }
}

void add_llama(Layouts& out) {
  out.push_back({.name = "llama2",
                 .begin = "",
                 .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
                 .user = {"{bos}[INST] ", " [/INST]", true},
                 .reply = {" ", " {eos}", true},
                 .system_place = SystemPlace::kFirstUser,
                 .trims_folded = true});
  const auto turn = [](const char* role) {
    return TemplateLayout::Turn{std::string("<|start_header_id|>") + role + "<|end_header_id|>\n\n",
                                "<|eot_id|>", true};
  };
  TemplateLayout llama3 = {.name = "llama3",
                           .system = turn("system"),
                           .user = turn("user"),
                           .reply = turn("assistant"),
                           .prompt = turn("assistant").before,
                           .controls = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}};
  out.push_back(llama3);
  for (const char* name : {"llama3.1", "llama3.2"}) {  // one layout: the day is fixed
    out.push_back(llama3);
    out.back().name = name;
    out.back().system.before +=
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    out.back().default_system = "";
  }
}

void add_mistral(Layouts& out) {
  TemplateLayout v1 = {.name = "mistral-v1",
                       .system = {"", "\n\n"},
                       .user = {" [INST] ", " [/INST]"},
                       .reply = {" ", "{eos}"},
                       .system_place = SystemPlace::kFirstUser};
  out.push_back(v1);
  v1.user.before = "[INST] ";  // as first published: no spaces around it, refusing system prompts
  v1.reply.before = "";
  v1.spaced_reply = true;
  for (const char* after : {"{eos}", "{eos} "}) {
    v1.reply.after = after;
    out.push_back(v1);
  }
  const std::vector<std::string> controls = {"[INST]", "[/INST]"};
  out.push_back({.name = "mistral-v3",
                 .system = {"", "\n\n"},
                 .user = {"[INST] ", "[/INST]"},
                 .reply = {" ", "{eos}", true},
                 .system_place = SystemPlace::kLastUser,
                 .controls = controls});
  out.push_back({.name = "mistral-v3-tekken",
                 .system = {"", "\n\n"},
                 .user = {"[INST]", "[/INST]"},
                 .reply = {"", "{eos}"},
                 .system_place = SystemPlace::kLastUser,
                 .controls = controls});
  const std::vector<std::string> with_system = {"[INST]", "[/INST]", "[SYSTEM_PROMPT]",
                                                "[/SYSTEM_PROMPT]"};
  out.push_back({.name = "mistral-v7",
                 .system = {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"},
                 .user = {"[INST] ", "[/INST]"},
                 .reply = {" ", "{eos}"},
                 .controls = with_system});
  out.push_back({.name = "mistral-v7-tekken",
                 .system = {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"},
                 .user = {"[INST]", "[/INST]"},
                 .reply = {"", "{eos}"},
                 .controls = with_system});
}

void add_deepseek(Layouts& out) {
  out.push_back({.name = "deepseek",
                 .system = {"", "\n\n"},
                 .user = {"User: ", "\n\n"},
                 .reply = {"Assistant: ", "{eos}"},
                 .prompt = "Assistant:"});
  out.push_back({.name = "deepseek-coder",
                 .user = {"### Instruction:\n", "\n"},
                 .reply = {"### Response:\n", "\n<|EOT|>\n"},
                 .prompt = "### Response:",
                 .default_system = kDeepSeekCoderSystem,
                 .controls = {"<|EOT|>"}});
  const std::string user = "<｜User｜>", reply = "<｜Assistant｜>", end = "<｜end▁of▁sentence｜>";
  TemplateLayout v2 = {.name = "deepseek-v2.5",
                       .user = {user, ""},
                       .reply = {reply, end},
                       .prompt = reply,
                       .controls = {user, reply, end}};
  out.push_back(v2);
  TemplateLayout r1 = v2;
  r1.name = "deepseek-r1";
  r1.reply_style = ReplyStyle::kAnswer;
  r1.prompt += "<think>\n";
  out.push_back(r1);
  r1.user.after = end;  // as llama.cpp has it
  r1.empty_reply = reply + "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>" + end;
  out.push_back(r1);
  TemplateLayout v3 = v2;
  v3.name = "deepseek-v3.1";
  v3.reply_style = ReplyStyle::kFirstAnswer;
  v3.reply.before += "</think>";
  v3.prompt += "</think>";
  out.push_back(v3);
  v3.reply.before = v3.prompt = reply + "<think></think>";
  out.push_back(v3);
  v3 = v2;
  v3.name = "deepseek-v3.2";
  v3.reply.before += "</think>";
  v3.prompt += "<think></think>";
  out.push_back(v3);
}

void add_gemma(Layouts& out) {
  out.push_back({.name = "gemma",
                 .system = {"", "\n\n"},
                 .user = {"<start_of_turn>user\n", "<end_of_turn>\n", true},
                 .reply = {"<start_of_turn>model\n", "<end_of_turn>\n", true},
                 .prompt = "<start_of_turn>model\n",
                 .system_place = SystemPlace::kFirstUser,
                 .controls = {"<start_of_turn>", "<end_of_turn>"}});
  out.push_back({.name = "gemma4",
                 .system = {"<|turn>system\n", "<turn|>\n", true},
                 .user = {"<|turn>user\n", "<turn|>\n", true},
                 .reply = {"<|turn>model\n", "<turn|>\n", true},
                 .prompt = "<|turn>model\n<|channel>thought\n<channel|>",
                 .controls = {"<|turn>", "<turn|>"}});
}

void add_others(Layouts& out) {
  out.push_back({.name = "phi3",
                 .begin = "",
                 .system = {"<|system|>\n", "<|end|>\n"},
                 .user = {"<|user|>\n", "<|end|>\n"},
                 .reply = {"<|assistant|>\n", "<|end|>\n"},
                 .prompt = "<|assistant|>\n",
                 .end = "{eos}",
                 .skips_empty_system = true,
                 .controls = {"<|user|>", "<|assistant|>", "<|end|>"}});
  out.push_back({.name = "zephyr",
                 .begin = "",
                 .system = {"<|system|>\n", "{eos}\n"},
                 .user = {"<|user|>\n", "{eos}\n"},
                 .reply = {"<|assistant|>\n", "{eos}\n"},
                 .prompt = "<|assistant|>\n"});
  const auto turn = [](const char* role) {
    return TemplateLayout::Turn{std::string("<|start_of_role|>") + role + "<|end_of_role|>",
                                "<|end_of_text|>\n"};
  };
  out.push_back({.name = "granite",
                 .begin = "",
                 .system = turn("system"),
                 .user = turn("user"),
                 .reply = turn("assistant"),
                 .prompt = turn("assistant").before,
                 .default_system =
                     "Knowledge Cutoff Date: April 2024. Today's Date: July 26, 2024. "
                     "You are Granite, developed by IBM. You are a helpful AI "
                     "assistant.",
                 .controls = {"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"}});
}

}  // namespace

const std::vector<TemplateLayout>& template_layouts() {
  static const Layouts layouts = [] {
    Layouts out = {vicuna()};
    add_chatml(out);
    add_llama(out);
    add_mistral(out);
    add_gemma(out);
    add_deepseek(out);
    add_others(out);
    return out;
  }();
  return layouts;
}

}  // namespace specbound
