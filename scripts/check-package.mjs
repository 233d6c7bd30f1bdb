/**
 * Checks the package that users get: packs it, checks the tarball (publint, attw), and installs it into a project outside
 * of this repository. Runs a parent and a worker there, in JavaScript and in TypeScript, against its own Redis and offline
 * model. `--all-nodes` also runs them on Node 22, 24 and 26 (binaries from the registry).
 * Needs redis-server (or REDIS_SERVER_BIN); removes its files.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const root = join(import.meta.dirname, "..");
const OTHER_NODES = ["22", "24", "26"];
const STEP_MS = 60_000;
/** The two output lines of each sample, the same on every Node version. */
const EXPECTED = {
  "parent.js": ["succeeded 2 write_file", "data_collector reply true"],
  "built/parent.js": ["succeeded 2 write_file", "data_collector 20 unknown_agent"],
};

const say = (line) => process.stdout.write(`${line}\n`);
const manifest = (directory) => JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));

function run(command, args, cwd = root) {
  const { status, stdout } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", 2],
  });
  if (status === 0) return stdout;
  throw new Error(`${command} ${args.join(" ")}\n${stdout}`);
}

const bin = (name) => join(root, "node_modules", ".bin", name);
/** Matches the lines that an install may print: its summary, BullMQ's script that npm skips, and npm settings of the host. */
const INSTALL_MAY_SAY =
  /^(?:|added \d+ packages.*|npm warn install-scripts.*|npm warn Unknown \w+ config.*)$/;
const install = (directory, ...names) =>
  run(
    "npm",
    ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", ...names],
    directory,
  );

function pack(directory) {
  run("npm", ["pack", "--loglevel=error", "--pack-destination", directory]);
  const tarball = join(directory, readdirSync(directory).find((name) => name.endsWith(".tgz")) ?? "");
  run(bin("publint"), [tarball, "--strict"]);
  // The package is ESM only: `require` and the module resolution of old compilers are not supported.
  run(bin("attw"), [tarball, "--profile", "esm-only", "--format", "ascii", "--no-emoji"]);
  say(`packed ${(statSync(tarball).size / 1e3).toFixed(0)} kB; publint and attw have no complaint`);
  return tarball;
}

/** Checks the repository field: none (no public address yet, see docs/adr/0056-no-repository-field.md), or an https URL. */
function judgeRepository() {
  const { repository } = manifest(root);
  if (repository === undefined) return say("no repository field: the project has no public address yet");
  const address = String(repository.url ?? repository).replace(/^git\+/, "");
  if (!address.startsWith("https://")) throw new Error(`repository is no https address: ${address}`);
}

/** Creates a project with the package and the samples; compiles the TypeScript samples against the package's types. */
function createProject(directory, tarball) {
  const { devDependencies } = manifest(root);
  cpSync(join(root, "scripts", "check-package"), directory, { recursive: true });
  writeFileSync(
    join(directory, "package.json"),
    '{ "name": "scratch", "private": true, "type": "module" }\n',
  );
  installQuietly(directory, tarball);
  const tools = ["typescript", "@types/node"].map((name) => `${name}@${devDependencies[name]}`);
  install(directory, ...tools);
  run(process.execPath, [join(directory, "node_modules", "typescript", "bin", "tsc")], directory);
  say(
    `installed and compiled in a project of its own: ${manifest(directory).dependencies["subagent-queue"]}`,
  );
}

/** Installs the package as the README says; throws if npm prints an unexpected line. */
function installQuietly(directory, tarball) {
  const { status, stdout, stderr } = spawnSync("npm", ["install", tarball, "--no-audit", "--no-fund"], {
    cwd: directory,
    encoding: "utf8",
  });
  const lines = `${stdout}\n${stderr}`.split("\n").map((line) => line.trimEnd());
  const unexpected = lines.filter((line) => !INSTALL_MAY_SAY.test(line));
  if (status !== 0 || unexpected.length > 0) throw new Error(`npm install said:\n${unexpected.join("\n")}`);
}

/** Checks that `run` on a host without Redis says how to get one. */
function runWithoutRedis(directory) {
  const main = join(directory, "node_modules", "subagent-queue", "dist", "cli", "main.js");
  const env = { ...process.env, PATH: "/nowhere", REDIS_URL: "", REDIS_SERVER_BIN: "" };
  const { status, stderr } = spawnSync(process.execPath, [main, "run", "x"], {
    cwd: directory,
    env,
    encoding: "utf8",
  });
  if (status !== 3 || !stderr.includes("npm install js-redis-server@0.3.0"))
    throw new Error(`run without a Redis ended with ${status}:\n${stderr}`);
  say("without any Redis it says which ones there are");
}

/** Loads all entry points of the package. */
function loadEntries(directory) {
  const names = Object.keys(manifest(root).exports).filter((each) => !each.endsWith(".json"));
  for (const name of names) {
    const entry = `subagent-queue${name.slice(1)}`;
    run(process.execPath, ["--input-type=module", "-e", `await import("${entry}")`], directory);
  }
  say(`each of its ${names.length} entries can be loaded`);
}

/** Returns the paths of the Node binaries to test; installs those of the other versions if `all`. */
function nodes(directory, all) {
  if (!all) return [process.execPath];
  const others = OTHER_NODES.map((major) => {
    const place = join(directory, `node-${major}`);
    mkdirSync(place);
    const name = `node-${process.platform}-${process.arch}`;
    install(place, "--prefix", place, `${name}@${major}`);
    return join(place, "node_modules", name, "bin", "node");
  });
  return [process.execPath, ...others];
}

/** Starts a process; resolves to it and its line that matches `ready`. */
async function start(command, args, { cwd, env, ready }) {
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", 2] });
  const lines = createInterface({ input: child.stdout });
  const late = setTimeout(() => child.kill("SIGKILL"), STEP_MS);
  try {
    for await (const line of lines) if (ready.test(line)) return { child, line };
  } finally {
    clearTimeout(late);
    child.stdout.resume();
  }
  throw new Error(`${command} ${args.join(" ")} ended before it was ready`);
}

async function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), STEP_MS);
  await once(child, "exit");
  clearTimeout(late);
  return child.exitCode;
}

/** Runs each sample on `node`: one worker and one parent. */
async function trySamples(node, cwd, env) {
  const version = run(node, ["--version"]).trim();
  for (const [parent, expected] of Object.entries(EXPECTED)) {
    const { child } = await start(node, [parent.replace("parent", "worker")], { cwd, env, ready: /^ready$/ });
    try {
      const { status, stdout } = spawnSync(node, [parent], {
        cwd,
        env: { ...process.env, ...env },
        encoding: "utf8",
        stdio: ["ignore", "pipe", 2],
        timeout: STEP_MS,
      });
      const said = stdout.trim().split("\n");
      if (status !== 0 || said.join("\n") !== expected.join("\n")) {
        throw new Error(`${parent} on Node ${version} ended with ${status} and said:\n${stdout}`);
      }
    } finally {
      const code = await stop(child);
      if (code !== 0) process.exitCode = 1;
      say(`Node ${version}: ${parent} got its replies; its worker ended with ${code}`);
    }
  }
}

async function check(directory) {
  judgeRepository();
  const tarball = pack(directory);
  const cwd = join(directory, "project");
  mkdirSync(cwd);
  createProject(cwd, tarball);
  loadEntries(cwd);
  runWithoutRedis(cwd);
  const socket = join(directory, "redis.sock");
  const options = ["--port", "0", "--unixsocket", socket, "--dir", directory, "--save", ""];
  const redis = await start(process.env.REDIS_SERVER_BIN ?? "redis-server", options, {
    cwd: directory,
    ready: /ready to accept connections/i,
  });
  const cli = join(cwd, "node_modules", ".bin", "subagent-queue");
  const model = await start(cli, ["offline-model", "--port", "0"], { cwd, ready: /^ready: / });
  const env = {
    REDIS_URL: `unix://${socket}`,
    ANTHROPIC_BASE_URL: model.line.slice("ready: ANTHROPIC_BASE_URL=".length),
  };
  try {
    for (const node of nodes(directory, process.argv.includes("--all-nodes"))) {
      await trySamples(node, cwd, env);
      spawnSync("redis-cli", ["-s", socket, "flushall"]);
    }
  } finally {
    await stop(model.child);
    await stop(redis.child);
  }
}

const directory = mkdtempSync(join(tmpdir(), "check-package-"));
try {
  await check(directory);
} catch (failure) {
  process.stderr.write(`check failed: ${failure.message}\n`);
  process.exitCode = 1;
} finally {
  rmSync(directory, { recursive: true, force: true });
}
