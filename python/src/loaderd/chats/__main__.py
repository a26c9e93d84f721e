"""Publishes chats and instructions of files and data sets, rendered by a tokenizer's chat template.

A row has `messages` (OpenAI), `conversations` (ShareGPT), `prompt` and `completion`, `instruction` and `output`
(Alpaca), or `input_ids` with masks (TRL, Megatron-Bridge). Files are JSON lines, JSON arrays (also .gz, .zst), Parquet,
Arrow IPC, packed .npy, and token_ids*.npy of OLMo-core with their masks and boundaries; folders may be saved by
datasets' save_to_disk. The same command resumes after an interruption, and publishes each row once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loaderd import TLS
from loaderd.chats._inputs import ChatRows, Place
from loaderd.chats._rows import RowOptions
from loaderd.chats._token_batches import TokenizedRows
from loaderd.errors import LoaderdError
from loaderd.fingerprint import fingerprint
from loaderd.producer import Chat, InvalidDocumentError, publish
from loaderd.producer._dropped import Dropped
from loaderd.producer._message import Encoder
from loaderd.producer._publisher import NATS
from loaderd.producer._stream_readers import UNDECODABLE

EXAMPLES = 3
"""Examples of each kind of problem that are printed."""
_OPTIONS = {
    "token=, the content of": "--token-file, a file with the content of",
    "(template=)": "(--template)",
    'turns="last"': "--turns last",
    "Chat(tokenizer, as_tokens=True)": "--as-tokens",
}
"""Arguments of Python that errors name, and the options of the command in their place."""


@dataclass
class Report:
    """Invalid rows and dropped texts."""

    place: Place
    """Where the current document is."""
    skip_invalid: bool
    dropped: str
    invalid_to: Path | None
    invalid: int = 0
    chats: int = 0
    """Chats with dropped texts."""
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def on_dropped(self, found: Sequence[Dropped]) -> None:
        """Counts the texts of a chat that the template drops.

        Raises:
            InvalidDocumentError: If such chats are rejected.
        """
        if self.dropped == "reject":
            raise InvalidDocumentError(f"the template omits {found[0]}")
        self.chats += 1
        for text in found:
            self.kinds[text.kind] += 1
            self._example(f"dropped {text.kind}", f"{self.place}: {text}")

    def on_reject(self, error: InvalidDocumentError) -> None:
        """Reports an invalid row.

        Raises:
            InvalidDocumentError: If invalid rows are not skipped.
        """
        place, reason = self.place, _with_options(error)
        if not self.skip_invalid:
            raise InvalidDocumentError(f"{place}: {reason} (--skip-invalid skips and counts such rows)") from error
        self.invalid += 1
        self._example("invalid", f"{place}: {reason}")
        if self.invalid_to is not None:
            row = {"file": place.file, "row": place.row, "reason": reason}
            with self.invalid_to.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")

    def _example(self, kind: str, line: str) -> None:
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(line)

    def print(self) -> None:
        """Prints counts and examples to standard error."""
        if self.invalid:
            print(f"skipped {self.invalid:,} invalid rows, the first:", file=sys.stderr)
            self._print("invalid")
        for kind, count in self.kinds.items():
            print(f"the template dropped {count:,} texts ({kind}), the first:", file=sys.stderr)
            self._print(f"dropped {kind}")

    def _print(self, kind: str) -> None:
        for line in self.examples[kind]:
            print(f"  {line}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        The exit status: 0, 1 for an error, 3 if a run could not decode documents.
    """
    args = _parser().parse_args(arguments)
    try:
        return _run(args)
    except (LoaderdError, ValueError, OSError, ImportError) as error:
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        print(f"error: {_with_options(error)}{notes}", file=sys.stderr)
        return 1


def _with_options(error: Exception) -> str:
    text = str(error)
    for argument, option in _OPTIONS.items():
        text = text.replace(argument, option)
    return text


def _run(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    options = RowOptions(
        rename=dict(args.column),
        id=args.id_column,
        meta=args.meta,
        tools=args.tools,
        reasoning=args.reasoning,
        arguments=args.tool_arguments,
        roles=args.roles,
        vocabulary=len(tokenizer),
    )
    rows = ChatRows(args.files, options, args.split, args.config)
    report = Report(rows.place, args.skip_invalid, args.dropped, args.invalid_to)
    chat = _chat(args, tokenizer, report)
    documents = rows if chat is None or not chat.as_tokens else TokenizedRows(rows, chat)
    if args.dry_run:
        encoder = Encoder(args.source, fingerprint=fingerprint(tokenizer), chat=chat)
        return _dry_run(documents, encoder, report, args.show)
    try:
        done = publish(
            documents,
            args.daemon,
            source=args.source,
            name=args.name or args.source,
            tokenizer=tokenizer,
            chat=chat,
            on_reject=report.on_reject,
            subject=args.subject,
            gather=args.gather,
            token=args.token_file.read_text(encoding="utf-8").strip() if args.token_file else None,
            tls=TLS(ca=args.tls_ca) if args.tls_ca else None,
        )
    finally:
        report.print()
    print(f"published {done.documents:,} documents ({done.bytes:,} bytes), skipped {report.invalid:,} invalid rows")
    return 3 if any(UNDECODABLE in run.skipped for run in done.runs) else 0


def _tokenizer(name: str) -> Any:
    """Returns the tokenizer of a folder, a name on the Hub or a tokenizer.json."""
    try:
        import transformers
    except ImportError:
        raise ImportError("chats require the package transformers: pip install transformers jinja2") from None
    if name.endswith(".json"):
        return transformers.PreTrainedTokenizerFast(tokenizer_file=name)  # type: ignore[no-untyped-call]
    return transformers.AutoTokenizer.from_pretrained(name)


def _chat(args: argparse.Namespace, tokenizer: Any, report: Report) -> Chat | None:
    """Returns what renders chats; None for a tokenizer without a template, whose rows are token ids or texts."""
    template = args.template.read_text(encoding="utf-8") if args.template else None
    if template is None and not tokenizer.chat_template:
        return None
    given = dict(args.template_arg)
    if "strftime_now" in str(template or tokenizer.chat_template) and "date_string" not in given:
        print("warning: the template may insert today's date; --template-arg date_string=... sets it", file=sys.stderr)
    if args.thinking is not None:
        given["enable_thinking"] = args.thinking == "on"
    return Chat(
        tokenizer,
        template=template,
        turns=args.turns,
        roles=args.roles,
        as_tokens=args.as_tokens,
        refuse_special=args.refuse_special,
        on_dropped=None if args.dropped == "ignore" else report.on_dropped,
        **given,
    )


def _dry_run(rows: Iterable[Any], encoder: Encoder, report: Report, show: int) -> int:
    """Reads and renders all rows, and prints the first documents."""
    count = size = 0
    try:
        for position, document in enumerate(rows):
            try:
                if isinstance(document, InvalidDocumentError):
                    raise document
                message = encoder.encode(document, position)
            except InvalidDocumentError as error:
                report.on_reject(error)
                continue
            count, size = count + 1, size + len(message.payload)
            if count <= show:
                print(f"{report.place}: {message.payload.decode('utf-8', 'replace')}")
    finally:
        report.print()
    print(f"{count:,} documents, {size:,} bytes; {report.invalid:,} rows are invalid")
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r}: want NAME=VALUE")
    return name, value


def _argument(text: str) -> tuple[str, Any]:
    """Returns an argument of a template, whose value is JSON or a text."""
    name, value = _pair(text)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loaderd.chats", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="file, folder, or hf://datasets/OWNER/NAME[@REVISION]")
    add("--tokenizer", required=True, help="folder, name on the Hub, or tokenizer.json")
    add("--source", required=True, help="source of the documents")
    add("--name", help="permanent name of the input, by which it resumes (default: the source)")
    add("--dry-run", action="store_true", help="read and render all rows, publish nothing")
    add("--show", type=int, default=1, metavar="N", help="documents that --dry-run prints (1)")

    group = parser.add_argument_group("rows")
    add = group.add_argument
    add("--split", default="train", help="split of a data set (train)")
    add("--config", help="configuration of a data set of the Hub")
    add("--column", type=_pair, action="append", default=[], metavar="NAME=COLUMN", help="read NAME from COLUMN")
    add("--id-column", metavar="COLUMN", help="column of the documents' ids")
    add("--meta", type=lambda text: text.split(","), default=[], metavar="COLUMNS", help="columns to keep as values")
    add("--skip-invalid", action="store_true", help="skip and count invalid rows instead of ending")
    add("--invalid-to", type=Path, metavar="FILE", help="append file, row and reason of skipped rows as JSON lines")
    add("--reasoning", choices=("keep", "drop"), default="keep", help="reasoning of messages (keep)")
    add("--tools", choices=("keep", "drop", "reject"), default="keep", help="tools, tool calls and results (keep)")
    add(
        "--tool-arguments",
        choices=("object", "keep"),
        default="object",
        help="parse arguments of tool calls that are JSON texts (object)",
    )

    group = parser.add_argument_group("rendering and losses")
    add = group.add_argument
    add("--template", type=Path, metavar="FILE", help="chat template instead of the tokenizer's")
    add("--template-arg", type=_argument, action="append", default=[], metavar="NAME=JSON", help="template argument")
    add("--thinking", choices=("on", "off"), help="template argument enable_thinking")
    add("--turns", choices=("all", "last"), default="all", help="turns with a loss (all)")
    add(
        "--roles",
        type=lambda text: tuple(text.split(",")),
        default=("assistant",),
        help="roles with a loss, for templates without marks (assistant)",
    )
    add(
        "--dropped",
        choices=("report", "reject", "ignore"),
        default="report",
        help="texts that the template drops (report)",
    )
    add("--refuse-special", action="store_true", help="special tokens spelled out in messages are invalid")
    add("--as-tokens", action="store_true", help="publish token ids instead of texts")
    add("--gather", type=int, default=1, metavar="N", help="documents of token ids per message (1)")

    group = parser.add_argument_group("server")
    add = group.add_argument
    add("--daemon", default=NATS, metavar="URL", help=f"NATS address of the daemon ({NATS})")
    add("--subject", default="docs", help="stream.subject of the daemon (docs)")
    add("--token-file", type=Path, metavar="FILE", help="producer token")
    add("--tls-ca", metavar="FILE", help="certificate authorities of the server")
    return parser


if __name__ == "__main__":
    sys.exit(main())
