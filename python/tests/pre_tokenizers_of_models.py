"""The pre-tokenizers of published byte-level BPE files, as in their tokenizer.json."""

from __future__ import annotations

from typing import Any

PreTokenizer = dict[str, Any]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| "
    r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LING = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
NANOCHAT = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
SEED = (
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| "
    "?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
MINICPM5 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
)
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = CASED % (CONTRACTION, CONTRACTION) + r"|\p{N}{1,3}" + REST
O200K_ONE_DIGIT = CASED % (CONTRACTION, CONTRACTION) + r"|\p{N}" + REST
TEKKEN = CASED % ("", "") + r"|\p{N}" + REST
KIMI = (
    r"[\p{Han}]+|"
    + CASED.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]") % (CONTRACTION, CONTRACTION)
    + r"|\p{N}{1,3}"
    + REST.replace("/", "")
)
EXAONE_MOE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
NO_CONTRACTIONS = QWEN2.split("|", 7)[-1]
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
FINNISH = " ?[^(\\s|.,!?…。，、।۔،)]+"
DEEPSEEK3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
SPARK = DEEPSEEK3.replace("+[\r\n]*|\\s*[\r\n]+", "+|[\r\n]")
THREES = r"(?=(\d{3})+(?!\d))"
SUPERBPE = THREES + r"| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
THREES_OF_WORDS = r"\d{1,3}(?=(?:\d{3})*\b)"
KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK_CASED = """
41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376-377 37b-37d 37f 386 388-38a 38c 38e-3a1 3a3-3f5
3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15
1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3
1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 2139
213c-213f 2145-2149 214e 2183-2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2-2cf3 a640-a66d a680-a69b a722-a76f a771-a787
a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2
118a0-118df 1e900-1e943
"""
DEEPSEEK_LETTERS = r"\s?[{}]+".format(
    "".join("-".join(chr(int(c, 16)) for c in r.split("-")) for r in DEEPSEEK_CASED.split())
)
DEEPSEEK_MARKS = "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"
DEEPSEEK_IDEOGRAPHS = "[一-龥ࠀ-一가-\ud7ff]+"
YOUTU = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"


def split(regex: str, behavior: str = "Isolated", invert: bool = False) -> PreTokenizer:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def digits(individual: bool) -> PreTokenizer:
    return {"type": "Digits", "individual_digits": individual}


def byte_level(prefix_space: bool = False, use_regex: bool = False) -> PreTokenizer:
    return {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": use_regex}


def sequence(*parts: PreTokenizer) -> PreTokenizer:
    return {"type": "Sequence", "pretokenizers": list(parts)}


GPT2_LEVEL = byte_level(use_regex=True)

# model -> the pre-tokenizers that split its text, without ByteLevel unless it splits too.
MODELS: dict[str, list[PreTokenizer]] = {
    "gpt2, gpt-neox, pythia, olmo, phi, mpt, jais": [GPT2_LEVEL],
    "starcoder, command-r, smollm, exaone, minerva": [digits(True), GPT2_LEVEL],
    "digits together": [digits(False), GPT2_LEVEL],
    "falcon": [{"type": "Punctuation", "behavior": "Contiguous"}, GPT2_LEVEL, digits(False), split("[0-9][0-9][0-9]")],
    "llama3, glm4, dbrx, granite4, olmo2, phi4": [split(LLAMA3)],
    "gpt4": [split(LLAMA3, "Removed", invert=True)],
    "qwen2, qwen3, stablelm2, grok2": [split(QWEN2)],
    "qwen3.5": [split(QWEN35)],
    "ling": [split(LING)],
    "nanochat": [split(NANOCHAT)],
    "seed-coder": [split(SEED)],
    "minicpm5": [split(r"\p{N}{1,3}"), split(MINICPM5)],
    "gpt-oss, llama4": [split(O200K)],
    "gpt4o": [split(O200K, "Removed", invert=True)],
    "youtu": [split(YOUTU), split(O200K_ONE_DIGIT)],
    "mistral-nemo, nemotron": [split(TEKKEN)],
    "kimi-k2": [split(KIMI)],
    "exaone-moe": [split(EXAONE_MOE)],
    "no contractions": [split(NO_CONTRACTIONS)],
    "bloom": [split(BLOOM)],
    "viking": [split(FINNISH), digits(True)],
    "deepseek-v3, hunyuan": [split(r"\p{N}{1,3}"), split(KANA), split(DEEPSEEK3)],
    "superbpe": [digits(False), split(SUPERBPE)],
    "superbpe without words": [split(r"\p{N}+"), split(THREES)],
    "threes before a word's end": [split(r"\d{1,510}"), split(THREES_OF_WORDS), split(KANA), split(DEEPSEEK3)],
    "threes of any word": [split(r"\d{1,3}(?=(\d{3})*\b)", "Contiguous"), split(r"\b[a-z]+\b|\B\p{L}")],
    "spark2.5": [split(r"\p{N}{1,3}"), split(KANA), split(SPARK), digits(True)],
    "deepseek-coder": [
        *(split(p) for p in ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_IDEOGRAPHS)),
        digits(True),
    ],
    "deepseek-llm, deepseek-v2": [
        *(split(p) for p in ("[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, r"\s+$", DEEPSEEK_IDEOGRAPHS)),
        digits(True),
    ],
}
