#!/usr/bin/env python3
"""The official openai client against a running server: every endpoint, streaming and not, sync and async."""
import asyncio
import json
import unittest

import openai
from served import MODEL, knows_turns, server_url

MESSAGES = [{"role": "user", "content": "Once upon a time there was a king"}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}},
                   "required": ["city"], "additionalProperties": False}}}]


def client():
    return openai.OpenAI(base_url=server_url() + "/v1", api_key="none", max_retries=0, timeout=120)


def chat(**fields):
    arguments = {"model": MODEL, "messages": MESSAGES, "max_tokens": 16, "temperature": 0} | fields
    return client().chat.completions.create(**arguments)


class Chat(unittest.TestCase):
    def test_whole_and_streamed_replies_are_equal(self):
        whole = chat()
        self.assertEqual(whole.choices[0].message.role, "assistant")
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens)
        chunks = list(chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(chunks[-2].choices[0].finish_reason, whole.choices[0].finish_reason)

    def test_async(self):
        async def both():
            async with openai.AsyncOpenAI(base_url=server_url() + "/v1", api_key="none") as asynchronous:
                create = asynchronous.chat.completions.create
                common = {"model": MODEL, "messages": MESSAGES, "max_tokens": 16, "temperature": 0}
                wholes = await asyncio.gather(*[create(**common) for _ in range(4)])
                stream = await create(**common, stream=True)
                text = "".join([c.choices[0].delta.content or "" async for c in stream])
                return [w.choices[0].message.content for w in wholes], text
        wholes, text = asyncio.run(both())
        self.assertEqual(set(wholes), {text})

    def test_seeds_repeat_and_choices_differ(self):
        first, again = (chat(temperature=1, seed=5, n=3, max_tokens=24) for _ in range(2))
        texts = [choice.message.content for choice in first.choices]
        self.assertEqual(texts, [choice.message.content for choice in again.choices])
        self.assertGreater(len(set(texts)), 1)

    def test_stop(self):
        text = chat().choices[0].message.content
        stop = text[len(text) // 2:][:2]
        reply = chat(stop=[stop, "never said"]).choices[0]
        self.assertEqual(reply.message.content, text[:text.index(stop)])
        self.assertEqual(reply.finish_reason, "stop")

    def test_logprobs(self):
        choice = chat(logprobs=True, top_logprobs=3).choices[0]
        for token in choice.logprobs.content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 3)
        text = bytes(byte for token in choice.logprobs.content for byte in token.bytes)
        self.assertEqual(text.decode(errors="replace"), choice.message.content)

    def test_logit_bias(self):
        reply = client().post("/chat/completions", cast_to=object, body={
            "messages": MESSAGES, "max_tokens": 4, "temperature": 0, "logit_bias": {"300": 100},
            "return_token_ids": True})
        self.assertEqual(reply["choices"][0]["token_ids"], [300] * 4)

    def test_extra_fields(self):
        reply = chat(extra_body={"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "min_tokens": 3,
                                 "ignore_eos": True, "stop_token_ids": [], "cache_salt": "s", "priority": 1,
                                 "timings": True, "nobody_knows": 1},
                     user="me", metadata={"a": "b"}, store=False, presence_penalty=0.5, frequency_penalty=0.5)
        self.assertEqual(reply.usage.completion_tokens, 16)
        self.assertGreater(reply.timings["predicted_n"], 0)

    def test_errors(self):
        for fields, error in [({"model": "other"}, openai.NotFoundError),
                              ({"messages": []}, openai.BadRequestError),
                              ({"temperature": 9}, openai.BadRequestError),
                              ({"messages": [{"role": "user", "content": "word " * 300_000}]},
                               openai.BadRequestError)]:
            with self.assertRaises(error) as caught:
                chat(**fields)
            self.assertTrue(caught.exception.body["message"])
            self.assertTrue(caught.exception.request_id)
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_a_closed_stream_leaves_the_server_well(self):
        for _ in range(20):
            stream = chat(stream=True, max_tokens=300, extra_body={"ignore_eos": True})
            next(iter(stream))
            stream.close()
        self.assertTrue(chat().choices[0].message.content)


class Constrained(unittest.TestCase):
    def test_json_schema(self):
        schema = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
        for stream in (False, True):
            reply = chat(response_format=schema, max_tokens=200, temperature=1, stream=stream)
            text = ("".join(c.choices[0].delta.content or "" for c in reply) if stream
                    else reply.choices[0].message.content)
            person = json.loads(text)
            self.assertEqual(set(person), {"name", "age"})
            self.assertIsInstance(person["age"], int)

    def test_schemas_that_cannot_be_guaranteed_are_refused(self):
        bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#/nowhere"}}}
        with self.assertRaises(openai.BadRequestError):
            chat(response_format=bad)

    def test_required_and_named_tools(self):
        if not knows_turns():
            self.skipTest("the model has no format for tools")
        named = {"type": "function", "function": {"name": "get_weather"}}
        for choice in ("required", named):
            reply = chat(tools=TOOLS, tool_choice=choice, max_tokens=200, temperature=1, seed=3,
                         parallel_tool_calls=False).choices[0]
            self.assertEqual(reply.finish_reason, "tool_calls")
            call = reply.message.tool_calls[0]
            self.assertEqual(call.function.name, "get_weather")
            self.assertIn("city", json.loads(call.function.arguments))
            self.assertTrue(call.id.startswith("call_"))

    def test_a_call_and_its_result_make_the_next_prompt(self):
        if not knows_turns():
            self.skipTest("the model has no format for tools")
        stream = list(chat(tools=TOOLS, tool_choice="required", max_tokens=200, temperature=1, seed=4,
                           parallel_tool_calls=False, stream=True))
        parts = [c.choices[0].delta.tool_calls[0] for c in stream if c.choices[0].delta.tool_calls]
        arguments = "".join(part.function.arguments or "" for part in parts)
        history = MESSAGES + [
            {"role": "assistant", "tool_calls": [{"id": parts[0].id, "type": "function", "function": {
                "name": parts[0].function.name, "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": parts[0].id, "content": "sunny"}]
        self.assertEqual(chat(messages=history, tools=TOOLS).choices[0].message.role, "assistant")


class Completions(unittest.TestCase):
    def test_prompts(self):
        create = client().completions.create
        common = {"model": MODEL, "max_tokens": 8, "temperature": 0}
        text = create(prompt="The old king", **common).choices[0].text
        stream = create(prompt="The old king", stream=True, **common)
        self.assertEqual("".join(chunk.choices[0].text for chunk in stream), text)
        both = create(prompt=["The old king", "The queen"], n=2, **common)
        self.assertEqual([choice.index for choice in both.choices], [0, 1, 2, 3])
        self.assertEqual(both.choices[1].text, text)
        echoed = create(prompt="The old king", echo=True, **common)
        self.assertEqual(echoed.choices[0].text, "The old king" + text)
        logprobs = create(prompt="The old king", logprobs=2, **common).choices[0].logprobs
        self.assertEqual(len(logprobs.tokens), len(logprobs.token_logprobs))
        with self.assertRaises(openai.BadRequestError):
            create(prompt="a", suffix="b", **common)


class Responses(unittest.TestCase):
    def test_text(self):
        create = client().responses.create
        whole = create(model=MODEL, input="Once upon a time", max_output_tokens=16, temperature=0)
        self.assertEqual(whole.status, "incomplete")
        self.assertTrue(whole.output_text)
        events = list(create(model=MODEL, input="Once upon a time", max_output_tokens=16, temperature=0,
                             stream=True))
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.incomplete")
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"),
                         whole.output_text)
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))

    def test_the_clients_own_accumulation(self):
        with client().responses.stream(model=MODEL, input="Once upon a time", max_output_tokens=16) as stream:
            for _ in stream:
                pass
            self.assertTrue(stream._state.__class__)  # no event was refused on the way

    def test_state_is_refused(self):
        with self.assertRaises(openai.BadRequestError):
            client().responses.create(model=MODEL, input="x", previous_response_id="resp_1")


class Others(unittest.TestCase):
    def test_models(self):
        models = client().models
        self.assertIn(MODEL, [model.id for model in models.list()])
        self.assertGreater(models.retrieve(MODEL).max_model_len, 0)
        with self.assertRaises(openai.NotFoundError):
            models.retrieve("other")

    def test_embeddings(self):
        with self.assertRaises(openai.BadRequestError):
            client().embeddings.create(model=MODEL, input="x")


if __name__ == "__main__":
    unittest.main()
