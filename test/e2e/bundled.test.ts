/** Guarantee: a parent works in one file that a bundler made of it and all its packages; a worker or an API says that it does not. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnNode } from "../helpers/processes.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";

const GREETER = '---\nname: greeter\ndescription: "Greets."\ntools: [write_file]\n---\nGreet.\n';

/** Gives the packages in a bundled module the `require` that modules lack. */
const WITH_REQUIRE =
  'import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);';

/** Bundles a program with the built package, and runs it in a folder without any package; returns its lines. */
async function runBundled(fixture: string, format: "cjs" | "esm"): Promise<readonly string[]> {
  const directory = mkdtempSync(join(tmpdir(), "bundled-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  mkdirSync(join(directory, "agents"));
  writeFileSync(join(directory, "agents", "greeter.md"), GREETER);
  // Two folders above the program, where the package has its package.json, is that of the user's project.
  writeFileSync(join(directory, "package.json"), JSON.stringify({ name: "service", version: "1.0.0" }));
  const program = join(directory, "dist", "bundle", `program.${format === "cjs" ? "cjs" : "mjs"}`);
  await build({
    entryPoints: [`test/helpers/fixtures/${fixture}`],
    outfile: program,
    bundle: true,
    platform: "node",
    format,
    banner: { js: format === "esm" ? WITH_REQUIRE : "" },
    logLevel: "error",
    // Without the paths of tsconfig.json the name of the package means what it does to users: its built entry point.
    tsconfigRaw: {},
  });
  const env = { REDIS_URL: redisUrl(), PREFIX: uniquePrefix(), AGENTS: join(directory, "agents") };
  const running = await spawnNode(program, { cwd: directory, env });
  await running.closed;
  expect(running.stderr).toEqual([]);
  return running.stdout;
}

const SAID = ["greeter queued", expect.stringMatching(/^\{"level":40,.*"msg":"destroyed"\}$/)];

test("a parent in one CommonJS file uses definitions, the queue and a logger", async () => {
  expect(await runBundled("bundled-parent.ts", "cjs")).toEqual(SAID);
});

test("a parent in one module does so too, if the packages in it are given a require", async () => {
  expect(await runBundled("bundled-parent.ts", "esm")).toEqual(SAID);
});

test.each(["cjs", "esm"] as const)(
  "a worker and an API in one %s file say that they need their package",
  async (format) => {
    const refused = expect.stringMatching(
      /^setup_failed: .* tell the bundler that subagent-queue is external/,
    );
    expect(await runBundled("bundled-worker.ts", format)).toEqual([refused, refused]);
  },
);
