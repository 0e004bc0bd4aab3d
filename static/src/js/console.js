// The console page: a ticket by POST, one text frame with it, and then the socket is noVNC's.
// The ticket is used once and lives for seconds; it is never in an address.
import RFB from "@novnc/novnc";
import { keepCounting } from "./countdown.js";
import { meaning } from "./closing.js";
import { typeText, wireBar } from "./console_bar.js";

const page = document.getElementById("console");
const screen = document.getElementById("screen");
const word = document.getElementById("word");
const state = document.getElementById("state");
const again = document.getElementById("again");
const cookie = (name) => document.cookie.split("; ").find((pair) => pair.startsWith(`${name}=`))?.split("=")[1];

let rfb = null;
let attempts = 0;
let timer = null;
let generation = 0; // an answer that belongs to an older attempt is thrown away
let scaled = true;

function show(name, sentence, { offerAgain = false } = {}) {
  state.dataset.state = name;
  state.textContent = { connecting: "connecting", connected: "connected", waiting: "waiting", over: "closed" }[name];
  word.querySelector("p").textContent = sentence ?? "";
  word.hidden = !sentence;
  again.hidden = !offerAgain;
}

/** Asks for a ticket. Answers {ticket, path} or throws what the portal said: {code, detail}. */
async function ticket() {
  const answer = await fetch(page.dataset.ticket, {
    method: "POST",
    credentials: "same-origin",
    redirect: "manual",
    headers: { "X-CSRFToken": page.dataset.csrf || cookie("csrftoken"), Accept: "application/json" },
  });
  if (answer.type === "opaqueredirect") throw { code: "logged_out" };
  // Django's own refusals are pages, not JSON: their status says enough
  const body = await answer.json().catch(() => ({ code: { 403: "forbidden", 404: "not_found" }[answer.status] ?? "unreadable" }));
  if (!answer.ok) throw body;
  return body;
}

/** Opens the socket and shows the ticket. Resolves with a socket that speaks RFB from the next byte on. */
function enter({ ticket: secret, path }) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`, ["binary"]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => socket.send(JSON.stringify({ ticket: secret }));
    socket.onmessage = ({ data }) => {
      socket.onmessage = null;
      if (typeof data === "string" && JSON.parse(data).ok) resolve(socket);
      else socket.close();
    };
    socket.onclose = (event) => reject(event);
  });
}

async function connect() {
  const mine = ++generation;
  clearTimeout(timer);
  leave();
  show("connecting", attempts ? "Connecting again …" : "Connecting to the screen …");
  try {
    const socket = await enter(await ticket());
    if (mine !== generation) return socket.close();
    socket.addEventListener("close", (event) => mine === generation && closed(event));
    start(socket);
  } catch (reason) {
    if (mine === generation) closed(reason);
  }
}

function start(socket) {
  rfb = new RFB(screen, socket, { shared: true });
  rfb.scaleViewport = scaled;
  rfb.background = "#101315";
  rfb.addEventListener("connect", () => {
    attempts = 0;
    show("connected");
    rfb.focus();
  });
  rfb.addEventListener("credentialsrequired", () => show("over", "The screen asks for a password, which Tessera never sets. Tell an operator."));
}

/** After any end: say why, and go on by itself where that makes sense. */
function closed(reason) {
  rfb = null;
  const { sentence, retry } = meaning(reason);
  if (!retry) return show("over", sentence, { offerAgain: true });
  attempts += 1;
  show("waiting", sentence, { offerAgain: true });
  timer = setTimeout(connect, Math.min(10_000, 500 * 2 ** attempts));
}

function leave() {
  rfb?.disconnect();
  rfb = null;
  screen.replaceChildren();
}

keepCounting();
wireBar({
  screen: () => rfb,
  frame: document.getElementById("frame"),
  scale(is) {
    scaled = is;
    if (rfb) rfb.scaleViewport = is;
  },
  type: (text) => typeText(text, () => rfb),
});
again.addEventListener("click", () => {
  attempts = 0;
  connect();
});
addEventListener("pagehide", () => {
  generation += 1;
  clearTimeout(timer);
  leave();
});
addEventListener("pageshow", (event) => event.persisted && connect());
addEventListener("online", () => state.dataset.state === "waiting" && connect());
connect();
