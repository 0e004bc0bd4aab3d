import assert from "node:assert/strict";
import { test } from "node:test";
import { meaning } from "./js/closing.js";
import { inWords } from "./js/countdown.js";
import { asKeys } from "./js/us_keyboard.js";

test("every printable ASCII character has a key", () => {
  const printable = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join("");
  assert.deepEqual(asKeys(printable).without, []);
  assert.equal(asKeys(printable).keys.length, 95);
});

test("what a US keyboard lacks is named, not garbled", () => {
  const { keys, without } = asKeys("grün\r\n日");
  assert.deepEqual(without, ["ü", "日"]);
  assert.deepEqual(keys.map(({ code }) => code), ["KeyG", "KeyR", "KeyN", "Enter"]);
});

test("close codes: only those that can pass are tried again", () => {
  for (const code of [1000, 1006, 1012, 4401, 4408, 4409, 4502]) assert.equal(meaning({ code }).retry, true, String(code));
  for (const code of [4403, 4410, 4499]) assert.equal(meaning({ code, reason: "" }).retry, false, String(code));
  assert.equal(meaning({ code: "logged_out" }).retry, false);
  assert.equal(meaning(new TypeError("Failed to fetch")).retry, true);
});

test("lengths of time in words", () => {
  assert.equal(inWords(-5), "0 s");
  assert.equal(inWords(59_900), "59 s");
  assert.equal(inWords(3_725_000), "1 h 02 min");
  assert.equal(inWords(90_000_000), "1 d 01 h");
});
