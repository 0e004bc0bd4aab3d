// Time left, counted from the server's clock: a browser's clock may be wrong by hours.

let ahead = 0; // milliseconds that this browser's clock is ahead of the server's

/** Takes the server's time from the page. */
function compareClocks() {
  const told = document.querySelector("meta[name=server-time]");
  if (told) ahead = Date.now() - Date.parse(told.content);
}

/** The server's time now, as milliseconds. */
export function serverNow() {
  return Date.now() - ahead;
}

/** "2 h 05 min", "4 min 10 s", "less than a second": how a length of time is said on every page. */
export function inWords(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor((seconds % 86400) / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const two = (number) => String(number).padStart(2, "0");
  if (days) return `${days} d ${two(hours)} h`;
  if (hours) return `${hours} h ${two(minutes)} min`;
  if (minutes) return `${minutes} min ${two(seconds % 60)} s`;
  return `${seconds} s`;
}

function count() {
  for (const place of document.querySelectorAll("[data-until]")) {
    const left = Date.parse(place.dataset.until) - serverNow();
    const text = left > 0 ? inWords(left) : place.dataset.over || "over";
    if (place.textContent !== text) place.textContent = text;
  }
}

/** Counts every element with `data-until` down, once a second, also those that arrive later. */
export function keepCounting() {
  compareClocks();
  count();
  setInterval(count, 1000);
  document.addEventListener("htmx:afterSwap", count);
}
