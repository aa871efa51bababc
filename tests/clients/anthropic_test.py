#!/usr/bin/env python3
"""The official anthropic client against a running server: /v1/messages and count_tokens."""
import unittest

import anthropic
from served import MODEL, knows_turns, server_url

MESSAGES = [{"role": "user", "content": "Once upon a time there was a king"}]
TOOL = {"name": "get_weather", "description": "The weather of a city", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
    "additionalProperties": False}}


def client():
    return anthropic.Anthropic(base_url=server_url(), api_key="none", max_retries=0, timeout=120)


def arguments(temperature=0, **fields):
    """Of a short reply. The client no longer names the temperature, which the server still knows."""
    return {"model": MODEL, "messages": MESSAGES, "max_tokens": 16,
            "extra_body": {"temperature": temperature}} | fields


def message(**fields):
    return client().messages.create(**arguments(**fields))


class Messages(unittest.TestCase):
    def test_whole_and_streamed_replies_are_equal(self):
        whole = message()
        self.assertEqual(whole.stop_reason, "max_tokens")
        self.assertEqual(whole.usage.output_tokens, 16)
        with client().messages.stream(**arguments()) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.content[0].text, text)
        self.assertEqual(final.usage.output_tokens, 16)
        self.assertEqual(final.stop_reason, "max_tokens")

    def test_stop_sequences(self):
        text = message().content[0].text
        stop = text[len(text) // 2:][:2]
        reply = message(stop_sequences=["never said", stop])
        self.assertEqual(reply.stop_reason, "stop_sequence")
        self.assertEqual(reply.stop_sequence, stop)

    def test_count_tokens(self):
        counted = client().messages.count_tokens(model=MODEL, messages=MESSAGES, system="Be brief.")
        self.assertGreater(counted.input_tokens, 4)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError):
            message(model="other")
        with self.assertRaises(anthropic.BadRequestError) as caught:
            message(messages=[])
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")

    def test_tools(self):
        if not knows_turns():
            self.skipTest("the model has no format for tools")
        reply = message(tools=[TOOL], tool_choice={"type": "tool", "name": "get_weather"}, max_tokens=200,
                        temperature=1)
        self.assertEqual(reply.stop_reason, "tool_use")
        self.assertEqual(reply.content[-1].name, "get_weather")
        self.assertIn("city", reply.content[-1].input)
        blocks = [block.model_dump(exclude_none=True) for block in reply.content]
        answered = MESSAGES + [
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": reply.content[-1].id,
                                          "content": "sunny"}]}]
        self.assertEqual(message(messages=answered, tools=[TOOL]).role, "assistant")


if __name__ == "__main__":
    unittest.main()
