/**
 * Every code block of the README does what it says, in a project of its own that has the package as it is packed: compiled as
 * TypeScript, run as ES modules, loaded from CommonJS, pasted into a shell. Addresses and paths are the test's.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { startApi } from "./helpers/api.ts";
import { closeAtEnd } from "./helpers/cleanup.ts";
import { until } from "./helpers/until.ts";
import { type OwnStage, openStage } from "./stage/stage.ts";

const ROOT = join(import.meta.dirname, "..");
const exec = promisify(execFile);
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

/** The blocks in their order, and what stands for each here. */
const NAMES = ["clone", "install", "parent.ts", "worker", "own-worker.ts", "languages", "shell"] as const;
const blocks = [
  ...readFileSync(join(ROOT, "README.md"), "utf8").matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm),
].map(([, language, text = ""]) => ({ language, text }));
const block = (name: (typeof NAMES)[number]): string => blocks[NAMES.indexOf(name)]?.text ?? "";

let stage: OwnStage;
let project: string;
let env: Record<string, string>;

/** A block with the addresses of this test in the place of the README's. */
function here(name: (typeof NAMES)[number], api = ""): string {
  return block(name)
    .replaceAll(/redis:\/\/(host|127\.0\.0\.1):6379/g, stage.url)
    .replaceAll("redis-cli ", `redis-cli -p ${stage.server.port} `)
    .replaceAll("http://127.0.0.1:8787", api)
    .replaceAll("/srv/workspaces", join(project, "workspaces"));
}

/** Runs in the project; resolves with what was printed. */
async function run(command: string, ...args: string[]): Promise<string> {
  return (await exec(command, args, { cwd: project, env })).stdout;
}

/** Starts a service in the project, as a group that ends with the test, and waits for its line. */
async function serve(line: RegExp, command: string, ...args: string[]): Promise<void> {
  const child = spawn(command, args, {
    cwd: project,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  closeAtEnd(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGTERM");
    await closed;
  });
  for await (const said of createInterface({ input: child.stdout })) if (line.test(said)) break;
  child.stdout.resume();
}

/** A project that has the package as a tarball holds it; what the package depends on is this repository's. */
async function createProject(directory: string): Promise<void> {
  await exec("npm", ["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", directory], {
    cwd: ROOT,
  });
  const installed = join(directory, "node_modules", "subagent-queue");
  mkdirSync(installed, { recursive: true });
  await exec("tar", [
    "-xzf",
    join(directory, `subagent-queue-${manifest.version}.tgz`),
    "--strip-components=1",
    "-C",
    installed,
  ]);
  const { dependencies, peerDependencies, peerDependenciesMeta } = manifest;
  const peers = Object.keys(peerDependencies).filter((name) => !(name in peerDependenciesMeta));
  for (const name of [...Object.keys(dependencies), ...peers, "@types/node"]) {
    const place = join(directory, "node_modules", name);
    mkdirSync(dirname(place), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), place);
  }
  mkdirSync(join(directory, "node_modules", ".bin"));
  symlinkSync(
    join(installed, manifest.bin["subagent-queue"]),
    join(directory, "node_modules", ".bin", "subagent-queue"),
  );
  writeFileSync(
    join(directory, "package.json"),
    '{ "name": "scratch", "private": true, "type": "module" }\n',
  );
}

beforeAll(async () => {
  project = mkdtempSync(join(tmpdir(), "readme-"));
  closeAtEnd(() => rmSync(project, { recursive: true, force: true }));
  await createProject(project);
  stage = await openStage({ redis: "own", prefix: "saq" });
  env = {
    PATH: process.env.PATH ?? "",
    HOME: project,
    // What npx cannot find in the project must not be looked for elsewhere.
    npm_config_offline: "true",
    ANTHROPIC_API_KEY: "offline",
    ANTHROPIC_BASE_URL: stage.offline.url,
  };
  await serve(/^ready: worker/, "sh", "-c", here("worker"));
  // npx finds the package here, as the worker has shown; to look for it each time costs as much as the command.
  const bin = join(project, "node_modules", ".bin");
  const [found, stand] = [join(project, "found"), join(project, "found", "npx")];
  mkdirSync(found);
  writeFileSync(stand, `#!/bin/sh\nname=$1; shift; exec '${bin}'/"$name" "$@"\n`, { mode: 0o755 });
  env.PATH = `${found}:${env.PATH}`;
});

test("each block is known here, by its place", () => {
  expect(blocks.map(({ language }) => language)).toEqual(
    NAMES.map((name) => (name.endsWith(".ts") ? "ts" : "sh")),
  );
});

test("the first two name scripts and a file that there are", () => {
  const scripts = [...block("clone").matchAll(/^npm (\w+)/gm)].map(([, name = ""]) => name);
  expect(scripts.length).toBeGreaterThan(0);
  for (const name of scripts) expect(manifest.scripts).toHaveProperty(name);
  expect(block("install")).toContain(`/subagent-queue-${manifest.version}.tgz`);
});

test("the parent and the worker with its own tool compile strictly, and run", async () => {
  writeFileSync(join(project, "parent.ts"), here("parent.ts"));
  const orders = "const orders = { find: async (number: string) => ({ number }) };\n";
  writeFileSync(join(project, "own-worker.ts"), orders + here("own-worker.ts"));
  const compilerOptions = {
    ...{ target: "ES2023", module: "NodeNext", types: ["node"], strict: true, skipLibCheck: true },
    outDir: "built",
  };
  const files = ["parent.ts", "own-worker.ts"];
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  await run(process.execPath, join(ROOT, "node_modules", "typescript", "bin", "tsc"), "--checkers", "1");
  const said = await run(process.execPath, "built/parent.js");
  expect(said).toMatch(/^succeeded /m);
  expect(said).toMatch(/^data_collector succeeded /m);
  const worker = spawn(process.execPath, ["built/own-worker.js"], { cwd: project, env, stdio: "inherit" });
  const closed = once(worker, "close");
  closeAtEnd(() => void worker.kill("SIGKILL"));
  const tools = async () => {
    const found = await stage.redis.mget(
      (await stage.redis.smembers(stage.keys.workers)).map(stage.keys.worker),
    );
    return found.join();
  };
  await until(async () => (await tools()).includes("look_up_order"), { what: "its tool" });
  worker.kill("SIGTERM");
  expect(await closed).toEqual([0, null]);
});

test("CommonJS imports every entry; it requires them where this Node can, and is told why where it cannot", async () => {
  const entries = Object.keys(manifest.exports)
    .filter((each) => !each.endsWith(".json"))
    .map((each) => `subagent-queue${each.slice(1)}`);
  const file = join(project, "load.cjs");
  const loaded = "console.log(Object.keys(each).length > 0)";
  writeFileSync(file, entries.map((name) => `import("${name}").then((each) => ${loaded});`).join("\n"));
  expect(await run(process.execPath, file)).toBe("true\n".repeat(entries.length));
  writeFileSync(file, entries.map((name) => `{ const each = require("${name}"); ${loaded}; }`).join("\n"));
  const required = run(process.execPath, file);
  if (Reflect.get(process.features, "require_module"))
    expect(await required).toBe("true\n".repeat(entries.length));
  else await expect(required).rejects.toThrow("ERR_REQUIRE_ESM");
});

test("what is handed in from any language gets its reply", async () => {
  const client = stage.client({ model: "offline-1" });
  const api = await startApi({ client });
  env.REDIS_URL = stage.url;
  const said = await run("sh", "-ec", here("languages", api.url));
  expect(said).toContain('"status":"succeeded"');
  expect(said).toContain("morning");
  const seen: string[] = [];
  for await (const entry of stage.parent("shell").replies()) {
    seen.push(entry.kind === "reply" ? entry.status : entry.kind);
    await entry.ack();
    break;
  }
  expect(seen).toEqual(["succeeded"]);
});

test("the shell's lines work one after the other", async () => {
  const said = await run("sh", "-ec", here("shell"));
  expect(said).toMatch(/^✔ Which testing framework .*succeeded$/m);
  expect(said).toMatch(/^data_collector$/m);
  expect(said).toMatch(/saq_\w+/);
});
