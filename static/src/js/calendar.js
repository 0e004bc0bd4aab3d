// The calendar: GPU × time. EventCalendar draws; what it shows comes from two addresses of the portal.
// Every time on it is the wall clock of the page's zone, which the page names: the browser's own zone is never asked.
import EventCalendar from "@event-calendar/build";
import { say, unsay } from "./words.js";

const place = document.getElementById("timeline");
const dialog = document.getElementById("book-dialog");
const { events, resources, book, slot, offset, now } = place.dataset;
let rows = []; // what was last shown stays when the portal does not answer: an empty calendar would look free
let tiles = [];
const wide = matchMedia("(min-width: 768px)");

// "2026-12-01T10:00:00+01:00" → "2026-12-01T10:00:00": the wall clock of the page's zone, as the server wrote it.
const wallClock = (time) => time.slice(0, 19);

async function fetchJson(address, range) {
  const url = new URL(address, location.origin);
  for (const [name, value] of Object.entries(range)) url.searchParams.set(name, value);
  const answer = await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin" }).catch(() => null);
  if (answer?.redirected) location.reload(); // logged out meanwhile
  if (!answer?.ok) {
    say("The calendar cannot be loaded right now; what you see may be old. It is tried again within a minute.");
    return null;
  }
  unsay();
  return answer.json();
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text; // never markup: names are other people's words
  return made;
}

function label({ resource }) {
  const { kind, note, simulated } = resource.extendedProps;
  const line = element("span", `row-${kind}`, resource.title);
  const nodes = [line];
  if (note) nodes.push(element("span", "row-note code", note));
  if (simulated) nodes.push(element("span", "tag tag-simulated", "simulated"));
  return { domNodes: nodes };
}

function content({ event }) {
  return { domNodes: [element("span", "ec-event-title", event.title)] };
}

function describe({ event, el }) {
  el.title = event.extendedProps.description ?? event.title;
  if (event.extendedProps.url) el.setAttribute("role", "link");
  else el.removeAttribute("tabindex");
  if (event.title) return;
  el.setAttribute("aria-hidden", "true"); // the lower rows of a tall tile: one stop for the keyboard is enough
  el.tabIndex = -1;
}

/** Opens the booking form, filled with what was dragged over. The server keeps to its step and says what is wrong. */
async function offer({ startStr, endStr, resource }) {
  const url = new URL(book, location.origin);
  url.searchParams.set("start", wallClock(startStr).slice(0, 16));
  url.searchParams.set("end", wallClock(endStr).slice(0, 16));
  const fits = resource?.extendedProps.flavors;
  if (fits?.length) url.searchParams.set("flavor", fits[0]);
  await window.htmx.ajax("GET", url.pathname + url.search, { target: "#book-form", swap: "innerHTML" });
  dialog.showModal();
  dialog.querySelector("select, input:not([type=hidden])")?.focus();
}

// The portal's step, or a coarser one where a pixel is worth more minutes.
const step = (least) => {
  const minutes = Math.max(Number(slot), least);
  return `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
};

const dayName = { weekday: "short", day: "numeric", month: "short" };
const dates = { day: "numeric", month: "short", year: "numeric" };
const hours = { hour: "2-digit", minute: "2-digit", hour12: false };
const options = {
  view: "days",
  locale: "en-GB", // day before month, 24 hours: as the rest of the pages
  timeZone: offset, // for "now" and "today" only: the events below carry no offset and stay where they are
  date: now,
  firstDay: 1,
  height: "auto",
  headerToolbar: { start: "today prev,next", center: "title", end: "days,resourceTimelineWeek" },
  buttonText: { today: "Today", days: "Day", resourceTimelineWeek: "Week", expand: "Show the shares", collapse: "Hide the shares", prev: "Earlier", next: "Later" },
  slotDuration: "00:30",
  slotLabelInterval: "01:00",
  snapDuration: step(0),
  slotLabelFormat: hours,
  eventTimeFormat: hours,
  dayHeaderFormat: dayName,
  scrollTime: now.slice(11, 13) > "01" ? `${String(Number(now.slice(11, 13)) - 1).padStart(2, "0")}:00` : "00:00",
  slotWidth: 30,
  views: {
    // The day and the next one: in the evening a single day would show the past only
    days: { type: "resourceTimelineDay", duration: { days: 2 }, dateIncrement: { days: 1 }, dayHeaderFormat: dayName, titleFormat: dates },
    resourceTimelineWeek: { slotDuration: "04:00", slotLabelInterval: "12:00", slotWidth: 27, snapDuration: step(60), titleFormat: dates },
  },
  nowIndicator: true,
  selectable: true,
  unselectAuto: true,
  unselectCancel: "#book-dialog",
  selectBackgroundColor: "var(--tile-lagoon)",
  longPressDelay: 400,
  resources: async () => (rows = (await fetchJson(resources, {})) ?? rows),
  eventSources: [{
    async events({ startStr, endStr }) {
      const found = await fetchJson(events, { start: wallClock(startStr), end: wallClock(endStr) });
      if (found) tiles = found.map((tile) => ({ ...tile, start: wallClock(tile.start), end: wallClock(tile.end) }));
      return tiles;
    },
  }],
  resourceLabelContent: label,
  eventContent: content,
  eventDidMount: describe,
  eventClick: ({ event }) => event.extendedProps.url && location.assign(event.extendedProps.url),
  selectConstraint: ({ endStr }) => wallClock(endStr) > wallClock(place.dataset.now),
  select: offer,
  loading: (is) => place.setAttribute("aria-busy", String(is)),
};

let calendar = null;

function draw() {
  if (wide.matches && !calendar) calendar = EventCalendar.create(place, options);
}

draw();
wide.addEventListener("change", draw);

// Nudged: the same view again. Also the agenda of small screens hears this, through htmx.
place.addEventListener("nudge", () => calendar?.refetchEvents());
document.addEventListener("booked", () => calendar?.refetchEvents());
dialog.addEventListener("close", () => calendar?.unselect());
