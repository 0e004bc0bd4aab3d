// Which key of a US keyboard makes a character: [code, with shift]. QEMU is told keys, not characters, so what
// arrives depends on the layout that is set inside the machine.

const ROWS = [
  ["Backquote Digit1 Digit2 Digit3 Digit4 Digit5 Digit6 Digit7 Digit8 Digit9 Digit0 Minus Equal", "`1234567890-=", "~!@#$%^&*()_+"],
  ["KeyQ KeyW KeyE KeyR KeyT KeyY KeyU KeyI KeyO KeyP BracketLeft BracketRight Backslash", "qwertyuiop[]\\", "QWERTYUIOP{}|"],
  ["KeyA KeyS KeyD KeyF KeyG KeyH KeyJ KeyK KeyL Semicolon Quote", "asdfghjkl;'", "ASDFGHJKL:\""],
  ["KeyZ KeyX KeyC KeyV KeyB KeyN KeyM Comma Period Slash", "zxcvbnm,./", "ZXCVBNM<>?"],
];

const KEYS = new Map([
  [" ", { code: "Space", keysym: 0x20, shift: false }],
  ["\n", { code: "Enter", keysym: 0xff0d, shift: false }],
  ["\t", { code: "Tab", keysym: 0xff09, shift: false }],
]);
for (const [codes, plain, shifted] of ROWS) {
  codes.split(" ").forEach((code, at) => {
    KEYS.set(plain[at], { code, keysym: plain.charCodeAt(at), shift: false });
    KEYS.set(shifted[at], { code, keysym: shifted.charCodeAt(at), shift: true });
  });
}

/** Splits a text into what a US keyboard can type and the characters it has no key for. */
export function asKeys(text) {
  const keys = [];
  const without = new Set();
  for (const character of text.replaceAll("\r\n", "\n").replaceAll("\r", "\n")) {
    if (KEYS.has(character)) keys.push(KEYS.get(character));
    else without.add(character);
  }
  return { keys, without: [...without] };
}
