"""Positions of a text at which a byte-level BPE tokenizer always separates tokens.

A text that is cut there tokenizes to the same ids in parts, so that neither the text nor its parts are tokenized.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loaderd.producer._loss import Part

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
)
_MARKS = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
_ASCII = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
_ISOLATED = frozenset((r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"))
"""Patterns that separate digits and characters of Chinese and Japanese before the one of the others."""
_LINES = frozenset(
    (
        rf"{_CONTRACTIONS}|{_LETTERS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{_BLANKS}",
        rf"{_CONTRACTIONS}|{_LETTERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{_BLANKS}",
        rf"{_CONTRACTIONS}|{_MARKS}{_BLANKS}",
        rf"{_CASED}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{_BLANKS}",
        rf"{_ASCII}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*{_BLANKS}",
    )
)
"""Patterns (of Llama 3, Qwen, GPT-4o and DeepSeek V3) without a match that has a line break behind a letter or digit,
or before a character which is neither white space nor "/". Texts that end there have the same matches."""


@dataclass(frozen=True)
class TokenBorders:
    """Where a tokenizer always separates tokens: next to its added tokens, and at some line breaks."""

    added: tuple[str, ...]
    begins: frozenset[str]
    """First characters of the added tokens."""
    ends: tuple[str, ...]
    """Last characters of the added tokens."""
    lines: bool
    """Whether line breaks are separate from letters and digits before them, and from all but white space and "/" behind
    them."""

    def at(self, text: str, position: int) -> bool:
        """Reports whether tokens are always separated at a position of a text."""
        following = text[position : position + 1]
        if following in self.begins and text.startswith(self.added, position):
            return True
        if text.endswith(self.ends, 0, position) and text.endswith(self.added, 0, position):
            return True
        before = text[position - 1]
        if not self.lines:
            return False
        if before == "\n":
            return not following.isspace() and following != "/"
        return following == "\n" and before.isascii() and before.isalnum()

    def cut(self, text: str, spans: Sequence[tuple[int, int]]) -> list[Part] | None:
        """Returns a text in parts. Only the spans have a loss.

        Args:
            text: The text.
            spans: Characters [begin, end), in order and without overlaps.

        Returns:
            The parts, as `split` returns them; None if tokens may extend over the end of a span.
        """
        parts: list[Part] = []
        at = 0
        for begin, end in (*((b, e) for b, e in spans if b < e), (len(text), len(text))):
            if begin > at:
                if parts and not self.at(text, at):
                    return None
                parts.append({"text": text[at:begin], "loss": False})
            if end > begin:
                if parts and not self.at(text, begin):
                    return None
                if parts and parts[-1]["loss"]:
                    parts[-1]["text"] += text[begin:end]
                else:
                    parts.append({"text": text[begin:end], "loss": True})
            at = end
        return parts or None


def token_borders(tokenizer: Any) -> TokenBorders | None:
    """Returns the borders of a fast tokenizer of transformers; None if none are known."""
    backend = tokenizer.backend_tokenizer
    model = backend.model
    if backend.encode_special_tokens or getattr(tokenizer, "split_special_tokens", False):
        return None
    if type(model).__name__ != "BPE" or model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        return None
    normalizer = _state(backend.normalizer)
    if normalizer == {"type": "Sequence", "normalizers": []}:
        normalizer = None
    if normalizer not in (None, {"type": "NFC"}):
        return None
    pre_tokenizer = _state(backend.pre_tokenizer) or {}
    steps = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    *before, last = steps
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return None
    if any(step["type"] not in ("Split", "Digits") for step in before):
        return None
    added = list(tokenizer.added_tokens_decoder.values())
    begins = {token.content[:1] for token in added}
    for token in added:  # no token may overlap with another one, or include the adjacent text
        if token.normalized and normalizer is not None:
            return None
        if token.lstrip or token.rstrip or token.single_word or not begins.isdisjoint(token.content[1:]):
            return None
        if "\n" in token.content:
            return None
    contents = tuple(sorted(token.content for token in added))
    if any(b.startswith(a) for a, b in itertools.pairwise(contents)):
        return None
    patterns = [_pattern(step) for step in before if step["type"] != "Digits"]
    lines = not last["use_regex"] and _ISOLATED.union(_LINES).issuperset(patterns) and not _LINES.isdisjoint(patterns)
    return TokenBorders(contents, frozenset(begins), tuple({content[-1] for content in contents}), lines)


def _pattern(step: dict[str, Any]) -> str | None:
    """Returns the pattern by which a step separates tokens; None if it removes or joins matches."""
    pattern: str = step["pattern"].get("Regex", "").replace("\r", r"\r").replace("\n", r"\n")
    return pattern if step["behavior"] == "Isolated" and not step["invert"] else None


def _state(component: Any) -> dict[str, Any] | None:
    """Returns the JSON of a component of a tokenizer."""
    if component is None:
        return None
    found: dict[str, Any] = json.loads(bytes(component.__getstate__()))
    return found
