// Keeps addresses out of the lock file: what is left of them are the packages' appeals for money.
import { readFile, writeFile } from "node:fs/promises";

const lock = JSON.parse(await readFile("package-lock.json", "utf8"));
for (const entry of Object.values(lock.packages)) delete entry.funding;
await writeFile("package-lock.json", `${JSON.stringify(lock, null, 2)}\n`);
