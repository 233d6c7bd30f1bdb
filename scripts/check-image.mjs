/**
 * Runs the Dockerfile's steps without a container engine: copies the context by .dockerignore, runs the build stage's RUN
 * lines, copies the final stage's files. Then runs the image's command as an unprivileged user, against its own Redis, until
 * SIGTERM. Prints the image's size. Needs root (to change users) and redis-server (or REDIS_SERVER_BIN); removes its files.
 *
 * Supports in .dockerignore: `*` first, then `!path` lines. In the Dockerfile: what test/deploy/image.test.ts knows.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";

const root = join(import.meta.dirname, "..");
/** Uid of a user that owns no files: `node` in the image, `nobody` here. */
const NOBODY = 65_534;
const READY_MS = 30_000;
const STOP_MS = 30_000;

function readLines(name) {
  const text = readFileSync(join(root, name), "utf8").replaceAll("\\\n", " ");
  return text.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
}

function copyContext(target) {
  const [first, ...rest] = readLines(".dockerignore");
  if (first !== "*" || !rest.every((line) => line.startsWith("!")))
    throw new Error("unknown form of .dockerignore");
  for (const line of rest)
    cpSync(join(root, line.slice(1)), join(target, line.slice(1)), { recursive: true });
}

/** Returns the stages of the Dockerfile as lists of [instruction, rest] pairs. */
function stages() {
  const parsed = [];
  for (const line of readLines("Dockerfile")) {
    const [name, ...words] = line.split(" ");
    if (name === "FROM") parsed.push([]);
    else parsed.at(-1)?.push([name, words.join(" ")]);
  }
  return parsed;
}

function run(command, cwd) {
  const { status } = spawnSync("sh", ["-c", command], { cwd, stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new Error(`failed: ${command}`);
}

/** Does a COPY of the Dockerfile; `/app` and relative paths become paths in `app`. */
function copy(rest, from, app) {
  const words = rest.split(" ").filter((word) => !word.startsWith("--"));
  const target = words.pop() ?? "";
  for (const source of words) {
    const path = join(from, source.replace(/^\/app\//, ""));
    const into = target.endsWith("/") ? join(target, basename(source)) : target;
    cpSync(path, join(app, into), { recursive: true, verbatimSymlinks: true });
  }
}

function build(stage, context, app) {
  mkdirSync(app, { recursive: true });
  for (const [name, rest] of stage) {
    if (name === "COPY") copy(rest, context, app);
    else if (name === "RUN") run(rest, app);
  }
}

function measure(path) {
  const stat = lstatSync(path);
  if (!stat.isDirectory()) return { bytes: stat.size, files: 1 };
  const below = readdirSync(path).map((name) => measure(join(path, name)));
  const sum = (key) => below.reduce((total, each) => total + each[key], 0);
  return { bytes: sum("bytes"), files: sum("files") };
}

async function startRedis(directory) {
  mkdirSync(directory);
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  const options = ["--port", String(port), "--bind", "127.0.0.1", "--dir", directory, "--save", ""];
  const binary = process.env.REDIS_SERVER_BIN ?? "redis-server";
  const production = ["--appendonly", "yes", "--maxmemory-policy", "noeviction"];
  return { url: `redis://127.0.0.1:${port}`, server: spawn(binary, [...options, ...production]) };
}

/** Starts the image's command and sends SIGTERM when it is ready; resolves to its exit code. */
async function runCommand(stage, app, home, redisUrl) {
  const json = (name) => JSON.parse(stage.find(([instruction]) => instruction === name)[1]);
  const [program, ...args] = [...json("ENTRYPOINT"), ...json("CMD")].map((word) => word.replace("/app", app));
  if (program !== "node") throw new Error(`the entry point is ${program}`);
  const env = { PATH: process.env.PATH, HOME: home, REDIS_URL: redisUrl };
  for (const [name, rest] of stage)
    if (name === "ENV") Object.assign(env, Object.fromEntries([rest.split("=")]));
  env.SUBAGENT_WORKSPACES = join(home, "workspaces");
  const child = spawn(process.execPath, args, { cwd: app, env, uid: NOBODY, gid: NOBODY });
  child.stderr.pipe(process.stderr);
  const late = setTimeout(() => child.kill("SIGKILL"), READY_MS + STOP_MS);
  createInterface({ input: child.stdout }).on("line", (line) => {
    process.stdout.write(`${line}\n`);
    if (line.startsWith("ready: ")) child.kill("SIGTERM");
  });
  const [code, signal] = await once(child, "close");
  clearTimeout(late);
  return code ?? signal;
}

async function check(directory) {
  const [building, final] = stages();
  const [context, built, image, home] = ["context", "build", "image", "home"].map((name) =>
    join(directory, name),
  );
  const app = join(image, "app");
  mkdirSync(context);
  copyContext(context);
  build(building, context, built);
  const whole = measure(built);
  for (const [name, rest] of final.filter(([instruction]) => instruction === "COPY")) {
    mkdirSync(app, { recursive: true });
    if (name === "COPY") copy(rest, rest.startsWith("--from=build") ? built : context, app);
  }
  const [dependencies, dist] = [measure(join(app, "node_modules")), measure(join(app, "dist"))];
  const said = ({ bytes, files }) => `${(bytes / 1e6).toFixed(1)} MB in ${files} files`;
  process.stdout.write(
    `build stage ${said(whole)}; image: node_modules ${said(dependencies)}, dist ${said(dist)}\n`,
  );
  for (const unwanted of ["typescript", "vitest", "playwright-core"])
    if (existsSync(join(app, "node_modules", unwanted))) throw new Error(`${unwanted} is in the image`);

  mkdirSync(home);
  chownSync(home, NOBODY, NOBODY);
  chmodSync(directory, 0o755);
  const { url, server } = await startRedis(join(directory, "redis"));
  try {
    const ending = await runCommand(final, app, home, url);
    if (ending !== 0) throw new Error(`the command ended with ${ending} and not with 0`);
    process.stdout.write(`the command ran as uid ${NOBODY} and ended with 0 after SIGTERM\n`);
  } finally {
    server.kill("SIGKILL");
  }
}

const directory = mkdtempSync(join(tmpdir(), "check-image-"));
try {
  if (process.getuid?.() !== 0) throw new Error("run it as root: it starts the command as another user");
  await check(directory);
} catch (failure) {
  process.stderr.write(`check failed: ${failure.message}\n`);
  process.exitCode = 1;
} finally {
  rmSync(directory, { recursive: true, force: true });
}
