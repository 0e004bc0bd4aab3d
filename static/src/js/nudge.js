// "Something changed, fetch it again." The socket carries no data and no permission: the page's own view
// renders and checks as always. A part of a page that wants it carries `data-nudge`, a list of URL prefixes.

const SLOW_POLL = 15_000; // milliseconds; what is left when the socket is down
const LEVEL = 60_000; // nothing may depend on one nudge arriving
const LOGGED_OUT = 4403;
const GATHER = 200; // milliseconds; several nudges at once make one request

const wanted = (part, url) =>
  part.dataset.nudge.split(" ").some((prefix) => (prefix === "/" ? url === "/" : url.startsWith(prefix)));

// Nobody's half-made answer is swept away: an open question or a field in use waits for the next round.
const inUse = (part) =>
  part.querySelector("details[open]") || (part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea"));

/** Keeps the parts of this page fresh. `htmx` sends the requests. */
export function listen(htmx) {
  const due = new Set();
  let timer = null;
  let attempts = 0;
  let polling = null;

  function refresh() {
    timer = null;
    for (const part of [...due]) {
      due.delete(part);
      if (!part.isConnected) continue;
      if (inUse(part)) due.add(part);
      else htmx.trigger(part, "nudge");
    }
    if (due.size) timer = setTimeout(refresh, 2000);
  }

  function nudged(url) {
    for (const part of document.querySelectorAll("[data-nudge]")) if (url === null || wanted(part, url)) due.add(part);
    if (due.size && !timer) timer = setTimeout(refresh, GATHER);
  }

  function offline(is) {
    document.body.classList.toggle("is-offline", is);
    if (is && !polling) polling = setInterval(() => nudged(null), SLOW_POLL);
    if (!is && polling) polling = clearInterval(polling) || null;
  }

  function open() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${document.body.dataset.socket}`);
    socket.addEventListener("open", () => {
      if (attempts) nudged(null); // what was missed meanwhile
      attempts = 0;
      offline(false);
    });
    socket.addEventListener("message", (event) => nudged(JSON.parse(event.data).url || null));
    socket.addEventListener("close", ({ code }) => {
      if (code === LOGGED_OUT) return location.reload(); // the page's own view says what comes next
      attempts += 1;
      if (attempts > 1) offline(true);
      setTimeout(open, Math.min(30_000, 500 * 2 ** attempts) * (0.7 + 0.6 * Math.random()));
    });
    addEventListener("pagehide", () => socket.close(), { once: true });
  }

  setInterval(() => nudged(null), LEVEL);
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  open();
}
