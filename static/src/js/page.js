// What every page loads.
import htmx from "htmx.org/dist/htmx.esm.js";
import { keepCounting } from "./countdown.js";
import { listen } from "./nudge.js";
import { wireMenus } from "./menus.js";
import { say, unsay } from "./words.js";

htmx.config.includeIndicatorStyles = false; // the content security policy refuses styles in the page
htmx.config.allowEval = false;
htmx.config.selfRequestsOnly = true;
htmx.config.historyCacheSize = 0; // nothing of a page stays in localStorage
htmx.config.responseHandling = [
  { code: "204", swap: false },
  { code: "[23]..", swap: true },
  { code: "409|422", swap: true, error: false }, // a refused form comes back with its sentence
  { code: "[45]..", swap: false, error: true },
];

// A session that ended meanwhile answers with the log-in page: show it as a page, not inside a part of one.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { pathname } = new URL(event.detail.xhr.responseURL || location.href);
  if (pathname !== document.body.dataset.login || location.pathname === pathname) return;
  event.detail.shouldSwap = false;
  location.assign(`${pathname}?next=${encodeURIComponent(location.pathname)}`);
});

document.addEventListener("htmx:sendError", () => say("The portal does not answer. Check the connection and try again."));
document.addEventListener("htmx:responseError", (event) =>
  say(`The portal could not do this (error ${event.detail.xhr.status}). Load the page again; tell an operator if it stays.`));
document.addEventListener("htmx:afterSwap", unsay);

keepCounting();
wireMenus();
if (document.body.dataset.socket) listen(htmx);
window.htmx = htmx; // calendar.js, a bundle of its own, uses this one
