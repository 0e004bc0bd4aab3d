// Builds everything a page loads into static/build/ (which git ignores): `npm run build`.
import { build } from "esbuild";
import { cp, mkdir, readFile, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = new URL(".", import.meta.url);
const path = (name) => fileURLToPath(new URL(name, here));
const out = path("../build");

/**
 * Bootstrap ties its dark colours to an attribute that only a script could set. Ours follow
 * `prefers-color-scheme`, so they are right at once and without JavaScript.
 */
async function bootstrapThatFollowsTheSystem() {
  const source = await readFile(path("../../node_modules/bootstrap/dist/css/bootstrap.css"), "utf8");
  return source
    .replace(/^\/\*# sourceMappingURL.*$/m, "")
    .replace(/^\[data-bs-theme=dark\]([^{]*)\{([^}]*)\}/gm, (_, rest, body) =>
      `@media (prefers-color-scheme: dark) {\n:root${rest}{${body}}\n}`);
}

const bootstrap = {
  name: "bootstrap-follows-the-system",
  setup(plugin) {
    plugin.onResolve({ filter: /^bootstrap-auto$/ }, () => ({ path: "bootstrap-auto", namespace: "auto" }));
    plugin.onLoad({ filter: /.*/, namespace: "auto" }, async () => ({
      contents: await bootstrapThatFollowsTheSystem(),
      loader: "css",
    }));
  },
};

/** The calendar's ready file is a classic script that leaves one global; here it is a module. */
const eventCalendar = {
  name: "event-calendar-is-a-module",
  setup(plugin) {
    plugin.onLoad({ filter: /event-calendar\.min\.js$/ }, async ({ path: file }) => ({
      contents: `${await readFile(file, "utf8")}\nexport default EventCalendar;`,
    }));
  },
};

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  entryPoints: ["page.js", "calendar.js", "console.js"].map((name) => path(`js/${name}`)),
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm", // noVNC awaits at top level
  target: ["es2022"],
  legalComments: "linked",
  logLevel: "warning",
  plugins: [eventCalendar],
});
await build({
  entryPoints: ["page.css", "calendar.css", "console.css", "admin.css"].map((name) => path(`css/${name}`)),
  outdir: out,
  bundle: true,
  minify: true,
  external: ["*.svg"],
  logLevel: "warning",
  plugins: [bootstrap],
});
await cp(path("images"), `${out}/images`, { recursive: true });
console.log("static/build/ is ready");
