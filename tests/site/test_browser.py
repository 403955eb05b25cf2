"""The site in a browser, without a window: heights of pages, what is wider than a phone, and the search of a
folder. Without Chromium these tests are skipped."""

from __future__ import annotations

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
MOST_PIXELS = 10_000
# Loads each page into a frame of a width, and writes the height and width of its content.
MEASURE = """<!doctype html><pre id="out"></pre><script>
(async () => {
  const found = {}, pages = PAGES;
  for (const page of pages) {
    const frame = document.createElement("iframe");
    frame.style = "width: WIDTHpx; height: 900px; border: 0";
    frame.src = "/" + page;
    await new Promise((resolve) => { frame.onload = resolve; document.body.append(frame); });
    const root = frame.contentDocument.documentElement;
    found[page] = [root.scrollHeight, root.scrollWidth];
    frame.remove();
  }
  document.getElementById("out").textContent = JSON.stringify(found);
})();
</script>"""


def dumped(url: str, budget_ms: int) -> str:
    """Returns the document of a page after its scripts ran."""
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
    command = [BROWSER, *options, f"--virtual-time-budget={budget_ms}", "--dump-dom", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


@pytest.fixture(scope="module")
def sizes(site: Path) -> Iterator[dict[int, dict[str, list[int]]]]:
    """Heights and widths of all pages, at the width of a desk and of a phone."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if not self.path.startswith("/measure-"):
                return super().do_GET()
            width = self.path.removeprefix("/measure-")
            content = MEASURE.replace("PAGES", json.dumps(pages)).replace("WIDTH", width).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content)
            return None

    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        measured = {}
        for width in (1280, 390):
            document = dumped(f"http://127.0.0.1:{server.server_port}/measure-{width}", 600_000)
            text = re.search(r'<pre id="out">(.*?)</pre>', document, re.DOTALL)
            assert text is not None
            measured[width] = json.loads(html.unescape(text[1]))
            assert len(measured[width]) == len(pages)
        yield measured
        server.shutdown()


def test_no_page_is_too_long_to_look_through(sizes):
    assert [page for page, (height, _) in sizes[1280].items() if height > MOST_PIXELS] == []


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_scrolls_sideways(sizes, width):
    assert [page for page, (_, found) in sizes[width].items() if found > width] == []


@pytest.mark.parametrize(("query", "page"), [("jupyter", "i-want-to.html"), ("read_ipc", "files.html")])
def test_the_search_works_from_a_folder(site, query, page):
    document = dumped(f"{(site / 'index.html').as_uri()}?q={query}", 20_000)
    results = re.findall(r'<a href="([^"]+)" class="md-search-result__link"', document)
    assert any(page in result for result in results), results
