// Menus and questions are <details>: they open without a script. This only adds what people expect of a menu.

const OPEN = "details.menu[open], details.question[open]";

/** Escape closes an open menu and gives the focus back; a click elsewhere closes it. */
export function wireMenus() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll(OPEN)) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(OPEN)) if (!menu.contains(event.target)) menu.open = false;
    const closing = event.target.closest("[data-close]");
    if (closing) closing.closest("dialog")?.close();
  });
}
