"""Checks the examples of README.md and docs/.

    python docs/site/examples.py [PAGE ...]

    rust      is text of the file that a comment before it names: <!-- from crates/.../example.rs -->. A line `// ...`
              stands for lines that are left out.
    sh        runs in a folder that its page's examples share. `rigel` and `cargo run` start the debug build.
    python    runs with the package of target/python, one process a page.

A comment <!-- not run: reason --> before an example exempts it. Listings of other languages, such as `text`, are what
programs print; a listing without a language is an error, so that no command escapes the check.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Only a program without an end takes longer, however busy the machine is.
SECONDS = 600

# Debug builds are there already; release builds of the same take minutes.
SHELL = f"""set -euo pipefail
export PATH="{ROOT}/target/debug:$PATH" RIGEL_PYTHON="{sys.executable}" NO_COLOR=1
cargo() {{
    [ "$1 $2" = "run --release" ] || {{ echo "examples start programs with cargo run --release" >&2; return 1; }}
    case "$3 $4 $5" in
        "-p rigel --") shift 5; rigel "$@" ;;
        "-p "*" --example") "{ROOT}/target/debug/examples/$6" "${{@:7}}" ;;
        *) echo "no such example: cargo $*" >&2; return 1 ;;
    esac
}}
"""


def examples(path):
    """The listings of a page: language, text, line, and the comment before each."""
    note = ""
    for token in MarkdownIt("commonmark").parse(path.read_text()):
        if token.type == "html_block":
            note = token.content.strip()
        elif token.type == "fence":
            yield token.info.strip(), token.content, token.map[0] + 1, note
            note = ""
        elif token.type == "inline":
            note = ""


def lines(text):
    """Lines without indentation, the width of spaces, marks of documentation with its hidden lines, and empty lines."""
    shown = (re.sub(r"^\s*//[/!] ?", "", line) for line in text.splitlines())
    return [" ".join(line.split()) for line in shown if line.strip() and not line.startswith("# ")]


def is_part_of(example, source):
    """Whether each run of lines between `// ...` occurs in the source, in order."""
    source, at = lines(source), 0
    for run in re.split(r"(?m)^\s*// \.\.\.\s*$", example):
        run = lines(run)
        places = range(at, len(source) - len(run) + 1)
        found = next((i for i in places if source[i : i + len(run)] == run), None)
        if found is None:
            return False
        at = found + len(run)
    return True


def check_rust(text, note):
    named = re.fullmatch(r"<!-- from (\S+) -->", note)
    if not named:
        return "a comment before it must name the file that it is from: <!-- from FILE -->"
    file = ROOT / named[1]
    if not file.exists():
        return f"{named[1]} does not exist"
    return None if is_part_of(text, file.read_text()) else f"is not the text of {named[1]}"


def run(command, folder, seconds=SECONDS):
    """What is wrong with a command, if anything. Nothing that it started is left."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        # A group of its own, so that what the command starts can be ended with it. It has nothing to read.
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            env=os.environ | {"NO_COLOR": "1"}, start_new_session=True,
        )
        try:
            ending = f"ended with {process.wait(seconds)}"
        except subprocess.TimeoutExpired:
            ending = f"took longer than {seconds} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        said.seek(0)
        return None if ending == "ended with 0" else f"{ending}:\n{said.read()}"


def check(path):
    """The number of examples that were checked, and what is wrong with them."""
    checked, problems, python = 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        for language, text, line, note in examples(path):
            problem = None
            if not language:
                problems.append(f"{path.relative_to(ROOT)}:{line}: has no language; text is for what programs print")
            if language not in ("rust", "sh", "python") or note.startswith("<!-- not run: "):
                continue
            checked += 1
            if language == "rust":
                problem = check_rust(text, note)
            elif language == "sh":
                problem = run(["bash", "-c", SHELL + text], folder)
            else:
                python.append((line, text))
            if problem:
                problems.append(f"{path.relative_to(ROOT)}:{line}: {problem}")
        if python and (problem := run([sys.executable, "-c", "\n".join(text for _, text in python)], folder)):
            at = ", ".join(str(line) for line, _ in python)
            problems.append(f"{path.relative_to(ROOT)}: its Python examples, of lines {at} in one program: {problem}")
    return checked, problems


def main():
    named = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    pages = named or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    problems = []
    for page in pages:
        began = time.monotonic()
        checked, found = check(page)
        problems += found
        print(f"{page.relative_to(ROOT)}: {checked} examples in {time.monotonic() - began:.1f} s", flush=True)
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
