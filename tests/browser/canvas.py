"""What is drawn on a console page."""

from playwright.sync_api import Page

MIDDLE = """() => {
  const canvas = document.querySelector("#screen canvas");
  if (!canvas || !canvas.width) return null;
  return [...canvas.getContext("2d").getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data].slice(0, 3);
}"""


def middle(page: Page) -> tuple[int, int, int] | None:
    """Red, green and blue in the middle of the machine's screen; None: nothing is drawn yet."""
    found = page.evaluate(MIDDLE)
    return None if found is None else (found[0], found[1], found[2])
