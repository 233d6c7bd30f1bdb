/**
 * Runs the tests nearest to the changed files, in seconds: `npm run test:changed` takes the uncommitted files,
 * `npm run test:changed -- <path>…` the named files. `--list` prints the test files and runs none. Fails if a changed
 * source has no test, because a run without tests proves nothing.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { globSync } from "tinyglobby";

const ROOT = join(import.meta.dirname, "..");
const VERBS = "test/integration/verbs/*.test.ts";
/** A run from its beginning to its ack. */
const WHOLE_RUN = "test/integration/verbs/{spawn,claim,run,settle,ack}.test.ts";
const SERVICE = "test/integration/service";
/** Slow tests, which only `npm test` runs. */
const LONG = ["test/integration/verbs/interleaving.test.ts", "test/integration/verbs/cluster.test.ts"];

/**
 * Tests of whole rooms, by the path of the source; they run beside the source's own tests. Of unit tests only those run that
 * import the source by any way: the others cannot see its change.
 */
const ROOMS = [
  [/^src\/shared\/protocol\//, ["test/unit/shared/**/*.test.ts"]],
  [/^src\/worker\/(run\/|[^/]+\.ts$)/, ["test/integration/worker/{one-run,conversation}.test.ts"]],
  [/^src\/worker\/observe\//, ["test/integration/worker/{metrics,spans}.test.ts"]],
  [/^src\/worker\/(skills|hooks)\//, ["test/integration/worker/{skills,hooks}.test.ts"]],
  [/^src\/worker\/tools\/parent-files/, ["test/integration/worker/files.test.ts"]],
  [/^src\/worker\/tools\/mcp\//, ["test/integration/worker/mcp-client.test.ts"]],
  [/^src\/producer\//, ["test/integration/producer/{spawn,managing}.test.ts"]],
  [
    /^src\/service\/(api\/|index)/,
    [`${SERVICE}/{api,auth,body,files,parents,problems,profile,replies,tenants}.test.ts`],
  ],
  [/^src\/service\/api\/(routes\/|openapi|schema|document-page)/, [`${SERVICE}/openapi.test.ts`]],
  [/^src\/service\/api\/(routes\/events|event-stream|live-page)/, [`${SERVICE}/streams.test.ts`]],
  [
    /^src\/service\/(api\/routes\/replies|api\/reply-read|mcp\/|agent-protocol\/)/,
    [`${SERVICE}/acks.test.ts`],
  ],
  [/^src\/service\/(agent-protocol|mcp|board)\//, [`${SERVICE}/{agent-protocol,mcp,board}.test.ts`]],
  [
    /^src\/(producer|service\/api\/routes)\/(due-)?schedules/,
    [`${SERVICE}/{schedules,due-schedules}.test.ts`],
  ],
  [/^src\/service\/api\/board/, [`${SERVICE}/board.test.ts`]],
  [/^src\/service\/intake\//, [`${SERVICE}/{intake,intake-trouble,due-schedules}.test.ts`]],
  [/^src\/service\/webhooks\//, [`${SERVICE}/webhooks.test.ts`]],
];

/** Files whose tests are chosen among those of the verbs, see {@link verbTestsOf}. */
const OF_VERBS = /^src\/shared\/redis\/(lua\/|[^/]+\.ts$)/;

/** The bugs that are known to turn a test red, see `scripts/mutants.mjs`. */
const MUTANTS = await Promise.all(
  globSync("test/mutants/*.mjs", { cwd: ROOT }).map((list) => import(pathToFileURL(join(ROOT, list)).href)),
).then((lists) => lists.flatMap((list) => list.default));

/** The files that each file imports, read once. */
const IMPORTS = new Map();

const listOnly = process.argv.includes("--list");
const named = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const changed = named.length > 0 ? named : uncommitted();
const tests = new Set(changed.flatMap(testsOf));
const untested = changed.filter(
  (path) => /^src\/.*\.([cm]?ts|lua)$/.test(path) && testsOf(path).length === 0,
);
if (changed.some((path) => /^src\/.*\.[cm]?ts$/.test(path))) tests.add("test/architecture.test.ts");

if (untested.length > 0) {
  console.error(`no test is near ${untested.join(", ")}: name one in scripts/test-changed.mjs`);
  process.exitCode = 1;
}
if (listOnly) console.log([...tests].sort().join("\n"));
else if (tests.size === 0) console.log("nothing has changed that a test is about");
else process.exitCode = run([...tests]) || process.exitCode;

function run(files) {
  const projects = ["shared-process", "redis*"].flatMap((name) => ["--project", name]);
  // Not by npx, which takes half a second.
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  // Compiled sources are kept from one call to the next, by a digest of each. Each process spends 1.7 s on loading them.
  const options = ["--experimental.fsModuleCache", "--maxWorkers=3", ...projects];
  const { status } = spawnSync(process.execPath, [vitest, "run", ...options, ...files], {
    cwd: ROOT,
    stdio: "inherit",
  });
  return status ?? 1;
}

function uncommitted() {
  const git = (...args) =>
    execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).split("\n").filter(Boolean);
  return [...git("diff", "--name-only", "HEAD"), ...git("ls-files", "--others", "--exclude-standard")];
}

/** Returns the test files to run for one changed path. */
function testsOf(path) {
  // These files repeat others on another kind of Redis, in their own vitest projects.
  if (path.startsWith("test/on-")) return [];
  if (path.endsWith(".test.ts")) return existing([path]);
  if (!path.startsWith("src/")) return [];
  const beside = join("test/unit", dirname(path).slice("src".length), basename(path).replace(/\.[^.]+$/, ""));
  const own = existing([`${beside}.test.ts`, `${beside}.*.test.ts`]);
  const room = ROOMS.flatMap(([pattern, globs]) => (pattern.test(path) ? existing(globs) : [])).filter(
    (test) => !test.startsWith("test/unit/") || reaches(test, path),
  );
  const near = [...own, ...room, ...(OF_VERBS.test(path) ? verbTestsOf(path) : [])];
  return near.length > 0 ? near : importers(path);
}

/**
 * Returns the tests of the verbs that bear the file's name or are known to find bugs in it. If there are none: other tests
 * that do; else all for a script, a whole run for a source. All take half a minute: almost each of them spawns, sends and claims.
 */
function verbTestsOf(path) {
  const name = basename(path).replace(/\.[^.]+$/, "");
  const all = existing([VERBS]);
  const finders = [...new Set(MUTANTS.filter(({ file }) => file === path).flatMap(({ tests }) => tests))];
  const near = all.filter((test) => finders.includes(test) || basename(test).split(".")[0] === name);
  if (near.length > 0) return near;
  if (finders.length > 0) return finders;
  return path.endsWith(".lua") ? all : existing([WHOLE_RUN]);
}

/** Returns whether a file imports the source, itself or through others. Any path in quotes counts as an import. */
function reaches(from, source) {
  const files = new Set([from]);
  for (const file of files) {
    if (file === source) return true;
    for (const imported of importsOf(file)) files.add(imported);
  }
  return false;
}

function importsOf(file) {
  if (!IMPORTS.has(file)) {
    const text = existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), "utf8") : "";
    const paths = [...text.matchAll(/["'](\.{1,2}\/[^"'\n]+\.[cm]?ts)["']/g)];
    IMPORTS.set(
      file,
      paths.map(([, path]) => join(dirname(file), path)),
    );
  }
  return IMPORTS.get(file);
}

/** Returns the quick tests that import the source directly; else any test that does; else the unit tests beside it that reach it. */
function importers(path) {
  const tail = path.slice("src/".length);
  const of = (glob) =>
    existing([glob]).filter((test) => readFileSync(join(ROOT, test), "utf8").includes(`/src/${tail}"`));
  const quick = of("test/unit/**/*.test.ts");
  if (quick.length > 0) return quick;
  const any = of("test/{integration,e2e}/**/*.test.ts");
  if (any.length > 0) return any;
  const around = existing([join("test/unit", dirname(path).slice("src".length), "**/*.test.ts")]);
  const reaching = around.filter((test) => reaches(test, path));
  return reaching.length > 0 ? reaching : around;
}

function existing(globs) {
  return globs.flatMap((glob) => globSync(glob, { cwd: ROOT })).filter((path) => !LONG.includes(path));
}
