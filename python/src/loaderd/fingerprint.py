"""The fingerprint of a tokenizer: "sha256:" and the hash of everything that determines its ids.

Tokenized documents carry it (the header Loaderd-Tokenizer), a run names it, and `loaderd tokenize --fingerprint` prints
it. It does not depend on the layout of a file: the order of keys, white space, the spelling of merges, explicit
defaults, and merges that can never apply. The Go package comment tokenizer/internal/fingerprint/doc.go specifies it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["fingerprint"]

Json = Any
Pair = tuple[str, str]

VERSION = "loaderd tokenizer 3"

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The same patterns in tiktoken's spelling.
TIKTOKEN_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
TIKTOKEN_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)

SPACE_PAST_NEWLINE = re.compile(r"[\r\n][\t\v\f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+\Z")

ADDED_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

# The fields of a component that determine ids, with the reference's defaults for absent ones.
REQUIRED = object()
COMPONENTS: dict[str, dict[str, Json]] = {
    "ByteLevel": {"add_prefix_space": True, "use_regex": True},
    "Metaspace": {"replacement": REQUIRED, "prepend_scheme": "always", "split": True},
    "Split": {"pattern": REQUIRED, "behavior": REQUIRED, "invert": False},
    "Digits": {"individual_digits": False},
    "Punctuation": {"behavior": "Isolated"},
    "Prepend": {"prepend": REQUIRED},
    "Replace": {"pattern": REQUIRED, "content": REQUIRED},
}


def fingerprint(tokenizer: object, *, special_as_text: bool | None = None, add_special_tokens: bool = False) -> str:
    """Returns the fingerprint of a tokenizer: "sha256:" and 64 hexadecimal digits.

    Args:
        tokenizer: The path of a tokenizer.json or a tokenizer.model, the text or the parsed content of a
            tokenizer.json, a `tokenizers.Tokenizer`, a fast tokenizer of `transformers`, a `tiktoken.Encoding`, or a
            `sentencepiece.SentencePieceProcessor`. Truncation and padding that are set on a
            `tokenizers.Tokenizer` count. Those of a fast tokenizer do not, because they are chosen per call: leave them
            off.
        special_as_text: Whether special tokens written in a text are encoded as text. By default a
            `tokenizers.Tokenizer` determines it (encode_special_tokens).
        add_special_tokens: Whether ids include those that the post-processor adds (BOS, EOS).

    Raises:
        TypeError: If the tokenizer has another type.
        ValueError: If the content is not a tokenizer.
    """
    message = _model_proto(tokenizer)
    if message is not None:
        if add_special_tokens:
            raise ValueError("a SentencePiece model does not specify special tokens to add")
        try:
            return _hash(_of_sentencepiece(message))
        except (AttributeError, KeyError, TypeError):  # a field is missing or has another type
            raise ValueError("tokenizer.model: the file is damaged") from None
    definition = _definition(tokenizer)
    if special_as_text is None:
        special_as_text = bool(getattr(_backend(tokenizer), "encode_special_tokens", False))
    definition["special_as_text"] = special_as_text
    template = definition.pop("template")
    if add_special_tokens and template:
        definition["special_tokens"] = template
    return _hash(definition)


def _hash(definition: dict[str, Json]) -> str:
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _backend(tokenizer: object) -> object:
    return getattr(tokenizer, "backend_tokenizer", tokenizer)


def _definition(tokenizer: object) -> dict[str, Json]:
    """Returns what determines the ids, in the form that is hashed, and the post-processor's template."""
    if isinstance(tokenizer, str) and tokenizer.lstrip().startswith("{"):
        return _of_content(_parse(tokenizer))
    if isinstance(tokenizer, (str, os.PathLike)):
        path = Path(tokenizer)
        path = path / "tokenizer.json" if path.is_dir() else path
        return _of_content(_parse(path.read_text(encoding="utf-8")))
    if isinstance(tokenizer, Mapping):
        return _of_content(tokenizer, score=lambda number: _reference_float(repr(number)))
    if hasattr(tokenizer, "_mergeable_ranks"):
        return _of_ranks(tokenizer)
    backend = _backend(tokenizer)
    if not hasattr(backend, "to_str"):
        raise TypeError(
            f"cannot compute the fingerprint of a {type(tokenizer).__name__}: want a tokenizer.json, a "
            "tokenizer.model, a tokenizers.Tokenizer, a fast tokenizer of transformers, a tiktoken.Encoding or a "
            "sentencepiece.SentencePieceProcessor"
        )
    content = _parse(backend.to_str(), float)
    if backend is not tokenizer:
        content.update(truncation=None, padding=None)
    return _of_content(content, assigned=True)


def _reference_float(text: str) -> float:
    """Returns a JSON number as the reference reads it from a file: not always the nearest floating-point number."""
    number, _, power = text.lower().partition("e")
    whole, _, fraction = number.lstrip("-").partition(".")
    digits, exponent, full = 0, int(power or 0), False
    for i, digit in enumerate(whole + fraction):
        full = full or digits * 10 + int(digit) >= 1 << 64  # further digits do not count
        if not full:
            digits = digits * 10 + int(digit)
            exponent -= i >= len(whole)
        else:
            exponent += i < len(whole)
    value = float(digits)
    if exponent < -308:
        value, exponent = value / 1e308, exponent + 308
    value = value / float(f"1e{-exponent}") if exponent < 0 else value * float(f"1e{exponent}")
    return -value if text.startswith("-") else value


def _parse(text: str, number: Callable[[str], float] = _reference_float) -> dict[str, Json]:
    def refuse(constant: str) -> float:
        raise ValueError(f"tokenizer.json: {constant} is not JSON")

    content = json.loads(text, parse_constant=refuse, parse_float=number)
    if not isinstance(content, dict):
        raise ValueError("tokenizer.json: want an object")
    return content


# --- tokenizer.json ---------------------------------------------------------------------------------------------------


def _of_content(
    content: Mapping[str, Json], assigned: bool = False, score: Callable[[Json], float] = float
) -> dict[str, Json]:
    """Returns the definition of a tokenizer.json.

    With assigned, added tokens keep their ids; otherwise the ids in the file are ignored. score returns the
    reference's score of a number.
    """
    model = content.get("model")
    if not isinstance(model, Mapping) or not isinstance(model.get("vocab"), (Mapping, Sequence)):
        raise ValueError("tokenizer.json: want a model with a vocabulary")
    definition = {
        "version": VERSION,
        "normalizer": _components(content.get("normalizer")),
        "pre_tokenizer": _components(content.get("pre_tokenizer")),
        "added_tokens": _added(content.get("added_tokens") or [], model["vocab"], assigned),
        "template": _template(content.get("post_processor")),
        **_model(model, score),
    }
    definition.update({k: content[k] for k in ("truncation", "padding") if content.get(k) is not None})
    return definition


def _components(component: Json) -> list[Json]:
    """Returns a normalizer or pre-tokenizer as a flat list without sequences.

    Each component has only its non-default fields.
    """
    if component is None:
        return []
    kind = component["type"]
    if kind == "Sequence":
        parts = component["normalizers"] if "normalizers" in component else component["pretokenizers"]
        return [c for part in parts for c in _components(part)]
    fields = {k: v for k, v in component.items() if v is not None}
    if kind == "Metaspace" and fields.get("add_prefix_space") is False:  # the spelling before prepend_scheme
        fields.setdefault("prepend_scheme", "never")
    if kind in COMPONENTS:
        defaults = COMPONENTS[kind]
        fields = {k: fields[k] for k, v in defaults.items() if k in fields and fields[k] != v}
    out = {**fields, "type": kind}
    if kind == "ByteLevel" and out == {"type": "ByteLevel", "add_prefix_space": False}:
        return _split_bytes(GPT2_PATTERN)
    return [out]


def _split_bytes(pattern: str) -> list[Json]:
    """Splits words by a pattern, then maps bytes to characters."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    return [split, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]


def _added(tokens: Iterable[Mapping[str, Json]], vocab: Json, assigned: bool) -> list[Json]:
    """Returns [id, content, flags...] ordered by id.

    Ids in a file are ignored: a token has its id in the vocabulary. Other tokens are numbered in order, starting at the
    size of the vocabulary.
    """
    ids = vocab if isinstance(vocab, Mapping) else {piece: i for i, (piece, _) in enumerate(vocab)}
    following, seen, out = len(vocab), set(), []
    for token in tokens:
        content = token["content"]
        if content == "" or content in seen:
            continue
        seen.add(content)
        number = token["id"] if assigned else ids.get(content)
        if number is None:
            number, following = following, following + 1
        out.append([number, content, *(token[flag] for flag in ADDED_FLAGS)])
    return sorted(out)


def _model(model: Mapping[str, Json], score: Callable[[Json], float]) -> dict[str, Json]:
    kind = model.get("type") or _untyped(model)
    if kind == "BPE":
        merges = [_pair(m) for m in model["merges"] if not (isinstance(m, str) and m.startswith("#version"))]
        options = {k: v for k, v in model.items() if k in BPE_OPTIONS and v not in (None, False, "")}
        return _bpe(options, model["vocab"], merges)
    options = {k: v for k, v in model.items() if k != "vocab" and v is not None}
    if kind == "Unigram":
        pieces = [[piece, struct.pack(">d", score(number)).hex()] for piece, number in model["vocab"]]
        return {"model": {**options, "type": kind}, "vocab": pieces}
    return {"model": {**options, "type": kind}, "vocab": _by_id(model["vocab"])}


def _untyped(model: Mapping[str, Json]) -> str:
    """Returns the type of a model from a file older than the field `type`."""
    if "merges" in model:
        return "BPE"
    if not isinstance(model["vocab"], Mapping):
        return "Unigram"
    return "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"


def _pair(merge: Json) -> Pair:
    """Returns a merge in either spelling, "a b" or ["a", "b"], as a pair."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if len(parts) != 2:
        raise ValueError(f"tokenizer.json: merge {merge!r}: want two parts")
    return parts[0], parts[1]


def _template(processor: Json) -> Json:
    """Returns [[ids before], [ids after]] of a text.

    Returns None if both are empty, and the processor itself if a template cannot express it.
    """
    adding = []
    for part in _processors(processor):
        template = [[], []] if part["type"] == "ByteLevel" else _around(part)
        if template is None:
            return processor
        if any(template):
            adding.append(template)
    if len(adding) > 1:  # the second also adds to each token that the first adds
        return processor
    return adding[0] if adding else None


def _around(processor: Json) -> list[list[int]] | None:
    if processor["type"] in ("BertProcessing", "RobertaProcessing"):
        return [[processor["cls"][1]], [processor["sep"][1]]]
    if processor["type"] != "TemplateProcessing":
        return None
    ids = {name: token["ids"] for name, token in processor["special_tokens"].items()}
    pieces = [ids[piece["SpecialToken"]["id"]] if "SpecialToken" in piece else None for piece in processor["single"]]
    if pieces.count(None) != 1:
        return None
    at = pieces.index(None)
    return [[i for piece in pieces[:at] for i in piece or []], [i for piece in pieces[at + 1 :] for i in piece or []]]


def _processors(processor: Json) -> list[Json]:
    if processor is None:
        return []
    if processor["type"] == "Sequence":
        return [q for p in processor["processors"] for q in _processors(p)]
    return [processor]


# --- rank files -------------------------------------------------------------------------------------------------------


def _of_ranks(encoding: Any) -> dict[str, Json]:
    ranks: Mapping[bytes, int] = encoding._mergeable_ranks
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    alphabet = {b: chr(b) for b in printable}
    alphabet.update({b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in alphabet)})
    vocab = {"".join(alphabet[b] for b in token): rank for token, rank in ranks.items()}
    none = 1 + max(vocab.values(), default=0)  # above every rank, because ranks may have gaps
    found = (_last(lambda a, b: vocab.get(a + b, none), none, token) for token in sorted(vocab, key=vocab.__getitem__))
    merges = [pair for pair in found if pair]
    special: Mapping[str, int] = encoding._special_tokens
    return {
        "version": VERSION,
        "normalizer": [],
        "pre_tokenizer": _split_bytes(_spelled(encoding._pat_str, ranks)),
        "added_tokens": sorted([i, content, False, False, False, False, True] for content, i in special.items()),
        "template": None,
        **_bpe({"ignore_merges": True}, vocab, merges),
    }


def _spelled(pattern: str, ranks: Iterable[bytes]) -> str:
    """Returns a pattern of tiktoken in the spelling of tokenizer.json files if both give the same ids.

    The pattern of cl100k_base keeps white space at the end of a text together. That matters only if a token extends
    past a newline into other white space.
    """
    if pattern == TIKTOKEN_GPT2:
        return GPT2_PATTERN
    if pattern == TIKTOKEN_CL100K and not any(SPACE_PAST_NEWLINE.search(t.decode("utf-8", "replace")) for t in ranks):
        return CL100K_PATTERN
    return pattern


# --- SentencePiece ----------------------------------------------------------------------------------------------------


def _model_proto(tokenizer: object) -> bytes | None:
    """Returns the content of a SentencePiece model, or None for another tokenizer."""
    if hasattr(tokenizer, "serialized_model_proto"):
        return bytes(tokenizer.serialized_model_proto())
    if isinstance(tokenizer, (str, os.PathLike)) and not str(tokenizer).lstrip().startswith("{"):
        path = Path(tokenizer)
        content = path.read_bytes() if path.is_file() else b""
        if content.startswith(b"\n") and not content.lstrip().startswith((b"{", b"\xef")):  # the first piece
            return content
    return None


KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


def _of_sentencepiece(message: bytes) -> dict[str, Json]:
    """Returns the definition of a ModelProto."""
    trainer: dict[int, Json] = {}
    normalizer: dict[int, Json] = {}
    vocab = []
    for number, value in _fields(message):
        if number == 1:
            piece = dict(_fields(value))
            kind = piece.get(3, 1)
            vocab.append([piece[1].decode(), piece.get(2, b"\0\0\0\0")[::-1].hex(), kind if 1 <= kind <= 6 else 1])
        elif number in (2, 3):
            (trainer if number == 2 else normalizer).update(_fields(value))
    fallback = bool(trainer.get(35, 0))
    for entry in vocab:
        if entry[0] == "\0" and fallback:
            entry[2] = 5
    model = {
        "type": "SentencePiece",
        "kind": KINDS.get(trainer.get(3, 1), "unigram"),
        "charsmap": hashlib.sha256(normalizer.get(2, b"")).hexdigest(),
        "byte_fallback": fallback,
        "treat_whitespace_as_suffix": bool(trainer.get(24, 0)),
        "add_dummy_prefix": bool(normalizer.get(3, 1)),
        "remove_extra_whitespaces": bool(normalizer.get(4, 1)),
        "escape_whitespaces": bool(normalizer.get(5, 1)),
    }
    return {"version": VERSION, "model": model, "vocab": vocab}


def _fields(message: bytes) -> Iterator[tuple[int, Json]]:
    """Yields number and value of the fields of a protobuf message: an integer, or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if message[at - 1] < 128:
                return value

    try:
        while at < len(message):
            tag = varint()
            if tag & 7 == 0:
                yield tag >> 3, varint()
                continue
            size = {1: 8, 5: 4}.get(tag & 7) or varint()
            at += size
            if at > len(message):
                raise IndexError
            yield tag >> 3, message[at - size : at]
    except IndexError:
        raise ValueError("tokenizer.model: the file is cut short or damaged") from None


# --- byte pair encoding -----------------------------------------------------------------------------------------------

BPE_OPTIONS = (
    "dropout",
    "unk_token",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
)
BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")


def _bpe(options: dict[str, Json], vocab: Mapping[str, int], merges: Iterable[Pair]) -> dict[str, Json]:
    """Returns model, vocabulary and merges, without merges that never apply and without unreachable entries."""
    ordered = list(dict.fromkeys(reversed(list(merges))))[::-1]  # of equal merges the last counts
    out: dict[str, Json] = {"model": {**options, "type": "BPE"}, "vocab": _by_id(vocab), "merges": ordered}
    byte_tokens = bool(options.get("byte_fallback"))
    unknown = options.get("unk_token")
    if any(k in options for k in ("dropout", "continuing_subword_prefix", "end_of_word_suffix")):
        return out
    if any(p == "" or p == unknown or (byte_tokens and BYTE_TOKEN.fullmatch(p)) for pair in ordered for p in pair):
        return out
    done = _done(ordered)
    reached = {a + b for a, b in done}
    reached.update(t for t in vocab if len(t) == 1)
    if options.get("ignore_merges") and any(t not in reached for t in vocab):
        reached.update(vocab)
    else:
        out["model"].pop("ignore_merges", None)
    reached.update(t for t in vocab if t == unknown or (byte_tokens and BYTE_TOKEN.fullmatch(t)))
    out.update(vocab=_by_id({t: i for t, i in vocab.items() if t in reached}), merges=done)
    return out


def _by_id(vocab: Mapping[str, int]) -> list[Json]:
    return sorted([i, token] for token, i in vocab.items())


_APPLIES: dict[bytes, bytes] = {}
"""By the digest of a tokenizer's merges: whether each can apply. It takes seconds to compute."""


def _done(merges: Sequence[Pair]) -> list[Pair]:
    """Returns the merges that can apply: each is the last merge when the characters of its result are merged.

    Where a merge applies in a longer text, nothing has been joined across the borders of its result before. The merges
    within are therefore the same.
    """
    digest = hashlib.sha256("".join(f"{len(a)} {len(b)} {a}{b}" for a, b in merges).encode("utf-8", "surrogatepass"))
    applies = _APPLIES.get(digest.digest())
    if applies is None:
        rank = {pair: k for k, pair in enumerate(merges)}
        none = len(rank)
        last: dict[str, Pair | None] = {}
        for a, b in merges:
            if a + b not in last:
                last[a + b] = _last(lambda a, b: rank.get((a, b), none), none, a + b)
        applies = _APPLIES[digest.digest()] = bytes(last[a + b] == (a, b) for a, b in merges)
    return [pair for pair, applied in zip(merges, applies, strict=True) if applied]


def _last(rank: Callable[[str, str], int], none: int, text: str) -> Pair | None:
    """Returns the merge that joins all characters of a text into one token, or None.

    The merge of lowest rank is applied first, and the leftmost of equal ranks; none is the rank of a pair that is not a
    merge.
    """
    tokens = list(text)
    ranks = list(map(rank, tokens, tokens[1:]))
    while len(tokens) > 2:
        lowest = min(ranks)
        if lowest == none:
            return None
        i = ranks.index(lowest)
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
        del ranks[i]
        if i < len(ranks):
            ranks[i] = rank(tokens[i], tokens[i + 1])
        if i > 0:
            ranks[i - 1] = rank(tokens[i - 1], tokens[i])
    return (tokens[0], tokens[1]) if len(tokens) == 2 and rank(tokens[0], tokens[1]) != none else None
