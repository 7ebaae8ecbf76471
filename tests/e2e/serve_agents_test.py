#!/usr/bin/env python3
"""specbound serve under the packages that agents are made with: openai, LangChain and litellm, each
where it can be imported, call a tool of a model that writes calls, and get the reply to its
result."""
import glob
import json
import os
import sys
import unittest

from serve_tools_test import ARGUMENTS, WEATHER, ToolsCase
from specbound_process import ROOT

# The server is on this machine, whatever proxy there is; and nothing is told to anybody.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LANGCHAIN_TRACING_V2"] = "false"
sys.path[:0] = glob.glob(os.path.join(
    ROOT, "build/openai/lib/python{}.{}/site-packages".format(*sys.version_info)))


def imported(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def without(package):
    return f"SKIP: the {package} package cannot be imported; packaging/test.sh installs it"


openai, langchain, litellm = map(imported, ("openai", "langchain_openai", "litellm"))
QUESTION = {"role": "user", "content": "Weather in Oslo?"}
REPLY = "It is sunny in Oslo."


class Agents(ToolsCase):
    def url(self):
        return f"http://127.0.0.1:{self.server.port}/v1"

    @unittest.skipUnless(openai, without("openai"))
    def test_openai(self):
        with openai.OpenAI(base_url=self.url(), api_key="none", max_retries=0) as client:
            create = client.chat.completions.create
            first = create(model="any", temperature=0, messages=[QUESTION], tools=[WEATHER])
            self.assertEqual(first.choices[0].finish_reason, "tool_calls")
            call, = first.choices[0].message.tool_calls
            self.assertEqual((call.function.name, call.function.arguments),
                             ("get_weather", ARGUMENTS))
            # Its helper puts the chunks together by itself.
            with client.chat.completions.stream(model="any", temperature=0, messages=[QUESTION],
                                                tools=[WEATHER]) as stream:
                whole = stream.get_final_completion().choices[0].message
            self.assertEqual(whole.tool_calls[0].function.arguments, ARGUMENTS)
            self.assertEqual(whole.content, "I look. ")
            result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
            second = create(model="any", temperature=0, tools=[WEATHER],
                            messages=[QUESTION, first.choices[0].message, result])
            self.assertEqual(second.choices[0].message.content, REPLY)

    @unittest.skipUnless(langchain, without("langchain-openai"))
    def test_langchain(self):
        from langchain_core.messages import HumanMessage, ToolMessage
        chat = langchain.ChatOpenAI(base_url=self.url(), api_key="none", model="any",
                                    temperature=0, max_retries=0).bind_tools([WEATHER])
        question = HumanMessage(QUESTION["content"])
        first = chat.invoke([question])
        call, = first.tool_calls
        self.assertEqual((call["name"], call["args"]), ("get_weather", json.loads(ARGUMENTS)))
        streamed = None
        for chunk in chat.stream([question]):
            streamed = chunk if streamed is None else streamed + chunk
        self.assertEqual(streamed.tool_calls[0]["args"], call["args"])
        second = chat.invoke([question, first, ToolMessage("sunny", tool_call_id=call["id"])])
        self.assertEqual(second.content, REPLY)

    @unittest.skipUnless(litellm, without("litellm"))
    def test_litellm(self):
        asked = dict(model="openai/any", api_base=self.url(), api_key="none", temperature=0,
                     tools=[WEATHER], num_retries=0)
        first = litellm.completion(messages=[QUESTION], **asked).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        call, = first.message.tool_calls
        self.assertEqual(call.function.arguments, ARGUMENTS)
        self.assertEqual(first.message.reasoning_content, "Hm. They ask for the weather.")
        result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        messages = [QUESTION, first.message.model_dump(), result]
        second = litellm.completion(messages=messages, **asked)
        self.assertEqual(second.choices[0].message.content, REPLY)


del ToolsCase  # which would be found here, too

if __name__ == "__main__":
    unittest.main()
