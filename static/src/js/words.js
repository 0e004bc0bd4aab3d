// One place for a sentence about what went wrong: in the open dialog, else at the top of the page.

const place = () => document.querySelector("dialog[open] [data-word]") ?? document.getElementById("page-word");

/** Says a sentence; a screen reader reads it out. */
export function say(sentence) {
  const word = place();
  if (!word) return;
  word.textContent = sentence;
  word.hidden = false;
}

/** It works again. */
export function unsay() {
  for (const word of document.querySelectorAll("[data-word]")) word.hidden = true;
}
