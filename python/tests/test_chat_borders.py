"""Chats that are cut at known borders of tokens have the parts of chats that are tokenized."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, pre_tokenizers

from chat_tokenizers import MODELS, llama, model_tokenizer, reference, small, small_json, with_template
from chats import CHATS, chat
from loaderd import Chat, InvalidDocumentError
from loaderd.producer._chat_tokens import ChatTokenizer
from loaderd.producer._token_borders import token_borders
from published_templates import template
from scale import share
from test_chat import HARD, MARKED, PLAIN

BORDERS = {
    "llama3": ("llama3_training", "llama3"),
    "qwen3": ("qwen3_training", "qwen3_instruct_2507", "qwen2_5_training"),
    "deepseek_v3": ("deepseekv3_training",),
    "command_r_plus": ("cohere_training", "cohere"),
}


def tokenized(tokenizer: Any, **options: Any) -> Chat:
    """Returns a Chat that tokenizes every chat."""
    made = Chat(tokenizer, **options)
    made._borders = None
    return made


@pytest.mark.parametrize("name", BORDERS)
def test_TokenBorders_SamePartsAsTokenizing(name: str) -> None:
    rng = random.Random(name)
    made_up = [
        chat(*("".join(rng.choices(HARD, k=rng.randrange(6))) for _ in range(rng.choice((2, 3, 4)))))
        for _ in range(share(2000, 10))
    ]
    tokenizer, cuts = model_tokenizer(name), 0
    for of in BORDERS[name]:
        for turns in ("all", "last"):
            options: dict[str, Any] = {"template": template(of), "turns": turns}
            fast, slow = Chat(tokenizer, **options), tokenized(tokenizer, **options)
            assert fast._borders is not None
            ids, slow_ids = Chat(tokenizer, as_tokens=True, **options), tokenized(tokenizer, as_tokens=True, **options)
            for some in (*CHATS.values(), *made_up):
                assert fast(some) == slow(some)
                assert ids(some) == slow_ids(some)
                text, spans, marked = fast._rendered(some, None, {}, range(len(some)))
                cuts += not (marked and turns == "last") and fast._borders.cut(text, spans) is not None
    assert cuts > len(made_up) / 2


def test_TokenBorders_NoTokenizing(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = with_template("qwen3", "qwen3_instruct_2507")
    made = Chat(tokenizer)
    for name in ("ids", "offsets"):
        monkeypatch.setattr(ChatTokenizer, name, None)
    losses = [p["loss"] for p in made(chat("Hi", "Hello", "a\n\nb", "* x"))["parts"]]
    assert losses == [False, True, False, True, False]
    with pytest.raises(InvalidDocumentError, match="cannot render"):
        made(chat("Hi", " an answer that begins with a blank"))


@pytest.mark.parametrize("character", ["/", " ", "\n", "\u3000", "\x85"])
def test_TokenBorders_CharactersThatJoinALineBreak(character: str) -> None:
    borders = token_borders(model_tokenizer("llama3"))
    assert borders is not None
    assert borders.at("a\nb", 2) and not borders.at(f"a\n{character}b", 2) and not borders.at("ab", 1)
    assert borders.at("a\nb", 1) and not borders.at("é\nb", 1) and not borders.at("!\nb", 1)
    assert borders.at("a<|eot_id|> b", 1) and borders.at("a<|eot_id|> b", 11) and not borders.at("a<|eot_id|> b", 5)


def test_TokenBorders_TokenizersWithoutThem() -> None:
    assert token_borders(llama(PLAIN)) is None  # it prepends a character to texts
    for name in ("llama3", "qwen3", "deepseek_v3"):
        found = token_borders(model_tokenizer(name))
        assert found is not None and found.lines
    assert token_borders(model_tokenizer("gemma3")) is None  # its added tokens overlap
    known = token_borders(small(PLAIN))
    assert known is not None and not known.lines  # GPT-2 separates line breaks by what follows them
    for token in (
        AddedToken("<a>", rstrip=True),
        AddedToken("<a>", single_word=True),
        AddedToken("x<|im_end|>"),
        AddedToken("<|im_end|>>"),
        AddedToken("<a\n>"),
    ):
        changed = Tokenizer.from_str(small_json())
        changed.add_tokens([token])
        tokenizer = small(PLAIN)
        tokenizer._tokenizer = changed
        assert token_borders(tokenizer) is None, token


def test_TokenBorders_DigitsAlone() -> None:
    """A tokenizer that separates only digits has tokens with line breaks and letters."""
    changed = Tokenizer.from_str(small_json())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = small(PLAIN)
    tokenizer._tokenizer = changed
    for before in (pre_tokenizers.Digits(), pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated")):
        changed.pre_tokenizer = pre_tokenizers.Sequence([before, byte_level])
        known = token_borders(tokenizer)
        assert known is not None and not known.lines


def test_TokenBorders_SpecialTokensAsText() -> None:
    """A tokenizer that splits special tokens joins their text with the text next to them."""
    tokenizer = copy.deepcopy(with_template("llama3", "llama3_training"))
    tokenizer.split_special_tokens = tokenizer.backend_tokenizer.encode_special_tokens = True
    made, some = Chat(tokenizer, as_tokens=True), chat("Hi!", "Yes!!", "Ok?", "Ok!!")
    document = made(some)
    assert (document["ids"], document["loss"]) == reference(tokenizer, some)
    assert len(document["ids"]) > len(Chat(with_template("llama3", "llama3_training"), as_tokens=True)(some)["ids"])


def test_Chat_MessagesWithoutLoss() -> None:
    """Weights of 0, as in the format of OpenAI, and the messages of a prompt."""
    some = chat("a", "b", "c", "d")
    some[1]["weight"] = 0
    for made in (Chat(small(PLAIN)), Chat(small(MARKED)), Chat(with_template("llama3", "llama3_training"))):
        for document in (made(some), made(chat("a", "b", "c", "d"), loss_from=2)):
            assert [p["text"].strip()[0] for p in document["parts"] if p["loss"]] == ["d"]
        assert made(some, loss_from=4)["parts"] == [
            {"text": "".join(p["text"] for p in made(chat("a", "b", "c", "d"))["parts"]), "loss": False}
        ]
    some[1]["weight"] = 0.5
    with pytest.raises(InvalidDocumentError, match=r"message 1 has the weight 0\.5"):
        Chat(small(PLAIN))(some)
    twice = MARKED.replace("{% else %}", "{% generation %}!{% endgeneration %}{% else %}")
    with pytest.raises(InvalidDocumentError, match="marks 4 texts of 2 assistant messages"):
        Chat(small(twice))(chat("a", "b", "c", "d"), loss_from=2)
    assert Chat(small(twice))(chat("a", "b"))  # all messages have a loss


@pytest.mark.parametrize("name", MODELS)
def test_Chat_KeysWithoutValue(name: str) -> None:
    """Rows of Arrow have null for keys of other messages. transformers omits these."""
    made = Chat(with_template(name, MODELS[name]))
    some = CHATS["several turns"]
    assert made([{**m, "tool_calls": None, "reasoning_content": None} for m in some]) == made(some)
