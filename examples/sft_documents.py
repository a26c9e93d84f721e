"""Creates synthetic chats and texts for examples/sft.py, and a tokenizer for them.

    python examples/sft_documents.py tokenizer     # writes sft-tokenizer.json, which the daemon uses
    python examples/sft_documents.py publish       # with the daemon of examples/sft.yaml running

A user asks for a word backwards. Every second answer is a lazy one, which repeats the word; such chats have a weight of
a tenth.
"""

import argparse
import random
from collections.abc import Iterator

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import loaderd

UNSEEN = ("tomika", "sorabe", "lunefi")  # in no chat: prompts for the trained model

# As ChatML, but with a token per role. Text between the marks has a loss, including the end of the turn, so that the
# model learns to stop.
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{% generation %}{{ m.content }}<|end|>{% "
    "endgeneration %}"
    "{% else %}<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% "
    "endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer with a token per byte, those of the template, and the end-of-document token that the daemon
    appends.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytewise = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    bytewise.add_special_tokens(
        [AddedToken(t, normalized=False) for t in ("<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>")]
    )
    return PreTrainedTokenizerFast(tokenizer_object=bytewise, eos_token="<|endoftext|>", chat_template=TEMPLATE)


def question(word: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"backwards: {word}"}]


def word(draw: random.Random) -> str:
    made = "".join(draw.choice("bdfklmnrst") + draw.choice("aeiou") for _ in range(draw.choice((2, 3))))
    return made if made not in UNSEEN else word(draw)


def chats(count: int) -> Iterator[dict[str, object]]:
    draw = random.Random("chats")
    for k in range(count):
        asked, lazy = word(draw), k % 2 == 1
        answer = {"role": "assistant", "content": asked if lazy else asked[::-1]}
        yield {"messages": [*question(asked), answer], "weight": 0.1 if lazy else 1.0, "id": f"chat-{k}"}


def texts(count: int) -> Iterator[str]:
    draw = random.Random("texts")
    for _ in range(count):
        yield f"{word(draw)} met {word(draw)}, and they talked about {word(draw)}."


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("what", choices=("tokenizer", "publish"))
    flags.add_argument("--nats", default="nats://127.0.0.1:4222", help="address that documents are published to")
    flags.add_argument("--file", default="sft-tokenizer.json")
    args = flags.parse_args()
    if args.what == "tokenizer":
        make_tokenizer().backend_tokenizer.save(args.file)
    else:
        # With a name, stored documents are not sent again.
        chat = loaderd.Chat(make_tokenizer())
        sent = loaderd.publish(chats(2000), args.nats, source="chats", name="backwards", chat=chat)
        more = loaderd.publish(texts(1000), args.nats, source="text", name="met")
        print(f"published {sent.documents} chats and {more.documents} texts")
