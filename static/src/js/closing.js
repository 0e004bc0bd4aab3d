// Why a console closed, in words, and whether to try again with a fresh ticket.

const CLOSED = {
  1000: ["The machine closed its screen. It may be restarting; this page connects again by itself.", true],
  4401: ["The ticket for this screen was used up or too old. Asking for a fresh one …", true],
  4403: ["You may no longer use this machine's screen. If that surprises you, ask the owner or an operator.", false],
  4408: ["The connection was too slow at the door. Trying again …", true],
  4409: ["The machine is not running yet, or no longer. This page connects as soon as it has a screen.", true],
  4410: ["The reservation has ended, so the screen is closed. Book another period to go on with this machine.", false],
  4502: ["The machine's host or its screen cannot be reached right now. Trying again …", true],
};

const ANSWERED = {
  logged_out: ["You are logged out. Log in again to see this screen.", false],
  forbidden: CLOSED[4403],
  not_found: ["There is no such machine for you. It may have been deleted, or shared with you no longer.", false],
  state: CLOSED[4409],
};

/**
 * What a close event, or the portal's refusal {code, detail}, means.
 * Anything unknown is taken for a cut in the network, which is worth another try; an unknown 44xx is not.
 */
export function meaning(reason) {
  const known = ANSWERED[reason?.code] ?? CLOSED[reason?.code];
  if (known) return { sentence: (reason.code === 4403 && reason.reason) || known[0], retry: known[1] };
  if (reason?.code >= 4000) return { sentence: reason.reason || "The portal closed this screen.", retry: false };
  if (typeof reason?.code === "string" && reason.detail) return { sentence: reason.detail, retry: true };
  return { sentence: "The connection was cut. Trying again with a fresh ticket …", retry: true };
}
