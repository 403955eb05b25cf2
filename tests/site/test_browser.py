"""The site in a browser, without a window, in both colour schemes: heights of pages, what is wider than a
phone, the contrast of figures, and the search of a folder. Without Chromium these tests are skipped."""

from __future__ import annotations

import functools
import http.server
import json
import os
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import build_metadata

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
MOST_PIXELS = 10_000
LEAST_CONTRAST = 4.5  # of text, as the guidelines for accessible pages (WCAG) ask
WITHOUT_TEXT = 22  # more than the contrast of black and white
SCHEMES = ("default", "slate")
VIEWS = [(width, scheme) for width in (1280, 390) for scheme in SCHEMES]
# Loads each page into a frame, and shows it in each view. Sends the height and width of its content, and the
# least contrast of the text of its figures.
MEASURE = """<!doctype html><body><script>
const parts = (color) => color.match(/[\\d.]+/g).map(Number);
const light = (color) => {
  const [r, g, b] = color.map((each) => {
    const part = each / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (page) => {
  const paper = parts(page.defaultView.getComputedStyle(page.body).backgroundColor).slice(0, 3);
  const inks = [...page.querySelectorAll(".figure text")].map((text) => {
    const [r, g, b, opaque = 1] = parts(page.defaultView.getComputedStyle(text).fill);
    const ink = light([r, g, b].map((each, i) => opaque * each + (1 - opaque) * paper[i]));
    return (Math.max(ink, light(paper)) + 0.05) / (Math.min(ink, light(paper)) + 0.05);
  });
  return Math.min(WITHOUT_TEXT, ...inks);
};
const loaded = async (page) => {
  for (;;) {
    const frame = document.createElement("iframe");
    frame.style = "width: 1280px; height: 900px; border: 0";
    frame.src = "/" + page;
    const ended = await new Promise((resolve) => {
      frame.onload = () => resolve(true);
      setTimeout(() => resolve(false), 10000); // a request of a frame may stay in the queue for ever
      document.body.append(frame);
    });
    if (ended) return frame;
    frame.remove();
  }
};
(async () => {
  for (const page of PAGES) {
    const frame = await loaded(page), shown = frame.contentDocument, root = shown.documentElement;
    const found = VIEWS.map(([width, scheme]) => {
      frame.style.width = width + "px";
      shown.body.dataset.mdColorScheme = scheme;
      return [root.scrollHeight, root.scrollWidth, contrast(shown)];
    });
    frame.remove();
    await fetch("/measured", {method: "POST", body: JSON.stringify([page, found])});
  }
})();
</script>"""


def browser(*options: str) -> list[str]:
    """Returns the command for a browser without a window."""
    assert BROWSER is not None
    return [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", *options]


def dumped(url: str, budget_ms: int) -> str:
    """Returns the document of a page after its scripts ran."""
    command = browser(f"--virtual-time-budget={budget_ms}", "--dump-dom", url)
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


@pytest.fixture(scope="module")
def measured(site: Path) -> Iterator[dict[tuple[int, str], dict[str, list[Any]]]]:
    """What MEASURE finds of all pages, at the width of a desk and of a phone, in each scheme."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))

    sent: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if self.path != "/measure":
                return super().do_GET()
            content = MEASURE
            for name, value in (("PAGES", pages), ("VIEWS", VIEWS), ("WITHOUT_TEXT", WITHOUT_TEXT)):
                content = content.replace(name, json.dumps(value))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())
            return None

        def do_POST(self) -> None:
            sent.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # With a budget of virtual time, a frame in a few hundred never ended.
        command = browser("--remote-debugging-port=0", f"http://127.0.0.1:{server.server_port}/measure")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                found = dict(json.loads(sent.get(timeout=100)) for _ in pages)
            finally:
                process.kill()
        yield {view: {page: found[page][place] for page in pages} for place, view in enumerate(VIEWS)}
        server.shutdown()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_page_is_too_long_to_look_through(measured, scheme):
    pages = measured[1280, scheme].items()
    assert [(page, height) for page, (height, _, _) in pages if height > MOST_PIXELS] == []


@pytest.mark.parametrize("view", VIEWS)
def test_no_page_scrolls_sideways(measured, view):
    assert [page for page, (_, found, _) in measured[view].items() if found > view[0]] == []


@pytest.mark.parametrize("view", VIEWS)
def test_the_text_of_figures_can_be_read(measured, view):
    pages = measured[view]
    assert [(page, found) for page, (_, _, found) in pages.items() if found < LEAST_CONTRAST] == []
    assert pages["index.html"][2] < WITHOUT_TEXT, "its figures are in the page"


def test_a_header_has_the_version_and_the_logo_and_pages_lead_on(site):
    page = (site / "quickstart.html").read_text(encoding="utf-8")
    assert f'<span class="release">{build_metadata.version()}</span>' in page
    assert 'src="images/logo.svg"' in page
    assert 'rel="icon" href="images/logo.svg"' in page
    assert 'class="md-footer__link md-footer__link--prev"' in page
    assert 'class="md-footer__link md-footer__link--next"' in page
    address = os.environ.get("SAETA_REPOSITORY", "")
    assert ("md-header__source" in page) == bool(address), "no link to a repository that nobody named"


@pytest.mark.parametrize(("query", "page"), [("jupyter", "i-want-to.html"), ("read_ipc", "files.html")])
def test_the_search_works_from_a_folder(site, query, page):
    document = dumped(f"{(site / 'index.html').as_uri()}?q={query}", 20_000)
    results = re.findall(r'<a href="([^"]+)" class="md-search-result__link"', document)
    assert any(page in result for result in results), results
