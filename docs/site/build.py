"""Builds the documentation site from docs/SUMMARY.md, and checks every link within the repository on the way.

    python docs/site/build.py OUTPUT

Chapters are Markdown files anywhere in the repository. A relative link to a chapter becomes a link to its page, a link
to another file or folder of the repository a page with its text. A link or an anchor that leads nowhere ends the build.
"""

import html
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import pygments
import pygments.formatters
import pygments.lexers
import pygments.util
from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUMMARY = ROOT / "docs" / "SUMMARY.md"
HERE = pathlib.Path(__file__).parent
FORMATTER = pygments.formatters.HtmlFormatter(nowrap=True)


def repository_path(base, target):
    """A relative link as a path below the repository's root."""
    return os.path.normpath(os.path.join(os.path.dirname(base), target))


def page_name(path):
    """README.md is the front page, README.md of a folder has the folder's name."""
    path = pathlib.PurePosixPath(path)
    stem = (path.parent.name or "index") if path.name == "README.md" else path.stem.lower()
    return f"{stem}.html"


def slug(text, seen):
    """The anchor of a heading, as GitHub makes it."""
    anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    count = seen.setdefault(anchor, 0)
    seen[anchor] += 1
    return anchor if count == 0 else f"{anchor}-{count}"


def plain(inline):
    """The text of a heading without its marks."""
    return "".join(token.content for token in inline.children if token.type in ("text", "code_inline"))


class Chapter:
    def __init__(self, part, title, path):
        self.part, self.title, self.path, self.page = part, title, path, page_name(path)
        self.tokens = MARKDOWN.parse((ROOT / path).read_text())
        self.headings = []
        seen = {}
        for opening, inline in zip(self.tokens, self.tokens[1:]):
            if opening.type == "heading_open":
                anchor = slug(plain(inline), seen)
                opening.attrSet("id", anchor)
                self.headings.append((int(opening.tag[1]), plain(inline), anchor))

    def anchors(self):
        return {anchor for _, _, anchor in self.headings}


def highlighted(text, language):
    """A listing with its colours; plain if the language has none."""
    try:
        lexer = pygments.lexers.get_lexer_by_name({"sh": "bash"}.get(language, language))
    except pygments.util.ClassNotFound:
        return html.escape(text)
    return pygments.highlight(text, lexer, FORMATTER)


def fence(text, language, _):
    return f'<pre><code class="language-{language or "text"}">{highlighted(text, language)}</code></pre>'


MARKDOWN = MarkdownIt("commonmark", {"html": True, "highlight": fence}).enable("table")


def chapters():
    """The chapters in the order of the summary. Pages of docs/ that are not in it come last."""
    part, found = "", []
    for line in SUMMARY.read_text().splitlines():
        if line.startswith("# "):
            part = line[2:]
        elif entry := re.fullmatch(r"- \[(.+)\]\((.+)\)", line):
            found.append(Chapter(part, entry[1], repository_path("docs/SUMMARY.md", entry[2])))
    listed = {chapter.path for chapter in found}
    for path in sorted((ROOT / "docs").glob("*.md")):
        name = f"docs/{path.name}"
        if path != SUMMARY and name not in listed:
            title = path.read_text().splitlines()[0].removeprefix("# ")
            found.append(Chapter("More", title, name))
    return found


class Site:
    def __init__(self, output):
        self.output = output
        self.chapters = chapters()
        self.by_path = {chapter.path: chapter for chapter in self.chapters}
        self.problems = []
        by_page = {}
        for chapter in self.chapters:
            other = by_page.setdefault(chapter.page, chapter)
            if other is not chapter:
                self.problems.append(f"{chapter.path} and {other.path} are both {chapter.page}: rename one")
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )
        self.files = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
        self.sources = set()

    def write(self, name, text):
        path = self.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def resolve(self, chapter, target):
        """Where a link of a chapter leads on the site."""
        if re.match(r"https?://", target):
            return target
        name, _, anchor = target.partition("#")
        path = repository_path(chapter.path, urllib.parse.unquote(name)) if name else chapter.path
        if other := self.by_path.get(path):
            if anchor and anchor not in other.anchors():
                self.problems.append(f"{chapter.path}: {target}: {path} has no heading with this anchor")
            return other.page + (f"#{anchor}" if anchor else "")
        if path in self.files and path.endswith((".svg", ".png")):
            (self.output / "pictures").mkdir(exist_ok=True)
            shutil.copy(ROOT / path, self.output / "pictures")
            return f"pictures/{pathlib.PurePosixPath(path).name}"
        is_folder = any(file.startswith(f"{path}/") for file in self.files)
        if path in self.files or is_folder:
            self.sources.add(path)
            return f"source/{path}.html"
        self.problems.append(f"{chapter.path}: {target}: the repository has no such file")
        return target

    def body(self, chapter):
        for token in chapter.tokens:
            for child in token.children or []:
                for attribute in ("href", "src"):
                    if target := child.attrGet(attribute):
                        child.attrSet(attribute, self.resolve(chapter, target))
        text = MARKDOWN.renderer.render(chapter.tokens, MARKDOWN.options, {})
        # What belongs together in a line of a table may be wider than a telephone.
        return text.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")

    def navigation(self, current, prefix=""):
        out, part = [], None
        for chapter in self.chapters:
            if chapter.part != part:
                part = chapter.part
                out.append(f"<h2>{html.escape(part)}</h2>")
            here = ' aria-current="page"' if chapter is current else ""
            out.append(f'<a href="{prefix}{chapter.page}"{here}>{html.escape(chapter.title)}</a>')
            if chapter is current:
                inner = [heading for heading in chapter.headings if heading[0] == 2]
                out += [f'<a class="inner" href="#{anchor}">{html.escape(text)}</a>' for _, text, anchor in inner]
        return "\n".join(out)

    def page(self, title, body, current=None, prefix=""):
        return TEMPLATE.format(
            title=html.escape(title), prefix=prefix, navigation=self.navigation(current, prefix), body=body
        )

    def neighbours(self, chapter):
        at = self.chapters.index(chapter)
        around = [("previous", at - 1), ("next", at + 1)]
        links = [
            f'<a rel="{word}" href="{self.chapters[i].page}">{html.escape(self.chapters[i].title)}</a>'
            for word, i in around
            if 0 <= i < len(self.chapters)
        ]
        return f'<nav class="around">{"".join(links)}</nav>'

    def source(self, path):
        """A file's text, or the list of a folder's files, on a page of its own."""
        prefix = "../" * (path.count("/") + 1)
        if path in self.files:
            languages = {".rs": "rust", ".py": "python", ".toml": "toml", ".cu": "cuda"}
            language = languages.get(pathlib.Path(path).suffix, "")
            body = f"<pre><code>{highlighted((ROOT / path).read_text(), language)}</code></pre>"
        else:
            inside = sorted(file for file in self.files if file.startswith(f"{path}/"))
            body = "<ul>" + "".join(f"<li><code>{html.escape(file)}</code></li>" for file in inside) + "</ul>"
        self.write(f"source/{path}.html", self.page(path, f"<h1>{html.escape(path)}</h1>\n{body}", None, prefix))

    def build(self):
        for chapter in self.chapters:
            body = f"{self.body(chapter)}\n{self.neighbours(chapter)}"
            self.write(chapter.page, self.page(chapter.title, body, chapter))
        for path in sorted(self.sources):
            self.source(path)
        light = pygments.formatters.HtmlFormatter(style="xcode").get_style_defs("pre")
        dark = pygments.formatters.HtmlFormatter(style="github-dark").get_style_defs("pre")
        # Only the colours of the listings' words: the background is the page's.
        words = [re.sub(r"(?m)^pre \{[^}]*\}\n?", "", text) for text in (light, dark)]
        style = (HERE / "style.css").read_text()
        self.write("style.css", f"{style}\n{words[0]}\n@media (prefers-color-scheme: dark) {{\n{words[1]}\n}}\n")


TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Rigel</title>
<link rel="stylesheet" href="{prefix}style.css">
</head>
<body>
<input type="checkbox" id="menu" aria-label="Show the chapters">
<label for="menu">Chapters</label>
<nav class="chapters">
<a class="name" href="{prefix}index.html">Rigel</a>
{navigation}
</nav>
<main>
{body}
</main>
</body>
</html>
"""


def main():
    output = pathlib.Path(sys.argv[1])
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    site = Site(output)
    site.build()
    if site.problems:
        sys.exit("the site has problems:\n  " + "\n  ".join(site.problems))
    counts = f"{len(site.chapters)} chapters and {len(site.sources)} sources"
    print(f"{counts} in {output}; every link within the repository leads somewhere")


if __name__ == "__main__":
    main()
