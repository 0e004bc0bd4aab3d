// The bar above the screen: full screen, scale, Ctrl-Alt-Del, text typed as keys, and the way back for the keyboard.
import { asKeys } from "./us_keyboard.js";

export const LONGEST_TEXT = 5000; // characters; a longer one belongs into a file
const SHIFT = { keysym: 0xffe1, code: "ShiftLeft" };
const PAUSE = 15; // milliseconds between keys; a guest in emulation drops keys that come faster

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Types `text` as key presses. Answers a sentence that says what arrived and what did not. */
export async function typeText(text, screen) {
  if (text.length > LONGEST_TEXT) return `That is too long to type (${text.length} characters, at most ${LONGEST_TEXT}). Nothing was typed.`;
  const { keys, without } = asKeys(text);
  for (const [typed, { keysym, code, shift }] of keys.entries()) {
    const rfb = screen();
    if (!rfb) return `The connection was cut after ${typed} characters.`;
    if (shift) rfb.sendKey(SHIFT.keysym, SHIFT.code, true);
    rfb.sendKey(keysym, code);
    if (shift) rfb.sendKey(SHIFT.keysym, SHIFT.code, false);
    await wait(PAUSE);
  }
  const left = without.length ? ` Left out, because a US keyboard has no key for them: ${without.slice(0, 20).join(" ")}` : "";
  return `Typed ${keys.length} characters.${left}`;
}

function wireTyping(type) {
  const dialog = document.getElementById("type-dialog");
  const field = dialog.querySelector("textarea");
  const said = dialog.querySelector("[role=status]");
  document.getElementById("type").addEventListener("click", () => {
    said.textContent = "";
    dialog.showModal();
    field.focus();
  });
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    said.textContent = "Typing …";
    said.textContent = await type(field.value);
  });
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => (field.value = "")); // may be a password
}

/** Wires the buttons. `screen()` is the connection of the moment, or null. */
export function wireBar({ screen, frame, scale, type }) {
  const scaling = document.getElementById("scale");
  document.getElementById("full").addEventListener("click", () =>
    document.fullscreenElement ? document.exitFullscreen() : frame.requestFullscreen().then(() => screen()?.focus()));
  document.getElementById("cad").addEventListener("click", () => {
    screen()?.sendCtrlAltDel();
    screen()?.focus();
  });
  scaling.addEventListener("click", () => {
    const is = scaling.getAttribute("aria-pressed") !== "true";
    scaling.setAttribute("aria-pressed", String(is));
    scale(is);
  });
  // The screen takes every key, Tab too; this one chord gives the keyboard back.
  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey && event.altKey && event.shiftKey && event.code === "KeyB")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    screen()?.blur();
    scaling.focus();
  }, { capture: true });
  wireTyping(type);
}
