// Answers what makes a page hard to read or to use, one sentence each.
() => {
  const faults = [];
  const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * channel(red / 255) + 0.7152 * channel(green / 255) + 0.0722 * channel(blue / 255);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return { rgb: [red, green, blue], alpha: alpha / 255 };
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const { rgb, alpha } = colour(getComputedStyle(at).backgroundColor);
      if (alpha > 0.95) return rgb;
    }
    return [255, 255, 255];
  };
  const shown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && element.getBoundingClientRect().width > 1;
  const words = (element) => [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent.trim()).join("");

  for (const element of document.querySelectorAll("body *")) {
    if (!shown(element) || !words(element) || element.closest(":disabled, .is-ended, .visually-hidden, .skip-link")) continue;
    const style = getComputedStyle(element);
    const [light, dark] = [luminance(colour(style.color).rgb), luminance(ground(element))].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faults.push(`contrast ${ratio.toFixed(1)} of "${words(element).slice(0, 40)}" (${element.className})`);
  }
  for (const control of document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a[href], summary")) {
    if (!shown(control)) continue;
    const name = control.getAttribute("aria-label") || control.textContent.trim() || control.labels?.[0]?.textContent.trim() || control.title;
    if (!name) faults.push(`no name: ${control.outerHTML.slice(0, 120)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`sticks out: ${document.documentElement.scrollWidth} of ${innerWidth} px`);
  if (document.querySelectorAll("h1").length !== 1) faults.push(`${document.querySelectorAll("h1").length} h1`);
  if (!document.title.includes("Tessera")) faults.push(`title: ${document.title}`);
  if (!document.body.textContent.includes("UTC") && !document.body.classList.contains("console")) faults.push("no time zone is named");
  return faults;
}
