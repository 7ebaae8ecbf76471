#!/usr/bin/env python3
"""Renders chat templates with Jinja2 and encodes conversations like the demo model's training text.

usage: make_template_golden.py > template_golden.json    (needs jinja2, sentencepiece, gguf)

templates: each with its text, the conversations it was given and what Jinja2 made of them, under
the settings chat templates are written for (trim_blocks, lstrip_blocks); "vicuna": whether they
mean the same as the demo model's.
training: conversations and their ids: <s>, then each turn "USER: ... ASSISTANT: ..." through
libsentencepiece, </s>.
"""
import json
import os

import jinja2
import sentencepiece
from gguf import GGUFReader

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")
MODEL = os.path.join(HERE, "..", "..", "models", "demo-chat-16l-q8_0.gguf")

DEMO = GGUFReader(MODEL).fields["tokenizer.chat_template"].contents()

LOOP = "{{ bos_token }}{% for message in messages %}"
USER = "{% if message['role'] == 'user' %}{{ 'USER: ' + message['content'] + ' ASSISTANT:' }}"
REPLY = "{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}"
END = "{% endif %}{% endfor %}"
PROMPT = "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"

# Other spellings of the same.
SAME = [
    DEMO,
    # names with dots, double quotes, else, ~
    "{{ bos_token }}{% for m in messages %}{% if m.role == \"user\" %}"
    '{{ "USER: " ~ m.content ~ " ASSISTANT:" }}{% else %}{{ " " ~ m.content ~ eos_token }}' + END,
    # text outside of tags, special tokens spelled out
    "<s>{% for message in messages %}{% if message['role'] == 'user' %}"
    "USER: {{ message['content'] }} ASSISTANT:{% elif message['role'] == 'assistant' %}"
    " {{ message['content'] }}</s>" + END,
    # lines, indents, comments, white space control
    "{# Vicuna 1.1 #}\n"
    "{{- bos_token -}}\n"
    "{% for message in messages %}\n"
    "    {% if message['role'] == 'user' %}\n"
    "        {{- 'USER: ' + message['content'] + ' ASSISTANT:' -}}\n"
    "    {% elif message['role'] == 'assistant' %}\n"
    "        {{- ' ' + message['content'] + eos_token -}}\n"
    "    {% else %}\n"
    "        {{- raise_exception('only user and assistant roles') -}}\n"
    "    {% endif %}\n"
    "{% endfor %}\n",
    # two conditions in a row
    LOOP + "{% if message['role'] == 'user' %}{{ 'USER: ' + message['content'] }}"
    "{{ ' ASSISTANT:' }}{% endif %}{% if message['role'] == 'assistant' %}"
    "{{ ' ' }}{{ message['content'] }}{{ eos_token }}" + END,
    # the reply's mark belongs to the reply
    LOOP + "{% if message['role'] == 'user' %}{{ 'USER: ' + message['content'] + ' ' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ 'ASSISTANT: ' + message['content'] + eos_token }}" + END + PROMPT,
    # with a system message
    LOOP + "{% if message['role'] == 'system' %}{{ message['content'] + ' ' }}"
    + USER.replace("{% if", "{% elif") + REPLY + END,
]

# Near ones that put out something else.
OTHER = [
    # a line end behind each message
    LOOP + "{% if message['role'] == 'user' %}{{ 'USER: ' + message['content'] + '\\n' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ 'ASSISTANT: ' + message['content'] + '</s>\\n' }}" + END + PROMPT,
    # white space that is not cut
    LOOP.replace("}}{%", "}}\n{%") + USER + REPLY + END,
    LOOP + USER.replace("%}{{", "%} {{") + REPLY + END,
    # no end token
    LOOP + USER + REPLY.replace(" + eos_token", "") + END,
    # the roles the other way round
    LOOP + USER.replace("'user'", "'assistant'") + REPLY.replace("'assistant'", "'user'") + END,
    # contents changed on the way
    LOOP + USER.replace("['content']", "['content'] | upper") + REPLY + END,
]

CONVERSATIONS = [
    [("user", "I need a table for two tonight.")],
    [("user", "Hi"), ("assistant", "Hello, how can I help?"), ("user", "Find me a film.")],
    [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"), ("user", "e")],
    [("user", "Grüße, 你好 🦙\n  two  spaces ")],
    [("user", "{{ bos_token }} {% if %} 'quotes' \"and\" \\n")],
    [("user", ""), ("assistant", ""), ("user", "")],
]
WITH_SYSTEM = [[("system", "Answer in one line.")] + c for c in CONVERSATIONS]


def messages(conversation):
    return [{"role": role, "content": content} for role, content in conversation]


def render(environment, source, conversation):
    return environment.from_string(source).render(
        messages=messages(conversation), bos_token="<s>", eos_token="</s>",
        add_generation_prompt=True)


def main():
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)

    def refuse(text):
        raise ValueError(text)

    environment.globals["raise_exception"] = refuse
    templates = []
    for vicuna, sources in ((True, SAME), (False, OTHER)):
        for source in sources:
            conversations = CONVERSATIONS + (WITH_SYSTEM if "'system'" in source else [])
            renders = [{"messages": messages(c), "text": render(environment, source, c)}
                       for c in conversations]
            templates.append({"template": source, "vicuna": vicuna, "renders": renders})

    tokenizer = sentencepiece.SentencePieceProcessor(
        model_file=os.path.join(DATA, "tokenizer", "demo-tok.model"))
    training = []
    dialogues = os.path.join(DATA, "dialogue-valid", "dialogue-valid.jsonl")
    with open(dialogues, encoding="utf-8") as lines:
        for line in list(lines)[:12]:
            dialogue = json.loads(line)
            turns = list(zip(dialogue[0::2], dialogue[1::2]))
            ids = [tokenizer.bos_id()]
            for user, reply in turns:
                text = "USER: " + user["content"] + " ASSISTANT: " + reply["content"]
                ids += tokenizer.encode(text) + [tokenizer.eos_id()]
            training.append({"messages": [m for turn in turns for m in turn], "ids": ids})

    lists = []
    for name, entries in (("templates", templates), ("training", training)):
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        lists.append('"%s": [\n%s\n]' % (name, lines))
    print("{" + ",\n".join(lists) + "}")


main()
