"""Looks at pages in a browser: at nothing that overlaps, is empty, leaves its picture or can't be read.

    python docs/site/browser.py OUTPUT PAGE ...

All pages and pictures are laid out by Chromium in two widths, light and dark. Screenshots go to OUTPUT. Without a
browser the check is skipped, and says so.
"""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
WIDTHS = [1280, 400]
# Blink's numbers for `prefers-color-scheme`.
SCHEMES = {"light": 1, "dark": 0}

# Runs in a page with a frame for each page and width; what is wrong goes to an element that is read afterwards.
LOOK = r"""
const wrong = [];
function words(element) { return (element.textContent || "").trim().slice(0, 40); }
function channel(c) { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }
function light([r, g, b]) { return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); }
function numbers(colour) { return (colour.match(/[\d.]+/g) || []).map(Number); }
function contrast(a, b) { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); }
function background(element) {
  for (; element; element = element.parentElement) {
    const colour = numbers(element.ownerDocument.defaultView.getComputedStyle(element).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour.slice(0, 3);
  }
  return [255, 255, 255];
}
// The colour of the last shape that is painted before a text of a picture and lies under its middle.
function shape(picture, text) {
  const box = text.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
  let found = null;
  for (const element of picture.querySelectorAll("rect, circle, polygon")) {
    if (!(element.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
    const its = element.getBoundingClientRect(), style = element.ownerDocument.defaultView.getComputedStyle(element);
    const under = its.left <= x && x <= its.right && its.top <= y && y <= its.bottom;
    const ink = numbers(style.fill);
    if (under && ink.length === 3 && style.fillOpacity === "1" && style.opacity === "1") found = ink;
  }
  return found;
}
function look(frame) {
  const page = frame.contentDocument, window_ = frame.contentWindow;
  if (page.URL !== frame.src) throw new Error(`${page.URL} in place of ${frame.src}`);
  const say = what => wrong.push(`${frame.dataset.page} at ${frame.width}: ${what}`);
  const root = page.documentElement;
  if (root.scrollWidth > root.clientWidth + 1) say(`is ${root.scrollWidth} pixels wide`);
  const main = page.querySelector("main");
  if (!main || main.innerText.trim().length < 40) say("is empty");
  if (/\b(NaN|undefined)\b/.test(root.innerText)) say("shows NaN or undefined");
  for (const image of page.images) if (!image.naturalWidth) say(`image ${image.src} is not there`);
  for (const table of page.querySelectorAll("table"))
    if (!table.querySelector("tbody td")) say(`a table without rows: ${words(table)}`);
  for (const svg of page.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    const shapes = svg.querySelectorAll("rect, circle, polygon, polyline").length;
    if (frame.width < 100 || frame.height < 20 || shapes === 0) { say("an empty picture"); continue; }
    const texts = [...svg.querySelectorAll("text:not([transform])")].map(text => [text, text.getBoundingClientRect()]);
    if (texts.length === 0) say("a picture without text");
    texts.forEach(([text, box], i) => {
      if (box.width === 0) say(`empty text in a picture`);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
          || box.bottom > frame.bottom + 1) say(`"${words(text)}" leaves its picture`);
      for (const circle of svg.querySelectorAll("circle")) {
        const its = circle.getBoundingClientRect();
        const across = its.right - 2 > box.left && its.left + 2 < box.right;
        if (across && its.bottom - 3 > box.top && its.top + 3 < box.bottom)
          say(`"${words(text)}" is under a point`);
      }
      for (const [other, its] of texts.slice(i + 1)) {
        // Boxes are higher than letters: lines may touch.
        const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (across > 1 && down > 0.35 * box.height) say(`"${words(text)}" and "${words(other)}" overlap`);
      }
    });
  }
  const seen = new Set();
  for (const element of page.querySelectorAll("main *, nav *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest("title, style") || !element.getClientRects().length) continue;
    // Text of a picture has its colour in `fill`, and may lie on one of the picture's shapes.
    const picture = element.closest("svg"), style = window_.getComputedStyle(element);
    const ink = numbers(picture ? style.fill : style.color);
    const paper = (picture && shape(picture, element)) || background(element);
    const ratio = contrast(ink, paper), key = `${ink} ${paper}`;
    if (ratio < 4 && !seen.has(key)) { seen.add(key); say(`"${words(element)}" is hard to read: ${ratio.toFixed(1)}`); }
  }
}
addEventListener("load", () => {
  let looked = 0;
  for (const frame of document.querySelectorAll("iframe")) {
    try { look(frame); looked++; } catch (error) { wrong.push(`${frame.dataset.page}: ${error}`); }
  }
  document.getElementById("found").textContent = JSON.stringify({ looked, wrong });
});
"""


def run(browser, scheme, options, page):
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", *options, page.resolve().as_uri(),
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def as_page(page, folder):
    """A picture is looked at in a page of its own, where its parts can be measured."""
    if page.suffix != ".svg":
        return page
    own = folder / f"{page.stem}.html"
    figure = f'<figure style="overflow-x: auto">{page.read_text()}</figure>'
    own.write_text(f"<!doctype html><main><p>The picture of {page.name} and its texts.</p>{figure}</main>")
    return own


def look(browser, pages, scheme):
    """What is wrong with the pages in one scheme."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        frames = "".join(
            f'<iframe data-page="{page.name}" src="{as_page(page, folder).resolve().as_uri()}" width="{width}" '
            'height="900"></iframe>'
            for page in pages
            for width in WIDTHS
        )
        harness = folder / "harness of the look.html"
        harness.write_text(f'<!doctype html><pre id="found"></pre>{frames}<script>{LOOK}</script>')
        text = run(browser, scheme, ["--dump-dom"], harness)
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', text, re.DOTALL)[1]))
    if found["looked"] != len(pages) * len(WIDTHS):
        wrong = "\n".join(found["wrong"])
        sys.exit(f"{found['looked']} frames were looked at to the end, not {len(pages) * len(WIDTHS)}:\n{wrong}")
    return [f"{problem} ({scheme})" for problem in found["wrong"]]


# A page with each fault, and how a report of it reads; `empty.html` has nothing else.
FAULTS = {
    "broken.html": [
        "pixels wide", "shows NaN", "nowhere.png is not there", "without rows", "overlap", "leaves its picture",
        "under a point", "an empty picture", "a picture without text", "empty text in a picture",
        '"This text is too light for its paper." is hard to read', '"too light in a picture" is hard to read',
        '"too light on a shape" is hard to read',
    ],
    "empty.html": ["is empty"],
}


def missed_faults(browser):
    """The faults of pages that have one of each kind which are not found once in each width."""
    missed = []
    for page, kinds in FAULTS.items():
        found = look(browser, [HERE / page], "light")
        missed += [kind for kind in kinds if sum(kind in problem for problem in found) != len(WIDTHS)]
    return missed


def main():
    output, pages = pathlib.Path(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]]
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        print(f"skipped: there is no browser ({', '.join(NAMES)})")
        return
    if missed := missed_faults(browser):
        sys.exit(f"faults of {', '.join(FAULTS)} are not found, so the look at the pages can't be trusted: {missed}")
    output.mkdir(parents=True, exist_ok=True)
    problems = [problem for scheme in SCHEMES for problem in look(browser, pages, scheme)]
    # Pages of reports, whole; those of the site are many.
    reports = [page for page in pages if page.parent == output]
    for page in reports:
        for scheme in SCHEMES:
            picture = output / f"{page.stem}-{scheme}.png"
            run(browser, scheme, [f"--screenshot={picture.resolve()}", "--window-size=1280,1800"], page)
            if picture.stat().st_size < 10_000:
                problems.append(f"{picture} is nearly empty")
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(pages)} pages in {len(WIDTHS)} widths, light and dark: nothing overlaps, is empty or hard to read")


if __name__ == "__main__":
    main()
