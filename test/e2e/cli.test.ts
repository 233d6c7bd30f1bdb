/**
 * The built command line as real processes: `npm run build` comes first (npm test does it by itself). What is shown by words and
 * exit codes alone is the same program in this process, where one case of its kind is a real one.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { formatPlural, formatUsd } from "../../src/cli/terminal/numbers.ts";
import { EXPECTED } from "../../src/shared/config.ts";
import { sumUsage } from "../../src/shared/protocol/usage.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { bundled } from "../helpers/bundle.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type NodeProcess, spawnBuilt, spawnInstalled } from "../helpers/processes.ts";
import { runHere, type Said, startHere } from "../helpers/program.ts";
import { redisUrl, startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";
import { freePort } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";

const EVERY_VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
/** Nothing of the surroundings decides what the command does. */
const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => EVERY_VARIABLE.test(name))
    .map((name) => [name, undefined]),
);

interface Project {
  /** Where the command is started: a small project with known answers. */
  directory: string;
  /** Where it makes its temporary files. */
  temporary: string;
  env: Record<string, string | undefined>;
}

function project(): Project {
  const [directory = "", temporary = ""] = ["cli-", "cli-tmp-"].map((name) =>
    mkdtempSync(join(tmpdir(), name)),
  );
  closeAtEnd(() =>
    [directory, temporary].forEach((path) => void rmSync(path, { recursive: true, force: true })),
  );
  writeFileSync(join(directory, "package.json"), '{"devDependencies":{"mocha":"11.2.3"}}\n');
  writeFileSync(join(directory, "greet.lua"), "-- greet: says hello to whoever asks\nreturn 1\n");
  writeFileSync(join(directory, "a.js"), "// TODO one\n// TODO two\n");
  return { directory, temporary, env: { ...CLEAN, TMPDIR: temporary } };
}

function start(args: readonly string[], { directory, env }: Project, more = {}) {
  return spawnBuilt(args, { cwd: directory, env: { ...env, ...more } });
}

/** The same as users have it installed. */
function startInstalled(args: readonly string[], { directory, env }: Project) {
  return spawnInstalled(args, { cwd: directory, env });
}

/** Has the program carry out a command in this process; what every command shares needs no process for each. */
function here(args: readonly string[], { directory, env }: Project, more = {}): Promise<Said> {
  return runHere(args, { cwd: directory, env: { ...env, ...more } });
}

/** The same for one that stays up. */
function stay(args: readonly string[], { directory, env }: Project, more = {}) {
  return startHere(args, { cwd: directory, env: { ...env, SUBAGENT_LOG_LEVEL: "warn", ...more } });
}

/** The private Redis of a command, and the shell that watches it. */
function redisProcessesOf({ temporary }: Project): string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`${temporary}/subagent-queue-`);
    } catch {
      return false;
    }
  });
}

async function expectNothingLeft(place: Project): Promise<void> {
  await until(() => redisProcessesOf(place).length === 0, { what: "the private Redis to be gone" });
  await until(() => readdirSync(place.temporary).length === 0, { what: "its directory to be gone" });
}

/** One sentence on stderr, no stack trace. */
function expectOneSentence(ended: Pick<NodeProcess, "stdout" | "stderr">, sentence: RegExp): void {
  expect(ended.stderr).toHaveLength(1);
  expect(ended.stderr[0]).toMatch(sentence);
  expect(ended.stdout).toEqual([]);
}

test("start --once asks three sub-agents about the directory, prints their replies and leaves nothing", async () => {
  const place = project();
  const started = await startInstalled(["start", "--once"], place);
  const { code } = await started.closed;
  const said = started.stdout.join("\n");
  expect(code, started.stderr.join("\n")).toBe(0);
  expect(said.match(/^✔ .* {2}succeeded$/gm)).toHaveLength(3);
  expect(said).toContain("mocha");
  expect(said).toContain("says hello to whoever asks");
  expect(said).toMatch(/\b2 TODO comments/);
  expect(said).toMatch(/\d turns? · [\d,]+ tokens · \$0 · [\d.]+ s · .*(grep|glob|read_file) ×\d/);
  const aside = started.stderr.join("\n");
  expect(aside).toContain("offline model: answers by rule, NOT an LLM");
  expect(aside).toMatch(/3 of 3 succeeded · \d+ turns/);
  expect(aside).not.toContain("\u001b");
  await expectNothingLeft(place);
});

test("another testing framework in package.json is another answer", async () => {
  const place = project();
  writeFileSync(join(place.directory, "package.json"), '{"devDependencies":{"ava":"6.1.0"}}\n');
  const ended = await here(["run", "Which testing framework does this project use?"], place);
  expect(ended.code).toBe(0);
  expect(ended.stdout.join("\n")).toMatch(/\bava 6\.1\.0\b/);
});

test("start without --once stays up, serves run from another terminal, and ends with the first Ctrl-C", async () => {
  const place = project();
  const service = stay(["start"], place);
  const hint = await service.waitForLine(/^ {2}REDIS_URL=/);
  const address = /REDIS_URL=(\S+)/.exec(hint)?.[1];
  const other = await here(["run", "How many TODO comments are there?"], place, { REDIS_URL: address });
  expect(other.code, other.stderr.join("\n")).toBe(0);
  expect(other.stdout.join("\n")).toMatch(/\b2 TODO comments/);
  expect((await service.kill("SIGINT")).code).toBe(0);
  await expectNothingLeft(place);
});

/** What a shell prints when a line is pasted into it. */
async function paste(line: string, { directory, env }: Project): Promise<string> {
  const given = Object.entries({ ...process.env, ...env }).filter(([, value]) => value !== undefined);
  const { stdout } = await promisify(execFile)("sh", ["-c", line], {
    cwd: directory,
    env: Object.fromEntries(given),
  });
  return stdout;
}

test("start prints three addresses that answer, and two lines that work when they are pasted into a shell", async () => {
  const place = project();
  const service = await start(["start"], place);
  await service.waitForLine("Stop it with Ctrl-C", { timeoutMs: 60_000 });
  const lines = service.stderr.map((line) => line.trim());
  const beginningWith = (word: string) => lines.find((line) => line.startsWith(word)) ?? "";
  for (const door of ["Live page", "HTTP API", "Bull Board"]) {
    const answer = await fetch(beginningWith(door).split(/\s+/).at(-1) ?? "");
    expect(answer.status, door).toBe(200);
    expect(answer.headers.get("content-type"), door).toContain("text/html");
    await answer.body?.cancel();
  }
  const found = { status: "succeeded", summary: expect.stringContaining("2 TODO comments") };
  expect(JSON.parse(await paste(beginningWith("curl"), place))).toMatchObject(found);
  expect(await paste(beginningWith("REDIS_URL="), place)).toContain("2 TODO comments");
  expect((await service.kill("SIGINT")).code).toBe(0);
  await expectNothingLeft(place);
});

test("start takes a free port where the usual one is taken, and refuses at once where the one it was given is", async () => {
  const place = project();
  const server = createServer();
  closeAtEnd(() => void server.close());
  // Where another program has the usual port, it is taken as well.
  server.on("error", () => server.listen(0, "127.0.0.1"));
  server.listen(8787, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const taken = typeof address === "object" ? String(address?.port) : "";
  const refused = await here(["start", "--port", taken], place);
  expect(refused.code).toBe(3);
  expect(refused.stderr.at(-1)).toMatch(/^subagent-queue: The API cannot listen on /);
  expect(refused.stdout).toEqual([]);
  const service = stay(["start"], place);
  const page = await service.waitForLine(/^ {2}Live page/);
  expect(page).not.toContain(":8787/");
  expect((await service.kill("SIGINT")).code).toBe(0);
  await expectNothingLeft(place);
});

test("help names commands as they can be called from where one stands", async () => {
  const ended = await startInstalled(["api", "--help"], project());
  await ended.closed;
  expect(ended.stdout.join("\n")).toMatch(/Usage: subagent-queue api/);
  expect(ended.stdout.join("\n")).toMatch(/REDIS_URL=\S+ node \/\S+\/dist\/cli\/main\.js api$/m);
});

test("no line of a flag's help ends amid a command, where its name would not be found", async () => {
  for (const verb of ["spawn", "api", "schedule", "webhook", "keys"]) {
    const { directory: cwd, env } = project();
    const ended = await runHere([verb, "--help"], { cwd, env, command: "node /x/dist/cli/main.js" });
    const [, ...lines] = ended.stdout;
    expect(lines.join("\n")).not.toMatch(/(?<![\w/-])subagent-queue\s/);
  }
});

test("a kill -9 leaves neither a redis-server nor its directory", async () => {
  const place = project();
  const service = await start(["start"], place);
  await service.waitForLine("The worker keeps running");
  expect(redisProcessesOf(place)).not.toEqual([]);
  await service.kill("SIGKILL");
  await expectNothingLeft(place);
});

/** An offline model that keeps everybody waiting. */
async function slowModel(place: Project): Promise<string> {
  const model = stay(["offline-model", "--port", "0", "--latency-ms", "600000"], place);
  const ready = await model.waitForLine(/^ready: /);
  return ready.slice("ready: ANTHROPIC_BASE_URL=".length);
}

test("a private Redis that dies in the middle of the work ends the command with exit code 3", async () => {
  const place = project();
  const running = await start(["run", "one"], place, { ANTHROPIC_BASE_URL: await slowModel(place) });
  await running.waitForLine("one: started");
  const server = redisProcessesOf(place).find((pid) =>
    /^(redis|valkey)-server/.test(readFileSync(`/proc/${pid}/comm`, "utf8")),
  );
  process.kill(Number(server), "SIGKILL");
  expect((await running.closed).code).toBe(3);
  expect(running.stderr).toContain(
    "subagent-queue: The private Redis stopped unexpectedly: start the command again.",
  );
  await expectNothingLeft(place);
});

test("Ctrl-C ends the command also when its Redis has gone away", async () => {
  const place = project();
  const redis = await startPrivateRedis();
  const env = { REDIS_URL: redis.url, ANTHROPIC_BASE_URL: await slowModel(place) };
  const running = await start(["run", "one"], place, env);
  await running.waitForLine("one: started");
  await redis.kill();
  await running.waitForLine("Redis connection failed");
  expect((await running.kill("SIGINT")).code).toBe(130);
  expect(running.stderr.join("\n")).toMatch(
    /^Interrupted, but Redis did not confirm .* list --parent cli-\w+$/m,
  );
});

test("Ctrl-C asks for what was found, a second one destroys the sub-agents, says so with the whole sum, and exits with 130", async () => {
  const place = project();
  const server = await startPrivateRedis();
  const env = { REDIS_URL: server.url, ANTHROPIC_BASE_URL: await slowModel(place) };
  const running = await start(["run", "one", "two"], place, env);
  await running.waitForLine("one: started");
  await running.waitForLine("two: started");
  const redis = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  // Both calls are under way: what they cost is known only after they were cut off.
  const begun = async () => {
    const records = (await redis.keys("saq:*:agent:*")).filter((key) => /:agent:[^:]+$/.test(key));
    return Promise.all(records.map((key) => redis.hget(key, "begun")));
  };
  await until(async () => (await begun()).filter(Boolean).length === 2);
  process.kill(running.pid, "SIGINT");
  await running.waitForLine(/^Finishing: 2 sub-agents hand back what was found; Ctrl-C again destroys/);
  // A test is faster than a hand: SIGINT so soon would pass for the first one.
  expect((await running.kill("SIGTERM")).code).toBe(130);
  const [sum, last] = running.stderr.slice(-2);
  expect(last).toBe("Interrupted: 2 sub-agents destroyed.");
  const [usage = ""] = await redis.keys("saq:*:usage");
  const { tokens, cost_usd } = sumUsage(await redis.hgetall(usage), 0);
  expect(tokens).toBeGreaterThan(0);
  const spent = `${formatPlural(tokens, "token")} · ${formatUsd(cost_usd)}`;
  expect(sum).toContain(`0 of 2 succeeded · 0 turns · ${spent} · `);
  await expectNothingLeft(place);
});

test("what Ctrl-C brings back is printed, with the sum, and the exit code is 130", async () => {
  const place = project();
  const scenario = join(place.directory, "two-turns.json");
  const turns = [
    { content: [{ type: "tool_use", name: "glob", input: { pattern: "*" } }] },
    { latencyMs: 3_000, content: [{ type: "text", text: "half of it" }] },
  ];
  writeFileSync(scenario, JSON.stringify({ turns, repeat: true }));
  const model = stay(["offline-model", "--port", "0", "--scenario", scenario], place);
  const url = (await model.waitForLine(/^ready: /)).slice("ready: ANTHROPIC_BASE_URL=".length);
  const running = stay(["run", "one"], place, { ANTHROPIC_BASE_URL: url });
  await running.waitForLine("one: turn 1, glob");
  expect((await running.kill("SIGINT")).code).toBe(130);
  expect(running.stdout.join("\n")).toContain("half of it");
  expect(running.stderr.join("\n")).toMatch(/[01] of 1 succeeded · 2 turns · [\d,]+ tokens/);
  expect(running.stderr.at(-1)).toMatch(/^Interrupted: (1 sub-agent finished early, )?none destroyed\.$/);
  await expectNothingLeft(place);
});

test("run takes a definition, limits and tools, and exits with 1 when one of its sub-agents failed", async () => {
  const place = project();
  const scenario = join(place.directory, "one-fails.json");
  const fine = { turns: [{ content: [{ type: "text", text: "fine" }] }], repeat: true };
  const good = { ...fine, match: { system: "You explore files" } };
  const bad = { match: { user: "beta" }, turns: [{ error: { status: 400, message: "no" } }], repeat: true };
  writeFileSync(scenario, JSON.stringify([bad, good]));
  const model = stay(["offline-model", "--port", "0", "--scenario", scenario], place);
  const url = (await model.waitForLine(/^ready: /)).slice("ready: ANTHROPIC_BASE_URL=".length);
  const env = { ANTHROPIC_BASE_URL: url };
  const flags = ["--max-turns", "3", "--tools", "grep,glob", "--parallel", "1", "--parent", "mine", "--json"];
  flags.push("--agent", "explorer");
  const running = await here(["run", ...flags, "alpha", "beta"], place, env);
  expect(running.code).toBe(1);
  const { replies } = JSON.parse(running.stdout.join(""));
  const found = replies.map((reply: Record<string, unknown>) => [reply.parent_id, reply.status]);
  expect(found).toEqual([
    ["mine", "succeeded"],
    ["mine", "failed"],
  ]);
  expect(replies[0].summary).toBe("fine");
  expect(running.stderr).toContain("alpha: started, at most 3 turns");
  for (const wrong of [
    ["--max-turns", "0"],
    ["--timeout", "soon"],
    ["--parent", "a b"],
    ["--max-cost-usd", "-1"],
  ]) {
    const refused = await here(["run", ...wrong, "x"], place, env);
    expect(refused.code).toBe(2);
  }
});

test("a second signal ends the process at once, and the private Redis with it", async () => {
  const place = project();
  const running = await start(["run", "one"], place, { ANTHROPIC_BASE_URL: await slowModel(place) });
  await running.waitForLine("one: started");
  expect(redisProcessesOf(place)).not.toEqual([]);
  running.freeze();
  process.kill(running.pid, "SIGINT");
  process.kill(running.pid, "SIGTERM");
  running.thaw();
  expect((await running.closed).code).toBe(130);
  await expectNothingLeft(place);
});

test("a run whose model refuses exits with 1 and shows why", async () => {
  const place = project();
  const scenario = join(place.directory, "scenario.json");
  writeFileSync(scenario, '{"turns":[{"error":{"status":401,"message":"no such key"}}]}');
  const model = stay(["offline-model", "--port", "0", "--scenario", scenario], place);
  const url = (await model.waitForLine(/^ready: /)).slice("ready: ANTHROPIC_BASE_URL=".length);
  const running = await here(["run", "anything"], place, { ANTHROPIC_BASE_URL: url });
  expect(running.code).toBe(1);
  expect(running.stdout[0]).toBe("✖ anything  failed (model_error)");
});

test("a worker joins REDIS_URL, says one ready line, logs JSON, and ends with 0 when told to stop", async () => {
  const place = project();
  const env = { REDIS_URL: redisUrl(), SUBAGENT_PREFIX: uniquePrefix() };
  const joined = await start(["worker"], place, env);
  await joined.waitForLine(/^ready: worker \S+ on redis:\/\/127\.0\.0\.1:\d+, up to 50 runs, offline model/);
  expect((await joined.kill("SIGTERM")).code).toBe(0);
  expect(joined.stdout).toHaveLength(1);
  for (const line of joined.stderr) expect(JSON.parse(line)).toHaveProperty("level");
  expect(joined.stderr.join()).toContain("stopping");
});

test("commands without a sandbox, and folders of definitions that cannot be read, are warnings", async () => {
  const place = project();
  const installation = { REDIS_URL: redisUrl(), SUBAGENT_PREFIX: uniquePrefix(), SUBAGENT_LOG_LEVEL: "warn" };
  const env = { ...installation, SUBAGENT_BASH: "unsandboxed", SUBAGENT_AGENTS: "/nowhere" };
  const joined = await start(["worker"], place, env);
  await joined.waitForLine(/^ready: /);
  await joined.waitForLine(/"level":40.*WITHOUT a sandbox/);
  await joined.waitForLine(/"level":40.*"\/nowhere".*Agent definition not used/);
  const api = await start(["api", "--port", "0"], place, env);
  await api.waitForLine(/"level":40.*Agent definition not used/);
});

test("a worker without REDIS_URL refuses politely", async () => {
  const ended = await here(["worker"], project());
  expect(ended.code).toBe(3);
  expectOneSentence(ended, /^subagent-queue: REDIS_URL is not set: .*\.$/);
});

test("a worker whose password is wrong says so and ends", async () => {
  const ended = await here(["worker"], project(), {
    REDIS_URL: redisUrl().replace("//", "//nobody:canary@"),
  });
  expect(ended.code).toBe(3);
  expect(ended.stderr.join("\n")).toMatch(
    /^subagent-queue: Redis at redis:\/\/\*\*\*@\S+ cannot be used \(WRONGPASS .*\): /m,
  );
  expect(ended.stderr.join("\n")).not.toContain("canary");
});

test("a worker whose database Redis does not have says so and ends", async () => {
  const ended = await here(["worker"], project(), { REDIS_URL: `${redisUrl()}/99` });
  expect(ended.code).toBe(3);
  expect(ended.stderr.join("\n")).toMatch(
    /^subagent-queue: Redis at redis:\S+\/99 cannot be used \(ERR DB index is out of range\): /m,
  );
  expect(ended.stdout).toEqual([]);
});

test("a worker whose Redis is not there yet says so over HTTP, and is ready when it comes", async () => {
  const server = await startPrivateRedis();
  await server.kill();
  const env = { REDIS_URL: server.url, SUBAGENT_HEALTH_PORT: String(await freePort()) };
  const waiting = await start(["worker", "--json"], project(), env);
  const { url } = JSON.parse(await waiting.waitForLine("Health checks")) as { url: string };
  expect(new URL(url).port).toBe(env.SUBAGENT_HEALTH_PORT);
  const away = await fetch(`${url}/readyz`);
  expect(away.status).toBe(503);
  expect(await away.json()).toMatchObject({
    ready: false,
    redis: "away",
    reasons: ["the worker is starting", "Redis does not answer"],
  });
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect(waiting.stdout).toEqual([]);
  await server.start();
  const ready = JSON.parse(await waiting.waitForLine('"status":"ready"')) as { health: string };
  expect(ready.health).toBe(url);
  await until(async () => (await fetch(`${url}/readyz`)).status === 200);
  expect((await waiting.kill("SIGTERM")).code).toBe(0);
});

test("in production a Redis that may lose work is refused with the fix, by workers and by those who hand work over", async () => {
  const careless = await startPrivateRedis({ arguments: ["--appendonly", "no"] });
  const place = project();
  const env = { REDIS_URL: careless.url, NODE_ENV: "production", SUBAGENT_MODEL: "offline-1" };
  const refusal = /This Redis cannot be used in production mode\. .*redis-cli config set appendonly yes/;
  const handsOver = [["spawn", "a"], ["send", "a", "x"], ["continue", "a", "x"], ["mcp"]];
  for (const args of [["worker"], ["run", "x"], ["start", "--once"], ...handsOver]) {
    const ended = await here(args, place, env);
    expect(ended.code, args[0]).toBe(3);
    expect(ended.stderr.join("\n"), args[0]).toMatch(refusal);
    expect(ended.stdout, args[0]).toEqual([]);
  }
});

test("strictness is a flag as well, and whoever only looks may do so on any Redis", async () => {
  const careless = await startPrivateRedis({ arguments: ["--appendonly", "no"] });
  const place = project();
  const env = { REDIS_URL: careless.url, NODE_ENV: "production", SUBAGENT_MODEL: "offline-1" };
  const strict = await here(["worker", "--strict"], place, { ...env, NODE_ENV: undefined });
  expect(strict.code).toBe(3);
  const looking = await here(["list"], place, env);
  expect(looking.code).toBe(0);
  const warned = await start(["worker", "--no-strict"], place, env);
  await warned.waitForLine(/^ready: worker/);
  expect(
    warned.stderr.filter((line) => line.includes("Redis is not set as production needs it")),
  ).toHaveLength(1);
  expect((await warned.kill("SIGTERM")).code).toBe(0);
});

test("in production the embedded Redis, which keeps nothing, is refused", async () => {
  const embedded = await here(["run", "x"], project(), { NODE_ENV: "production", PATH: "/nowhere" });
  expect(embedded.code).toBe(3);
  expect(embedded.stderr.join("\n")).toContain("the embedded Redis");
});

test("in production start brings its own private Redis, which keeps what it accepts", async () => {
  const ended = await here(["run", "How many TODO comments are there?"], project(), {
    NODE_ENV: "production",
  });
  expect(ended.code, ended.stderr.join("\n")).toBe(0);
});

test("a worker whose Redis is not there yet waits, and ends when told to", async () => {
  const port = await freePort();
  const waiting = await start(["worker"], project(), { REDIS_URL: `redis://127.0.0.1:${port}` });
  await waiting.waitForLine("Redis connection failed");
  expect((await waiting.kill("SIGTERM")).code).toBe(0);
  expect(waiting.stdout).toEqual([]);
});

test("a Redis that is not there is one sentence and exit code 3", async () => {
  const port = await freePort();
  const ended = await here(["run", "x"], project(), { REDIS_URL: `redis://127.0.0.1:${port}` });
  expect(ended.code).toBe(3);
  expectOneSentence(
    ended,
    /^subagent-queue: No Redis at redis:\/\/127\.0\.0\.1:\d+ \(connection refused\): .*\.$/,
  );
});

test("without a Redis and without redis-server the embedded one does the whole job, and the banner says what it is", async () => {
  const ended = await start(["start", "--once"], project(), { PATH: "/nowhere" });
  expect((await ended.closed).code).toBe(0);
  const said = [...ended.stdout, ...ended.stderr].join(" ").replace(/\s+/g, " ");
  expect(said).toContain(
    "js-redis-server: embedded, in memory, for trying out: everything is lost when it stops",
  );
});

test("a wrong REDIS_URL is one sentence that shows the form, never the password", async () => {
  const ended = await here(["run", "x"], project(), { REDIS_URL: "http://me:canary@host" });
  expect(ended.code).toBe(3);
  expectOneSentence(ended, /^subagent-queue: REDIS_URL cannot be used: write redis:\/\/host:port, /);
  expect(ended.stderr.join()).not.toContain("canary");
});

test("garbage in the environment is named all at once, each with its form", async () => {
  const garbage = {
    SUBAGENT_CONCURRENCY: "lots",
    SUBAGENT_MAX_DURATION: "1 week",
    SUBAGENT_ROOTS: "/nowhere",
  };
  const ended = await here(["start"], project(), garbage);
  expect(ended.code).toBe(3);
  expect(ended.stderr[0]).toBe("subagent-queue: 3 environment variables cannot be used:");
  for (const name of Object.keys(garbage)) expect(ended.stderr.join("\n")).toContain(name);
  expect(ended.stderr).toHaveLength(4);
});

test("a misspelt variable is mentioned and nothing worse", async () => {
  const ended = await here(["run", "hello"], project(), { SUBAGENT_MODLE: "x" });
  expect(ended.code).toBe(0);
  expect(ended.stderr[0]).toBe(
    "SUBAGENT_MODLE is set, but this version has no such variable: is it misspelt?",
  );
});

test("a verb that does not exist is refused with exit code 2 and one sentence", async () => {
  const ended = await start(["strat"], project());
  expect((await ended.closed).code).toBe(2);
  expectOneSentence(ended, /^subagent-queue: unknown command 'strat'/);
});

test.each([
  ["an empty prompt", ["run", ""], /Prompt 1 is refused: write what the sub-agent should do or know\.$/],
  ["no prompt", ["run"], /missing required argument 'prompt'/],
  ["an unknown flag", ["start", "--onec"], /unknown option '--onec'/],
  ["an unknown verb", ["strat"], /unknown command 'strat'/],
  ["a port out of range", ["offline-model", "--port", "70000"], /from 0 to 65535/],
  [
    "a callback URL with a password",
    ["api", "--callback-url", "http://user:secret@host:2024"],
    /^\S+ --callback-url cannot .*SUBAGENT_CALLBACK_KEY\.$/,
  ],
  [
    "a callback URL with a query",
    ["api", "--callback-url", "http://host/?a=b"],
    /^\S+ --callback-url cannot .*SUBAGENT_CALLBACK_KEY\.$/,
  ],
  [
    "a callback URL with a fragment",
    ["api", "--callback-url", "http://host/#a"],
    /^\S+ --callback-url cannot .*SUBAGENT_CALLBACK_KEY\.$/,
  ],
  [
    "a callback URL with another scheme",
    ["api", "--callback-url", "ftp://host"],
    /^\S+ --callback-url cannot .*SUBAGENT_CALLBACK_KEY\.$/,
  ],
  ["no address for the API", ["api", "--host", ""], /Write an address/],
  ["no address for the offline model", ["offline-model", "--host", ""], /Write an address/],
  ["no address for the health checks", ["worker", "--health-host", ""], /Write an address/],
  ["a URL for a host name", ["api", "--host-name", "a.b", "http://x"], /'http:\/\/x' .*Write the host alone/],
  ["no host name", ["board", "--host-name", ""], /Write the host alone/],
  [
    "a scenario that is not there",
    ["offline-model", "--scenario", "/nowhere"],
    /cannot be played: there is no such file; name a file with a scenario\.$/,
  ],
])("%s is refused with exit code 2 and one sentence", async (_what, args, sentence) => {
  const { directory, env } = project();
  const { code, stdout, stderr } = await runHere(args, { cwd: directory, env });
  expect(code).toBe(2);
  expect(stderr.join(" ")).toMatch(sentence);
  expect(stderr.join(" ")).toMatch(/^subagent-queue: /);
  expect(stdout).toEqual([]);
});

async function runWithInput(input: string): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { directory, env } = project();
  const main = await bundled("dist/cli/main.js");
  const child = spawn(process.execPath, [main, "run", "-"], {
    cwd: directory,
    env: { ...process.env, ...env },
  });
  const closed = once(child, "close");
  // The command stops reading what is too long.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  return { code: child.exitCode, stdout, stderr };
}

test("a prompt of 300 KB is refused before anything is started", async () => {
  const { code, stdout, stderr } = await runWithInput("x".repeat(300 * 1024));
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toBe(
    "subagent-queue: Prompt 1 is refused: at most 256 KB: put long material into a file and name it.\n",
  );
});

test("a prompt may come from standard input", async () => {
  const { code, stdout } = await runWithInput("How many TODO comments are there?\n");
  expect(code).toBe(0);
  expect(stdout).toMatch(/\b2 TODO comments/);
});

test("a taken port is one sentence and exit code 3", async () => {
  const place = project();
  const first = stay(["offline-model", "--port", "0"], place);
  const port = /:(\d+)$/.exec(await first.waitForLine(/^ready: /))?.[1] ?? "";
  const second = await here(["offline-model", "--port", port], place);
  expect(second.code).toBe(3);
  expectOneSentence(second, new RegExp(`^subagent-queue: .*${port}`));
});

test("--help as a process shows examples and exits with 0", async () => {
  const ended = await start(["--help"], project());
  expect((await ended.closed).code).toBe(0);
  expect(ended.stdout.join("\n")).toMatch(/Usage: subagent-queue[\s\S]*Examples:\n {2}\S/);
  expect(ended.stderr).toEqual([]);
});

test("every verb and every subcommand has --help with examples, and exits with 0", async () => {
  const { directory, env } = project();
  const namesIn = (help: string) => {
    const [, list = ""] = /\nCommands:\n([\s\S]*?)\n\n/.exec(help) ?? [];
    return [...list.matchAll(/^ {2}([a-z-]+)/gm)].flatMap(([, name = ""]) => (name === "help" ? [] : [name]));
  };
  const examine = async (...names: string[]): Promise<number> => {
    const { code, stdout, stderr } = await runHere([...names, "--help"], { cwd: directory, env });
    const help = stdout.join("\n");
    expect({ code, stderr }, names.join(" ")).toEqual({ code: 0, stderr: [] });
    expect(help, names.join(" ")).toMatch(/Usage: subagent-queue[\s\S]*\nExamples?[:,].*\n {2}\S/);
    let count = 1;
    for (const name of namesIn(help)) count += await examine(...names, name);
    return count;
  };
  expect(await examine()).toBeGreaterThan(38);
});

test.each([
  [["help", "nope"], "unknown command 'nope'"],
  [["help", "wroker"], "unknown command 'wroker' (did you mean worker?)"],
  [["keys", "help", "nope"], "unknown command 'nope'"],
  [["help", "keys", "nope"], "unknown command 'nope'"],
])("%j names the verb that does not exist, and does not print the whole help", async (args, said) => {
  const { code, stdout, stderr } = await here(args, project());
  expect({ code, stdout, stderr }).toEqual({
    ...{ code: 2, stdout: [] },
    stderr: [`subagent-queue: ${said} (--help shows the usage)`],
  });
});

test("a profile that is not there is refused in words", async () => {
  const place = project();
  const { code, stderr } = await here(["profile", "set", "nofile.json"], place, { REDIS_URL: redisUrl() });
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: [
      'subagent-queue: The profile "nofile.json" cannot be used: there is no such file; name a file with a JSON object.',
    ],
  });
});

test("help of a verb or a subcommand is its help, and an agent may be called help", async () => {
  const place = project();
  const usage = async (...args: string[]) => (await here(args, place)).stdout[0];
  expect(await usage("help", "keys")).toBe("Usage: subagent-queue keys [options] [command]");
  expect(await usage("keys", "help", "create")).toBe("Usage: subagent-queue keys create [options] <name>");
  expect(await usage("help", "keys", "create")).toBe("Usage: subagent-queue keys create [options] <name>");
  expect((await here(["send", "help", "hello"], place)).stderr.join("")).toMatch(/REDIS_URL is not set/);
});

test.each([
  [["x\u001b]0;t\u0007"]],
  [["ps", "--x\u001b]0;t\u0007"]],
  [["run", "a", "--effort", "x\u001b]0;t\u0007"]],
  [["offline-model", "--port", "x\u001b]0;t\u0007"]],
])("%j is refused with the word as it was written, and nothing that a terminal obeys", async (args) => {
  const { code, stderr } = await here(args, project());
  expect(code).toBe(2);
  expect(stderr).toEqual([expect.stringContaining("x\\u001b]0;t\\u0007")]);
});

test("help names every environment variable", async () => {
  const { directory, env } = project();
  const { stdout } = await runHere(["--help"], { cwd: directory, env });
  for (const name of Object.keys(EXPECTED))
    expect(stdout.join("\n")).toMatch(new RegExp(`^  ${name} +\\S`, "m"));
});

test("a cost cap for a model whose price nobody knows is refused once, with exit code 3", async () => {
  const env = { SUBAGENT_MAX_COST_USD: "1", SUBAGENT_MODEL: "unheard-of" };
  const ended = await here(["run", "a", "b", "c"], project(), env);
  expect(ended.code).toBe(3);
  expect(ended.stderr.filter((line) => line.includes("unheard-of"))).toHaveLength(1);
});

test("the stack of an error is shown with SUBAGENT_LOG_LEVEL=debug only", async () => {
  const place = project();
  const quiet = await here(["worker"], place);
  const loud = await here(["worker"], place, { SUBAGENT_LOG_LEVEL: "debug" });
  expect(quiet.stderr.join("\n")).not.toMatch(/^ {4}at /m);
  expect(loud.stderr.join("\n")).toMatch(/^ {4}at /m);
});

test("a reader that goes away early does no harm", async () => {
  const { directory, env } = project();
  const main = await bundled("dist/cli/main.js");
  const child = spawn(process.execPath, [main, "--help"], {
    cwd: directory,
    env: { ...process.env, ...env },
  });
  child.stdout.destroy();
  const [stderr] = await Promise.all([text(child.stderr), once(child, "close")]);
  expect(child.exitCode, stderr).toBe(0);
  expect(stderr).not.toContain("EPIPE");
});

test.skipIf(!existsSync("/dev/full"))("a result that a full disk loses is no success", async () => {
  const { directory, env } = project();
  const main = await bundled("dist/cli/main.js");
  const full = openSync("/dev/full", "w");
  closeAtEnd(() => closeSync(full));
  for (const args of [["completion", "bash"], ["--help"]]) {
    const child = spawn(process.execPath, [main, ...args], {
      cwd: directory,
      env: { ...process.env, ...env },
      stdio: ["ignore", full, "pipe"],
    });
    const [stderr] = await Promise.all([text(child.stderr as Readable), once(child, "close")]);
    expect(child.exitCode, stderr).toBe(3);
    expect(stderr).toMatch(/^subagent-queue: Standard output cannot be written \(ENOSPC.*: make room, .*\n$/);
  }
});
