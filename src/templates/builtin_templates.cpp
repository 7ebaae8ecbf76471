// The chat templates that --chat-template NAME chooses. Each says what the template says that the
// models of its family carry, and takes any roles in any order: tests/golden holds what Jinja2
// makes of those.
#include <string>
#include <vector>

#include "templates/chat_template.h"

namespace specbound {

namespace {

using std::string;

const string kSmolLm3System =
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

const string kDeepSeekCoderSystem =
    "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by "
    "Deepseek Company, and you only answer questions related to computer science. For politically "
    "sensitive questions, security and privacy issues, and other non-computer science questions, "
    "you will refuse to answer\n";

// A conversation: what becomes of the content `c` of each message by its role, and the prompt for a
// reply. None of them may begin with a line end: Jinja cuts those behind a tag.
struct Turns {
  string system = "", user = "", reply = "", prompt = "";
  string begin = "{{ bos_token }}";
  string content = "m.content";
};

string source(const Turns& t) {
  return t.begin + "{% for m in messages %}{% set c = " + t.content +
         " %}{% if m.role == 'system' %}" + t.system + "{% elif m.role == 'user' %}" + t.user +
         "{% else %}" + t.reply + "{% endif %}{% endfor %}{% if add_generation_prompt %}" +
         t.prompt + "{% endif %}";
}

// Every role's messages alike.
Turns alike(const string& message, const string& prompt, const string& begin = "") {
  return {message, message, message, prompt, begin};
}

// For conversations that begin without a system prompt.
string default_system(const string& text) {
  return "{% if not messages or messages[0].role != 'system' %}"
         "{% set messages = [{'role': 'system', 'content': \"" +
         text + "\"}] + messages %}{% endif %}";
}

// System prompts wait in `held.text` for the next user's message, which `user` puts them in.
Turns holding(Turns t, const string& held = "c ~ '\\n\\n'") {
  t.begin += "{% set held = namespace(text='') %}";
  t.system = "{% set held.text = held.text ~ " + held + " %}";
  t.user += "{% set held.text = '' %}";
  return t;
}

Turns chatml(const string& reply = "{{ c }}", const string& prompt = "") {
  Turns t =
      alike("<|im_start|>{{ m.role }}\n{{ c }}<|im_end|>\n", "<|im_start|>assistant\n" + prompt);
  t.reply = "<|im_start|>assistant\n" + reply + "<|im_end|>\n";
  return t;
}

string chatml_with(const string& system) {
  Turns t = chatml();
  t.begin = default_system(system);
  return source(t);
}

// A reply of Qwen3: the last with its thoughts, which are empty if it shows none; others without.
string thoughts_at_end(const string& strip) {
  return "{% set thinks = '</think>' in c %}"
         "{% set answer = c.split('</think>')[-1].lstrip('\\n') %}"
         "{% set thoughts = c.split('</think>')[0].rstrip('\\n').split('<think>')[-1]." +
         strip +
         " %}{% if loop.last %}<think>\n{{ thoughts if thinks }}\n</think>\n\n{{ answer }}"
         "{% else %}{{ answer if thinks else c }}{% endif %}";
}

string qwen3_5() {
  Turns t = chatml(thoughts_at_end("strip()"), "<think>\n");
  t.content = "m.content.strip()";
  return source(t);
}

// /no_think and /think in the system prompt are switches.
string smollm3() {
  Turns t = chatml("{{ thoughts }}{{ c.lstrip('\\n') }}", "{{ thoughts }}");
  t.begin =
      default_system("") + "{% set off = '/no_think' in messages[0].content %}" +
      "{% set thoughts = '<think>\\n\\n</think>\\n' if off else '' %}{% set usual = "
      "'You are a helpful AI assistant named SmolLM, trained by Hugging Face.' if off else '" +
      kSmolLm3System + "' %}";
  t.system =
      "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
      "Today Date: 26 July 2024\nReasoning Mode: {{ '/no_think' if off else '/think' }}\n\n"
      "## Custom Instructions\n\n"
      "{{ c.replace('/no_think', '').replace('/think', '').rstrip() or usual }}\n\n<|im_end|>\n";
  return source(t);
}

string llama2() {
  return source(holding({.user = "{{ bos_token }}[INST] {{ (held.text ~ c).strip() }} [/INST]",
                         .reply = " {{ c.strip() }} {{ eos_token }}",
                         .begin = ""},
                        "'<<SYS>>\\n' ~ c ~ '\\n<</SYS>>\\n\\n'"));
}

Turns llama3() {
  Turns t = alike("<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ c }}<|eot_id|>",
                  "<|start_header_id|>assistant<|end_header_id|>\n\n", "{{ bos_token }}");
  t.content = "m.content.strip()";
  return t;
}

string llama3_1() {  // the day is fixed
  Turns t = llama3();
  t.begin += default_system("");
  t.system =
      "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
      "Today Date: 26 Jul 2024\n\n{{ c }}<|eot_id|>";
  return source(t);
}

string mistral_v1() {
  return source(holding(
      {.user = " [INST] {{ held.text }}{{ c }} [/INST]", .reply = " {{ c }}{{ eos_token }}"}));
}

// The system prompt stands in the message that a reply is wanted to.
string mistral_v3(const string& space, const string& reply) {
  Turns t = holding({.reply = space + reply + "{{ eos_token }}"});
  t.user = "[INST]" + space + "{{ held.text if loop.last }}{{ c }}[/INST]";
  return source(t);
}

string mistral_v7(const string& space) {
  return source({"[SYSTEM_PROMPT]" + space + "{{ c }}[/SYSTEM_PROMPT]",
                 "[INST]" + space + "{{ c }}[/INST]", space + "{{ c }}{{ eos_token }}"});
}

string gemma() {
  return source(
      holding({.user = "<start_of_turn>user\n{{ held.text }}{{ c.strip() }}<end_of_turn>\n",
               .reply = "<start_of_turn>model\n{{ c.strip() }}<end_of_turn>\n",
               .prompt = "<start_of_turn>model\n"}));
}

string gemma4() {
  Turns t = alike("<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ c }}<turn|>\n",
                  "<|turn>model\n<|channel>thought\n<channel|>", "{{ bos_token }}");
  t.content = "m.content.strip()";
  return source(t);
}

// DeepSeek V2.5 and later: what a reply begins with, of it, and what its prompt adds.
string deepseek(const string& before, const string& answer, const string& prompt) {
  return source({"{{ c }}", "<｜User｜>{{ c }}",
                 "<｜Assistant｜>" + before + "{{ " + answer + " }}<｜end▁of▁sentence｜>",
                 "<｜Assistant｜>" + prompt});
}

string deepseek_coder() {
  return source({"{{ c }}", "### Instruction:\n{{ c }}\n", "### Response:\n{{ c }}\n<|EOT|>\n",
                 "### Response:", "{{ bos_token }}" + default_system(kDeepSeekCoderSystem)});
}

string phi3() {
  Turns t = alike("<|{{ m.role }}|>\n{{ c }}<|end|>\n", "<|assistant|>\n");
  t.system = "{% if c %}" + t.system + "{% endif %}";
  t.reply += "{{ eos_token if loop.last }}";
  return source(t);
}

string granite() {
  return source(alike("<|start_of_role|>{{ m.role }}<|end_of_role|>{{ c }}<|end_of_text|>\n",
                      "<|start_of_role|>assistant<|end_of_role|>",
                      default_system("Knowledge Cutoff Date: April 2024. Today's Date: July 26, "
                                     "2024. You are Granite, developed by IBM. You are a helpful "
                                     "AI assistant.")));
}

}  // namespace

const std::vector<BuiltinTemplate>& builtin_templates() {
  using Controls = std::vector<string>;
  const Controls im = {"<|im_start|>", "<|im_end|>"};
  const Controls header = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  const Controls inst = {"[INST]", "[/INST]"};
  const Controls inst_system = {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"};
  const Controls deepseek_turns = {"<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"};
  // In the order in which they are listed.
  static const std::vector<BuiltinTemplate> all = {
      {"vicuna", source({"{{ c }} ", "USER: {{ c }} ASSISTANT:", " {{ c }}{{ eos_token }}"}), {}},
      {"chatml", source(chatml()), im},
      {"qwen2", chatml_with("You are a helpful assistant."), im},
      {"qwen2.5",
       chatml_with("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."), im},
      {"qwen3", source(chatml(thoughts_at_end("strip('\\n')"))), im},
      {"qwen3.5", qwen3_5(), im},
      {"qwq",
       source(
           chatml("{{ c if loop.last else c.split('</think>')[-1].lstrip('\\n') }}", "<think>\n")),
       im},
      {"smollm2",
       chatml_with("You are a helpful AI assistant named SmolLM, trained by Hugging Face"), im},
      {"smollm3", smollm3(), im},
      {"llama2", llama2(), {}},
      {"llama3", source(llama3()), header},
      {"llama3.1", llama3_1(), header},
      {"llama3.2", llama3_1(), header},
      {"mistral-v1", mistral_v1(), {}},
      {"mistral-v3", mistral_v3(" ", "{{ c.strip() }}"), inst},
      {"mistral-v3-tekken", mistral_v3("", "{{ c }}"), inst},
      {"mistral-v7", mistral_v7(" "), inst_system},
      {"mistral-v7-tekken", mistral_v7(""), inst_system},
      {"gemma", gemma(), {"<start_of_turn>", "<end_of_turn>"}},
      {"gemma4", gemma4(), {"<|turn>", "<turn|>"}},
      {"deepseek",
       source(
           {"{{ c }}\n\n", "User: {{ c }}\n\n", "Assistant: {{ c }}{{ eos_token }}", "Assistant:"}),
       {}},
      {"deepseek-coder", deepseek_coder(), {"<|EOT|>"}},
      {"deepseek-v2.5", deepseek("", "c", ""), deepseek_turns},
      {"deepseek-r1", deepseek("", "c.split('</think>')[-1]", "<think>\n"), deepseek_turns},
      {"deepseek-v3.1", deepseek("</think>", "c.split('</think>', 1)[-1]", "</think>"),
       deepseek_turns},
      {"deepseek-v3.2", deepseek("</think>", "c", "<think></think>"), deepseek_turns},
      {"phi3", phi3(), {"<|user|>", "<|assistant|>", "<|end|>"}},
      {"zephyr",
       source(alike("<|{{ m.role }}|>\n{{ c }}{{ eos_token }}\n", "<|assistant|>\n")),
       {}},
      {"granite", granite(), {"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"}},
  };
  return all;
}

}  // namespace specbound
