"""examples/sft.py: chats among texts, trained on with their losses and weights, killed and resumed, until it gives
the learned answers."""

import re
from typing import Any

import numpy as np
import yaml

import loaderd
from jobs import EXAMPLES, killed, run
from scale import everything

SAVE, KILLED = 5, ("step 3 ", "step 8 ", "step 117 ")  # before its first checkpoint, after one, and after several
STEP = re.compile(r"^step \d+ chats (\S+) of (\d+) text (\S+) of (\d+) labels (\d+) loss (\S+)$", re.M)
ANSWER = re.compile(
    r"^backwards: (\w+) -> (.*)  \(mean loss per token: (\S+) in the answer, (\S+) in the prompt, not trained on\)$",
    re.M,
)


def flat(settings: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Returns settings of a configuration file in the form of --set."""
    out: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            out |= flat(value, f"{above}{name}.")
        else:
            out[above + name] = ",".join(map(str, value)) if isinstance(value, list) else value
    return out


def steps(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("step ")]


@everything
def test_killed_and_resumed_it_learns_the_answers_alone(daemon, tmp_path, monkeypatch):
    """Every step has the losses of an undisturbed run, to the last digit. Two ranks train equally."""
    configured = flat(yaml.safe_load((EXAMPLES / "sft.yaml").read_text()))
    run("sft_documents.py", "tokenizer", "--file", tmp_path / "tokenizer.json")
    settings = {
        **configured,
        "tokenizer.name": tmp_path / "tokenizer.json",
        "log.level": "warn",
        "serve.checkpoint_steps": 7,
        "serve.stall_timeout": "30s",
    }
    d = daemon(settings)
    assert run("sft_documents.py", "publish", "--nats", d.nats_url) == "published 2000 chats and 1000 texts\n"
    with loaderd.Client(d.flight_url) as client:
        client.seal()

    args = ("--url", d.flight_url)
    saving = (*args, "--checkpoint", tmp_path / "sft.pt", "--save-every", SAVE)
    outputs = []
    for until in KILLED:
        outputs.append(killed("sft.py", *saving, until=until))
    outputs.append(run("sft.py", *saving))
    undisturbed = run("sft.py", *args)
    begin = int(outputs[-1].partition("\n")[0].removeprefix("resumed at step "))
    assert begin >= 115 and begin % SAVE == 0
    expected = steps(undisturbed)
    for output in outputs:
        some = steps(output)
        first = int(some[0].split()[1]) - 1 if some else 0
        assert some == expected[first : first + len(some)]
    assert {line for output in outputs for line in steps(output)} == set(expected)
    assert ANSWER.findall(outputs[-1]) == ANSWER.findall(undisturbed) and len(ANSWER.findall(undisturbed)) == 3

    monkeypatch.syspath_prepend(EXAMPLES)
    import sft_documents

    told = [tuple(map(float, numbers)) for numbers in STEP.findall(undisturbed)]
    assert len(told) == len(expected)
    for of_chats, chats, of_text, text, labels, loss in told:
        assert chats + text == labels
        assert loss < (of_chats * chats + of_text * text) / labels  # lazy answers count less
    answers = [chat["messages"][-1]["content"] for chat in sft_documents.chats(2000)]
    epochs = configured["sources.chats.epochs"]
    with loaderd.Client(d.flight_url, sources=True, weights=True, job="count") as client:
        read = [(step.source_counts, set(step.sources.weight.tolist())) for step in client]
    # With both end tokens.
    assert sum(counts["chats"].loss_tokens for counts, _ in read) == epochs * sum(len(a) + 2 for a in answers)
    assert set.union(*(weights for _, weights in read)) == {1.0, float(np.float32(0.1))}
    for (_, chats, _, text, *_), (counts, _) in zip(told, read, strict=False):
        assert chats == counts["chats"].loss_tokens
        # The first token of each has no label.
        assert text < counts["text"].loss_tokens if "text" in counts else text == 0

    assert len(expected) == len(read)
    for word, said, of_answer, of_prompt in ANSWER.findall(undisturbed):
        assert said == word[::-1] + "<|end|>"
        assert float(of_answer) < 0.5 and float(of_prompt) > 3
    two = run("sft.py", *args, world=2)
    counts = [[(m[1], m[3], m[4]) for m in STEP.findall(output)] for output in (undisturbed, two)]
    assert counts[0] == counts[1]
    assert [said for _, said, _, _ in ANSWER.findall(two)] == [said for _, said, _, _ in ANSWER.findall(undisturbed)]
