import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnNode } from "../helpers/processes.ts";

interface Packages {
  [path: string]: { version: string; optional?: boolean };
}

const wanted: Packages = {
  "": { version: "0.1.0" },
  "node_modules/zod": { version: "4.6.7" },
  "node_modules/fsevents": { version: "2.3.3", optional: true },
};

/** Runs the script in a repository with these lock files and an npm that only writes down how it was called. */
async function run(installed: Packages | undefined, npmExitCode = 0) {
  const root = await mkdtemp(join(tmpdir(), "install-"));
  closeAtEnd(() => rm(root, { recursive: true }));
  await cp("scripts/ensure-installed.mjs", join(root, "scripts/ensure-installed.mjs"), { recursive: true });
  await writeFile(join(root, "package-lock.json"), JSON.stringify({ packages: wanted }));
  if (installed !== undefined) {
    await mkdir(join(root, "node_modules"));
    await writeFile(join(root, "node_modules/.package-lock.json"), JSON.stringify({ packages: installed }));
  }
  const npm = join(root, "npm-cli.js");
  const calls = join(root, "calls");
  const record = `require("node:fs").appendFileSync(${JSON.stringify(calls)}, process.argv.slice(2).join(" "))`;
  await writeFile(npm, `${record}; process.exitCode = ${npmExitCode};`);
  const script = await spawnNode(join(root, "scripts/ensure-installed.mjs"), { env: { npm_execpath: npm } });
  const { code } = await script.closed;
  return {
    code,
    said: script.stderr,
    stdout: script.stdout,
    npm: await readFile(calls, "utf8").catch(() => ""),
  };
}

test("nothing is said or done when what is installed is what the lock file asks for", async () => {
  const { "node_modules/fsevents": _leftOut, "": _root, ...installed } = wanted;
  expect(await run(installed)).toEqual({ code: 0, said: [], stdout: [], npm: "" });
});

test("a fresh clone is installed with npm ci, in one line that says why", async () => {
  const { code, said, stdout, npm } = await run(undefined);
  expect({ code, stdout }).toEqual({ code: 0, stdout: [] });
  expect(said).toEqual(["installing dependencies with npm ci (nothing is installed yet)"]);
  expect(npm).toMatch(/^ci --include=dev --ignore-scripts /);
});

test.for<[string, Packages]>([
  ["another version is installed", { "node_modules/zod": { version: "4.0.0" } }],
  ["a package is missing", {}],
  [
    "a package is left over",
    { "node_modules/zod": { version: "4.6.7" }, "node_modules/left": { version: "1.0.0" } },
  ],
  [
    "another version of an optional package is installed",
    { "node_modules/zod": { version: "4.6.7" }, "node_modules/fsevents": { version: "1.0.0" } },
  ],
])("npm ci runs when %s", async ([, installed]) => {
  expect((await run(installed)).npm).toMatch(/^ci /);
});

test("a failing npm ci stops the command that asked for it", async () => {
  expect((await run(undefined, 7)).code).toBe(7);
});
