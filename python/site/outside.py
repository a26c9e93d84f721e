"""Adds linked files outside docs/ as pages of the site: Markdown unchanged, other files as listings.

A hook of mkdocs.yml.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# README.md would be the index of its folder.
PAGES = {
    "README.md": "overview.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
}
ASSETS = ("loaderd.css", "iframe-worker.js")
LANGUAGES = {".py": "python", ".go": "go", ".yaml": "yaml", ".yml": "yaml", ".sh": "sh", ".json": "json"}

link = re.compile(r"\[([^][]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
fence = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    """Adds the files outside docs/, generated from ROOT, under the paths of on_page_markdown's links."""
    for name in ASSETS:
        files.append(File.generated(config, name, content=(ROOT / "python" / "site" / name).read_text()))
    for name, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text()))
    sources = [(f.src_uri, f.content_string) for f in files if f.src_uri.endswith(".md")]
    for name in sorted({name for uri, text in sources for name in outside(uri, text)}):
        path = ROOT / name
        if path.is_file() and name not in PAGES:
            page = File.generated(config, listing(name), content=listed(name, path.read_text()))
            page.inclusion = page.inclusion.NOT_IN_NAV
            files.append(page)
        elif path.is_dir():
            page = File.generated(config, listing(name), content=folder(name, path))
            page.inclusion = page.inclusion.NOT_IN_NAV
            files.append(page)
    return Files(files)


def on_page_markdown(markdown, page, config, files):
    """Redirects links that leave docs/ to the pages of their targets.

    A link text that is a file's name becomes the title of the page.
    """
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return markdown

    def point(match):
        text, to, anchor = match[1], match[2], match[3] or ""
        name = placed(uri, to)
        if name is None:
            return match[0]
        target = inside(name)
        if text.strip("`") in (to, name, posixpath.basename(name)) and target in titles:
            text = titles[target]
        return f"[{text}]({posixpath.relpath(target, posixpath.dirname(uri) or '.')}{anchor})"

    titles = dict(named(config.nav))
    parts, at = [], 0
    for block in fence.finditer(markdown):  # code is unchanged
        parts += [link.sub(point, markdown[at : block.start()]), block[0]]
        at = block.end()
    return "".join(parts) + link.sub(point, markdown[at:])


def named(nav):
    """Yields the pages of the navigation, each with its title there."""
    for entry in nav:
        for title, under in entry.items():
            if isinstance(under, str):
                yield under, title
            else:
                yield from named(under)


def placed(uri, to):
    """Returns the path below ROOT of a page's link, None for another host or the page itself.

    Pages of PAGES are in ROOT, all others in docs/.
    """
    if not to or "://" in to or to.startswith("mailto:"):
        return None
    home = "" if uri in PAGES.values() else "docs/" + posixpath.dirname(uri)
    return posixpath.normpath(posixpath.join(home, to))


def inside(name):
    """Returns the site's path of a path below ROOT."""
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return PAGES.get(name) or listing(name)


def outside(uri, text):
    """Yields the paths below ROOT, outside docs/, that a page links to."""
    for match in link.finditer(fence.sub("", text)):
        name = placed(uri, match[2])
        if name is not None and not name.startswith("docs/"):
            yield name


def listing(name):
    return f"source/{name}.md"


def listed(name, text):
    language = LANGUAGES.get(posixpath.splitext(name)[1], "text")
    return (
        f"---\ntitle: {name}\nhide: [toc]\nsearch: {{exclude: true}}\n---\n\n# "
        f"{name}\n\n````{language}\n{text.rstrip()}\n````\n"
    )


def folder(name, path):
    entries = "".join(
        f"- `{p.name}{'/' if p.is_dir() else ''}`\n"
        for p in sorted(path.iterdir())
        if not p.name.startswith((".", "__"))
    )
    return f"---\ntitle: {name}\nhide: [toc]\nsearch: {{exclude: true}}\n---\n\n# {name}\n\n{entries}"
