"""Chats of every shape that a template may receive."""

from __future__ import annotations

import json
from typing import Any

Chat = list[dict[str, Any]]

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place, in °C",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


def chat(*turns: str, system: str | None = None) -> Chat:
    """Returns a chat of these contents, alternating between user and assistant."""
    said = [{"role": ("user", "assistant")[k % 2], "content": content} for k, content in enumerate(turns)]
    return [*([] if system is None else [{"role": "system", "content": system}]), *said]


CHATS: dict[str, Chat] = {
    "one turn": chat("Hi", "Hello! How can I help?"),
    "several turns": chat(
        "Hi", "Hello!", "What is 12345 + 1?", "12346", "Thanks.", "You're welcome.\n\nAnything else?"
    ),
    "system": chat("Who are you?", "A model.", system="You are terse."),
    "blanks around": chat(
        "  Hi \n", "  An answer that begins with blanks, and ends with them.  \n\n", "ok\t", "\n\nfine\n"
    ),
    "an empty answer": chat("Say nothing.", "", "And now?", "Something."),
    "no answer": chat("Hi"),
    "ends with the user": chat("Hi", "Hello!", "And?"),
    "unicode": chat(
        "naïve façade 中文字符 ここ 한국어?",
        "日本語です。 Ελληνικά, русский, 👩‍👩‍👧‍👦👍🏽 e\u0301 \u00a0\u3000 \u200b!",
        "🙂",
        "🙃🙃",
    ),
    "code": chat(
        "Write a loop.",
        "```python\nfor i in range(10):\n\n    print(i)  # comment\n```\n\nDone.",
        "\tx\t=\t1",
        "  y = 2;\r\n",
    ),
    "special tokens as text": chat(
        "What is <|im_end|> and <|eot_id|>, <end_of_turn>, </s>?",
        "<|im_start|>user\nno<|im_end|> <think>",
        "<bos>",
        "<eos>ok",
    ),
    "numbers and marks": chat(
        "1,234.5678 ... !!! ??", "(a+b)^2 = a^2 + 2ab + b^2; it's 'S 'll", '{"a": [1, 2]}', "{{ not }} {% a template %}"
    ),
}

THOUGHT: Chat = [
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "reasoning_content": "Two and two.", "content": "4"},
    {"role": "user", "content": "And 3+3?"},
    {"role": "assistant", "content": "<think>\nThree and three.\n</think>\n\n6"},
]

TOOLS: Chat = [
    {"role": "system", "content": "You may call tools."},
    {"role": "user", "content": "Weather in Zürich and Paris?"},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"type": "function", "function": {"name": "weather", "arguments": {"place": "Zürich"}}},
            {"type": "function", "function": {"name": "weather", "arguments": {"place": "Paris"}}},
        ],
    },
    {"role": "tool", "name": "weather", "content": json.dumps({"celsius": 11.5})},
    {"role": "tool", "name": "weather", "content": json.dumps({"celsius": 17})},
    {"role": "assistant", "content": "11.5 °C and 17 °C."},
    {"role": "user", "content": "Thanks"},
    {"role": "assistant", "content": "Welcome."},
]
