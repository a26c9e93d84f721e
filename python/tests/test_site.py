"""The site of docs/: it builds without a warning, every link and picture in it resolves, and no page loads anything
from another host."""

import os
import subprocess
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from environments import environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def mkdocs():
    return environment("docs") / "bin" / "mkdocs"


def build(mkdocs, folder, config=ROOT / "mkdocs.yml"):
    command = [mkdocs, "build", "--strict", "--config-file", config, "--site-dir", folder]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.fixture(scope="session")
def site(mkdocs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(mkdocs, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """The links of a page, what it loads, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.names, self.alone = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.names |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        elif tag == "link" and attrs.get("rel") not in ("prev", "next", "canonical"):
            self.loads.append(attrs["href"])
        elif attrs.get("src"):
            self.loads.append(attrs["src"])
        if tag == "img" and "alt" not in attrs:
            self.alone.append(attrs["src"])


def problems(folder):
    """Yields the faults of the pages of a folder, each with the page."""
    pages = {path: Page(path.read_text()) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        where = path.relative_to(folder)
        if path.name == "404.html":  # its links begin at the root of a server
            continue
        yield from (f"{where}: the picture {src} has no text" for src in page.alone)
        for to in page.links + page.loads:
            parts = urlsplit(to)
            if parts.scheme or parts.netloc:
                if to in page.loads:
                    yield f"{where} loads {to}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                yield f"{where} links to {to}: no such file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
                yield f"{where} links to {to}: no such place"


def test_links(site):
    assert list(problems(site)) == []
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() in pages
    assert {
        "overview.html",
        "ARCHITECTURE.html",
        "source/examples/train.py.html",
        "source/examples/splice.yaml.html",
    } <= pages


def test_every_public_name_is_on_the_page_of_the_python_api(site):
    page = Page((site / "reference" / "python.html").read_text())
    names = {name.rpartition(".")[2] for name in page.names if name.startswith("loaderd.")}
    for module in (
        "loaderd",
        "loaderd.torch",
        "loaderd.producer",
        "loaderd.chats",
        "loaderd.frozen",
        "loaderd.fingerprint",
    ):
        assert set(import_module(module).__all__) - names == set(), module


def test_no_page_asks_another_host(site):
    """Apart from links in pages: styles and scripts load nothing from other hosts either."""
    for path in site.rglob("*.css"):
        assert "url(http" not in path.read_text() and "@import" not in path.read_text(), path
    for path in site.rglob("*.html"):
        assert "unpkg.com" not in path.read_text(), path


def test_what_is_wrong_is_seen(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="sub/b.html#here">b</a><a href="gone.html">x</a><a href="#nowhere">y</a><a href="https://example.org">z</a>'
        '<img src="gone.png"><script src="https://example.org/x.js"></script><link rel="stylesheet" href="sub/b.html">'
    )
    (tmp_path / "sub" / "b.html").write_text(
        '<h1 id="here">B</h1><a href="../a.html#top">a</a><a href="../a.html#bottom">a</a>'
    )
    assert sorted(problems(tmp_path)) == [
        "a.html links to #nowhere: no such place",
        "a.html links to gone.html: no such file",
        "a.html links to gone.png: no such file",
        "a.html loads https://example.org/x.js",
        "a.html: the picture gone.png has no text",
        "sub/b.html links to ../a.html#bottom: no such place",
    ]


def test_a_broken_link_stops_the_build(mkdocs, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[x](#nowhere)\n")
    settings = (ROOT / "mkdocs.yml").read_text()
    validation = settings[settings.index("\nvalidation:") : settings.index("\nnav:")]
    (tmp_path / "mkdocs.yml").write_text(
        f"site_name: x\ntheme: {{name: material, font: false}}\nplugins: []\n{validation}"
    )
    done = build(mkdocs, tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode == 1 and "#nowhere" in done.stdout + done.stderr
