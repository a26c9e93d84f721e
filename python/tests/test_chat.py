"""Chats become parts that give the tokens and the mask of transformers, for templates of models and for templates
that are hard to split."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import datasets
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from chat_tokenizers import (
    MODELS,
    SPOKEN,
    llama,
    model_tokenizer,
    read_parts,
    reference,
    small,
    small_json,
    with_template,
)
from chats import CHATS, THOUGHT, TOOLS, WEATHER, chat
from loaderd import Chat, InvalidDocumentError, documents
from loaderd.producer._message import Encoder
from loaderd.producer._text_split import Tokenized, split
from published_templates import template
from published_tokenizers import published
from scale import share

PLAIN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content "
    "}}<|im_end|>\n{% endgeneration %}"
    "{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
)


MARKED_CONTENT = MARKED.replace("<|im_end|>\n{% endgeneration %}", "{% endgeneration %}<|im_end|>\n")


def parts(*texts: str, first: bool = False) -> list[dict[str, Any]]:
    """Returns parts that alternate between with and without a loss."""
    return [{"text": text, "loss": (k % 2 == 0) == first} for k, text in enumerate(texts)]


def check_parts(made: Chat, tokenizer: Any, some: list[dict[str, Any]], **arguments: Any) -> None:
    """Checks that the parts of a chat give the ids and the mask of transformers, and that their texts are the
    rendered chat."""
    document = (
        made(some, arguments.pop("tools", None), arguments) if "tools" in arguments else made(some, None, arguments)
    )
    tools = {"tools": [WEATHER]} if some is TOOLS else {}
    found = document["parts"]
    assert "".join(p["text"] for p in found) == tokenizer.apply_chat_template(
        some, tokenize=False, **tools, **arguments
    )
    assert all(a["loss"] != b["loss"] for a, b in itertools.pairwise(found))
    assert read_parts(tokenizer, found) == reference(tokenizer, some, **tools, **arguments)


@pytest.mark.parametrize("name", MODELS)
def test_templates_of_models(name: str) -> None:
    tokenizer = with_template(name, MODELS[name])
    made = Chat(tokenizer)
    for label, some in CHATS.items():
        check_parts(made, tokenizer, some)
        assert any(p["loss"] for p in made(some)["parts"]) == (label != "no answer")


HARD = (
    *"a 1.é中한ßİﬁ\n\t\u00a0\u3000\u200b",
    "the",
    "  ",
    "\n\n",
    "  \n",
    "\r\n",
    "e\u0301",
    "\u1100\u1161",
    "👩\u200d👩",
    "'s",
    "!!",
    "12",
    "<think>",
    "</s>",
)


@pytest.mark.parametrize("name", MODELS)
def test_chats_that_are_made_up(name: str) -> None:
    tokenizer = with_template(name, MODELS[name])
    rng = random.Random(name)
    for _ in range(share(1000, 20)):
        turns = ("".join(rng.choices(HARD, k=rng.randrange(8))) for _ in range(rng.choice((2, 3, 4))))
        check_parts(Chat(tokenizer), tokenizer, chat(*turns))


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("qwen3", "qwen3_training"),
        ("qwen3", "qwen2_5_training"),
        ("qwen3", "qwen3_instruct_2507_training"),
        ("deepseek_v3", "deepseekv3_training"),
    ],
)
def test_tools(name: str, of: str) -> None:
    tokenizer = with_template(name, of)
    check_parts(Chat(tokenizer), tokenizer, TOOLS, tools=[WEATHER])
    assert Chat(tokenizer)(TOOLS, json.dumps([WEATHER])) == Chat(tokenizer)(TOOLS, [WEATHER])
    learnt = "".join(p["text"] for p in Chat(tokenizer)(TOOLS, [WEATHER])["parts"] if p["loss"])
    assert "Zürich" in learnt and "Let me look." in learnt and "celsius" not in learnt


def test_thinking() -> None:
    tokenizer = with_template("qwen3", "qwen3_training")
    check_parts(Chat(tokenizer), tokenizer, THOUGHT)
    assert sum("Two and two." in p["text"] and p["loss"] for p in Chat(tokenizer)(THOUGHT)["parts"]) == 1


@pytest.mark.parametrize(
    ("name", "of"),
    [("llama3", "llama3"), ("command_r_plus", "cohere"), ("gemma3", "gemma3"), ("qwen3", "qwen3_instruct_2507")],
)
def test_templates_without_marks(name: str, of: str) -> None:
    """The result equals that of the same template with marks, except for white space after the end of a turn."""
    marked = with_template(name, f"{of}_training")
    for label, some in CHATS.items():
        ids, mask = reference(marked, some)
        found = Chat(marked, template=template(of))(some)["parts"]
        got, loss = read_parts(marked, found)
        assert got == ids, label
        differ = [i for i in range(len(ids)) if loss[i] != mask[i]]
        assert all(
            mask[i] and marked.decode([ids[i]]) == "\n" and ids[i - 1] in marked.added_tokens_decoder for i in differ
        ), label
        assert bool(differ) == (name in ("gemma3", "qwen3") and label != "no answer"), label


def test_template_that_leaves_out_the_thinking_of_earlier_turns() -> None:
    tokenizer = with_template("qwen3", "qwen3")
    with pytest.raises(InvalidDocumentError, match=r'message 1 differently within the whole chat.*turns="last"'):
        Chat(tokenizer)(THOUGHT)
    last = Chat(tokenizer, turns="last")
    document = last(THOUGHT)
    assert [p["text"] for p in document["parts"] if p["loss"]] == ["<think>\nThree and three.\n</think>\n\n6<|im_end|>"]
    assert read_parts(tokenizer, document["parts"])[0] == reference(tokenizer, THOUGHT)[0]
    # With one document per turn, each turn is trained on after the context that the model saw.
    first = last(THOUGHT[:2])["parts"]
    assert [p["text"] for p in first if p["loss"]] == ["<think>\nTwo and two.\n</think>\n\n4<|im_end|>"]


def test_template_whose_generation_prompt_is_not_how_an_answer_begins() -> None:
    tokenizer = with_template("deepseek_v3", "deepseekv3")
    with pytest.raises(
        InvalidDocumentError, match=r"message 1 does not begin with the template's generation prompt.*<think>"
    ):
        Chat(tokenizer, turns="last")(CHATS["one turn"])


def test_date_in_a_template() -> None:
    tokenizer = with_template("llama3_2", "llama3_2")
    some = CHATS["one turn"]
    assert Chat(tokenizer, date_string="24 Dec 2024")(some) == Chat(tokenizer)(
        some, None, {"date_string": "24 Dec 2024"}
    )
    assert "Today Date: 24 Dec 2024" in Chat(tokenizer, date_string="24 Dec 2024")(some)["parts"][0]["text"]


def test_parts_with_marks_and_by_turns() -> None:
    some = chat("a b", " c d", "e", "f")
    assert Chat(small(MARKED))(some) == {
        "parts": parts(
            "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\n",
            " c d<|im_end|>\n",
            "<|im_start|>user\ne<|im_end|>\n<|im_start|>assistant\n",
            "f<|im_end|>\n",
        )
    }
    assert Chat(small(PLAIN))(some) == {
        "parts": parts(
            "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\n",
            " c d<|im_end|>",
            "\n<|im_start|>user\ne<|im_end|>\n<|im_start|>assistant\n",
            "f<|im_end|>",
            "\n",
        )
    }
    assert Chat(small("{# no {% generation %} here #}" + PLAIN))(some) == Chat(small(PLAIN))(some)
    assert Chat(small(MARKED.replace("{% gen", "{%- gen")))(some) == Chat(small(MARKED))(some)
    assert [p["text"] for p in Chat(small(PLAIN), turns="last")(some)["parts"] if p["loss"]] == ["f<|im_end|>"]
    assert [p["text"] for p in Chat(small(MARKED), turns="last")(some)["parts"] if p["loss"]] == ["f<|im_end|>\n"]
    assert [p["loss"] for p in Chat(small(MARKED), turns="last")(chat("nobody answers"))["parts"]] == [False]
    # The last answer is empty.
    assert not any(p["loss"] for p in Chat(small(MARKED_CONTENT), turns="last")(chat("a b", " c d", "e", ""))["parts"])
    endless = (
        "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt "
        "%}assistant:{% endif %}"
    )
    ends = Chat(small(endless))(chat("a", "b"))["parts"]
    assert ends == parts("user: a\nassistant:", " b\n")  # the turn ends only with a line break
    spaced = (
        "{% for m in messages %}{{ '\n\n' + m.role + ': ' + m.content + '\n' }}{% endfor %}{% if "
        "add_generation_prompt %}{{ '\n\nassistant:' }}{% endif %}"
    )
    whole = Chat(small(spaced))(chat("a", "b", "c"))["parts"]
    # The adjacent line breaks are one token.
    assert whole == parts("\n\nuser: a\n\n\nassistant:", " b\n\n", "\nuser: c\n")
    roles = [{"role": "a", "content": "x"}, {"role": "b", "content": "y"}, {"role": "c", "content": "z"}]
    two = Chat(small(PLAIN.replace("assistant", "b")), roles=("b",))(roles)["parts"]
    assert [p["text"] for p in two if p["loss"]] == ["y<|im_end|>"]
    assert [p["loss"] for p in Chat(small(PLAIN))(chat("nobody answers"))["parts"]] == [False]


def test_what_the_end_of_document_token_has() -> None:
    some = chat("a", "b")
    assert Chat(small(PLAIN), end_loss=True)(some)["parts"][-2:] == [
        {"text": "\n", "loss": False},
        {"text": "", "loss": True},
    ]
    assert Chat(small(PLAIN), end_loss=False)(some)["parts"][-1] == {"text": "\n", "loss": False}
    assert Chat(small(MARKED), end_loss=False)(some)["parts"][-2:] == [
        {"text": "b<|im_end|>\n", "loss": True},
        {"text": "", "loss": False},
    ]
    assert Chat(small(MARKED), end_loss=True)(some)["parts"][-1]["text"] == "b<|im_end|>\n"


def test_cuts_are_moved_to_where_tokens_end() -> None:
    tokenizer = small(SPOKEN)
    some = chat("who?", "the daemon", " and when", "\n\nnow")
    check_parts(Chat(tokenizer), tokenizer, some)
    found = Chat(tokenizer)(some)["parts"]
    assert found[0] == {"text": "Question: who?\nAnswer:", "loss": False} and found[1]["text"].startswith(" the daemon")


def changed(chat_template: str, **components: Any) -> PreTrainedTokenizerFast:
    """Returns the small tokenizer with other components."""
    content = json.loads(small_json())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps({**content, **components})))
    tokenizer.chat_template = chat_template
    return tokenizer


def test_tokenizers_that_leave_white_space_out_of_offsets() -> None:
    trims = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    sequence = {"type": "Sequence", "processors": [trims]}
    some = chat("a b", " c d", "e f", "g  ", "h", "\n")
    for processor in (trims, sequence):
        tokenizer = changed(MARKED, post_processor=processor)
        assert not any(reference(tokenizer, some)[1])  # transformers loses the whole mask at the first space
        assert Chat(tokenizer)(some) == Chat(small(MARKED))(some)
        # The tokenizer itself is unchanged.
        assert tokenizer(" c", return_offsets_mapping=True)["offset_mapping"][-1][0] == 1
        assert Chat(tokenizer).fingerprint == Chat(small(MARKED)).fingerprint


def test_where_no_cut_is_right() -> None:
    # Parts get a leading space that the whole text does not have.
    blank_in_front = {
        **json.loads(small_json())["pre_tokenizer"],
        "add_prefix_space": True,
    }
    tokenizer = changed(SPOKEN.replace("Answer: ", "Answer:"), pre_tokenizer=blank_in_front)
    some = chat("who?", "the daemon")
    with pytest.raises(InvalidDocumentError, match=r"document 7 \('d'\): .*'the daemon\\n'.*as_tokens=True"):
        Encoder("web", chat=Chat(tokenizer)).encode({"messages": some, "id": "d"}, 7)
    ids, mask = reference(tokenizer, some)
    assert any(mask) and Chat(tokenizer, as_tokens=True)(some) == {"ids": ids, "loss": mask}
    older = with_template("llama2", "phi3_training")
    with pytest.raises(InvalidDocumentError, match="as_tokens=True"):
        Chat(older)(some)
    assert Chat(older, as_tokens=True)(some)["ids"] == reference(older, some)[0]


def test_tokenizers_that_put_something_in_front_of_a_text() -> None:
    tokenizer = llama(SPOKEN.replace("Answer: ", "Answer:"))
    some = chat("who?", "the daemon", "and?", "<s>it")
    ids, mask = reference(tokenizer, some)
    # Separately tokenized parts would get a space each.
    assert read_parts(tokenizer, Chat(tokenizer)(some)["parts"])[0] != ids
    assert tokenizer.decode(ids) == "".join(p["text"] for p in Chat(tokenizer)(some)["parts"])
    assert Chat(tokenizer, as_tokens=True)(some) == {"ids": ids, "loss": mask}


def test_a_cut_may_be_on_either_side_of_white_space() -> None:
    def encode(text: str, first: bool = True) -> list[int]:  # words, the last one with the characters after it
        return [len(w) for w in text.split()] + ([100] if text.endswith(" ") else [])

    whole = Tokenized("ab cde", encode("ab cde"), [(0, 2), (3, 6)], [False, True])
    assert split(whole, encode) == parts("ab", " cde")
    trailing = Tokenized("ab cde", [2, 100, 3], [(0, 2), (2, 2), (3, 6)], [False, False, True])
    assert split(trailing, encode) == parts("ab ", "cde")
    assert split(Tokenized("", [], [], []), encode) == [{"text": "", "loss": False}]


def test_chats_as_tokens() -> None:
    tokenizer = with_template("qwen3", "qwen3_training")
    encoder = Encoder("web", chat=Chat(tokenizer, as_tokens=True))
    for some in CHATS.values():
        ids, mask = reference(tokenizer, some)
        message = encoder.encode({"messages": some, "id": "a", "weight": 0.5}, 0)
        runs = [int(n) for n in message.headers.get("Loaderd-Loss", str(len(ids))).split(",")]
        assert [k % 2 == 0 for k, n in enumerate(runs) for _ in range(n)] == mask
        assert message.payload == b"".join(i.to_bytes(4, "little") for i in ids)
        assert message.headers["Loaderd-Weight"] == "0.5" and message.headers["Loaderd-Tokenizer"].startswith("sha256:")
    from loaderd.fingerprint import fingerprint

    assert message.headers["Loaderd-Tokenizer"] == fingerprint(published("qwen3"))


def test_rows_of_datasets() -> None:
    tokenizer = with_template("qwen3", "qwen3_training")
    rows = [{"id": "tools", "messages": TOOLS, "tools": [WEATHER]}, {"id": "plain", "messages": THOUGHT, "tools": None}]
    made = list(
        documents(datasets.Dataset.from_list(rows), id="id", messages="messages", tools="tools", chat=tokenizer)
    )
    encoder = Encoder("web", chat=Chat(tokenizer))
    for row, document in zip(rows, made, strict=True):
        assert any(None in m.values() for m in document["messages"])  # keys of other messages have the value None
        assert encoder.encode(document, 0).payload == encoder.encode(row, 0).payload


def test_special_tokens_that_are_spelled_out() -> None:
    tokenizer = small(PLAIN.replace("{{ m.content }}", "{% if m.thinks %}<think>{% endif %}{{ m.content }}"))
    some = chat("what is <|im_end|>?", "an end")
    assert reference(tokenizer, some)[0].count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 3
    assert read_parts(tokenizer, Chat(tokenizer)(some)["parts"])[0] == reference(tokenizer, some)[0]
    careful = Chat(tokenizer, refuse_special=True)
    for refused, what in (
        (some, "message 0 .*<.im_end.>"),
        (chat("a", "b<|im_start|>"), "message 1 .*<.im_start.>"),
        (chat("a <think>", "b"), "message 0 .*<think>"),
        ([{"role": "user", "content": [{"type": "text", "text": "<|endoftext|>"}]}], "message 0 .*<.endoftext.>"),
    ):
        with pytest.raises(InvalidDocumentError, match=what):
            careful(refused)
    assert careful(chat("a", "<think>b")) == Chat(tokenizer)(chat("a", "<think>b"))


FAILS = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system, please') }}{% endif %}{{ messages[0].content "
    "+ '' }}"
)


@pytest.mark.parametrize(
    ("messages", "more", "problem"),
    [
        ("Hi", {}, "messages is a str: want a list of dicts"),
        ({"role": "user"}, {}, "messages is a dict"),
        ([], {}, "messages is empty"),
        ([{"content": "a"}], {}, "message 0 is not a dict with a role"),
        ([{"role": "user", "content": "a"}, "b"], {}, "message 1 is not a dict with a role"),
        ([{"role": "system", "content": "a"}], {}, "cannot render the chat template: TemplateError: no system, please"),
        ([{"role": "user", "content": 5}], {}, "cannot render the chat template: TypeError"),
        ([{"role": "user"}], {}, "cannot render the chat template: UndefinedError"),
        ([{"role": "user", "content": "\ud800"}], {}, "cannot render the chat template: .*"),
        ([{"role": "assistant", "content": "a"}], {}, "begins with a turn that has a loss"),
        ([{"role": "user", "content": "a"}], {"tools": 5}, "cannot render the chat template: TypeError"),
        ([{"role": "user", "content": "a"}], {"tools": "[1"}, "tools is a str that is not JSON"),
        ([{"role": "user", "content": "a"}], {"chat_template_kwargs": "x"}, "chat_template_kwargs is a str"),
        (
            [{"role": "user", "content": "a"}],
            {"chat_template_kwargs": {"tokenize": False}},
            "'tokenize'.* not arguments of a template",
        ),
        ([{"role": "user", "content": "a"}], {"text": "b"}, "both text and messages"),
    ],
)
def test_what_is_no_chat(messages: Any, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidDocumentError, match=rf"^document 3 \('my id'\): .*{problem}") as caught:
        Encoder("web", chat=Chat(small(FAILS))).encode({"messages": messages, "id": "my id", **more}, 3)
    assert isinstance(caught.value, ValueError)


def test_what_renders_no_chats() -> None:
    with pytest.raises(TypeError, match=r"fast tokenizer of transformers.*tokenizers.Tokenizer"):
        Chat(Tokenizer.from_str(small_json()))
    slow = type("Slow", (), {"apply_chat_template": print, "is_fast": False, "chat_template": PLAIN})()
    with pytest.raises(TypeError, match=r"fast tokenizer of transformers.*Slow"):
        Chat(slow)
    with pytest.raises(ValueError, match="no chat template: set template="):
        Chat(small(None))
    assert Chat(small(None), template=PLAIN)(chat("a", "b")) == Chat(small(PLAIN))(chat("a", "b"))
    for wrong, problem in (
        ({"turns": "first"}, "turns is 'first'"),
        ({"roles": "assistant"}, "roles is 'assistant'"),
        ({"roles": ()}, "roles is"),
        ({"as_tokens": True, "end_loss": True}, "end_loss requires parts"),
        ({"add_generation_prompt": True}, "add_generation_prompt.* not arguments"),
    ):
        with pytest.raises(ValueError, match=problem):
            Chat(small(PLAIN), **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidDocumentError, match="messages require chat="):
        Encoder("web").encode({"messages": chat("a", "b")}, 0)
    assert model_tokenizer("qwen3").is_fast


@pytest.mark.parametrize(("answer", "loss"), [("A", 1), ("", 0), ("Hello", 5)])
def test_Chat_FirstAnswerBeginsAtTheFirstToken(answer: str, loss: int) -> None:
    """Each byte is a token. The user's text has no loss, whatever precedes it."""
    letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(letters, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ '|' + m.content }}{% else %}{% generation %}{{ m.content "
        "}}{% endgeneration %}{% endif %}{% endfor %}"
    )
    chat = [
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "what the user wrote"},
        {"role": "assistant", "content": "Yes"},
    ]
    for turns, first in (("all", loss), ("last", 0)):
        ids, mask = read_parts(tokenizer, Chat(tokenizer, turns=turns)(chat)["parts"])
        assert len(ids) == len(answer) + 23 and mask == [i < first or i >= len(ids) - 3 for i in range(len(ids))]
