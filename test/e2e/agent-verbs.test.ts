/** The verbs about agents on a real Redis: each once as a real process of the built command line, else as the same program in this process. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import type { OutputStream } from "../../src/cli/terminal/output.ts";
import { ProfileInput } from "../../src/producer/input.ts";
import { CHECK_MS } from "../../src/producer/task-wait-reasons.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnBuilt } from "../helpers/processes.ts";
import { type CommandHere, runHere, startHere } from "../helpers/program.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { freePort } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";

/** By then a command without a live worker says so. */
const SAID_WITHIN_MS = 5_000;
const VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => VARIABLE.test(name))
    .map((name) => [name, undefined]),
);

type Environment = Record<string, string | undefined>;
type Streams = Pick<NonNullable<Parameters<typeof runHere>[1]>, "input" | "stdout">;

/** A small project with two TODO comments, and an installation of its own on the shared Redis. */
function place() {
  const directory = mkdtempSync(join(tmpdir(), "verbs-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  writeFileSync(join(directory, "a.js"), "// TODO one\n// TODO two\n");
  const env: Environment = { ...CLEAN, REDIS_URL: redisUrl(), SUBAGENT_PREFIX: uniquePrefix() };
  const start = (args: readonly string[], more: Environment = {}) =>
    spawnBuilt(args, { cwd: directory, env: { ...env, ...more } });
  const stay = (args: readonly string[], more: Environment = {}) =>
    startHere(args, { cwd: directory, env: { ...env, SUBAGENT_LOG_LEVEL: "warn", ...more } });
  return {
    /** Writes a JSON file into the project; returns its name. */
    file(name: string, content: unknown): string {
      writeFileSync(join(directory, name), JSON.stringify(content));
      return name;
    },
    /** Starts a real process. */
    start,
    /** Has the program carry out a command in this process that stays up. */
    stay,
    /** Has the program carry out a command in this process. */
    say: (args: readonly string[], more: Environment = {}, streams: Streams = {}) =>
      runHere(args, { cwd: directory, env: { ...env, ...more }, ...streams }),
    /** Runs a command to its end, as a real process. */
    async ask(args: readonly string[], more: Environment = {}) {
      const command = await start(args, more);
      const { code } = await command.closed;
      return { code, stdout: command.stdout, stderr: command.stderr };
    },
    /** Starts a worker to which the project is open. */
    async worker(more: Environment = {}): Promise<CommandHere> {
      const worker = stay(["worker"], { SUBAGENT_ROOTS: `${directory}:ro`, ...more });
      await worker.waitForLine(/^ready: /);
      return worker;
    },
    /** An offline model that keeps everybody waiting; workers that use it do not know what it is. */
    async slowModel(): Promise<string> {
      const model = stay(["offline-model", "--port", "0", "--latency-ms", "600000"]);
      return (await model.waitForLine(/^ready: /)).slice("ready: ANTHROPIC_BASE_URL=".length);
    },
  };
}

const COUNT = "How many TODO comments are there?";
const json = (lines: readonly string[]) => {
  expect(lines).toHaveLength(1);
  return JSON.parse(lines[0] ?? "");
};

test.each([
  ["spawn", "x"],
  ["send", "x", "y"],
  ["answer", "x", "y"],
  ["continue", "x", "y"],
  ["list"],
  ["finish", "x"],
  ["destroy", "x"],
  ["replies"],
  ["watch"],
  ["usage"],
])("%s without REDIS_URL is one sentence and exit code 3", async (...args) => {
  const { code, stdout, stderr } = await place().say(args, { REDIS_URL: undefined });
  expect({ code, stdout }).toEqual({ code: 3, stdout: [] });
  expect(stderr).toEqual([
    `subagent-queue: REDIS_URL is not set: ${args[0]} acts on the agents of a Redis, e.g. redis://host:6379.`,
  ]);
});

test.each([
  [
    "a wrong parent",
    ["list", "--parent", "../x"],
    /^subagent-queue: --parent "\.\.\/x" cannot be used: write 1 to/,
  ],
  [
    "a sub-agent as parent",
    ["list", "--parent", `sa-${"0".repeat(24)}`],
    /--parent .* not a sub-agent's uid\.$/,
  ],
  [
    "a wrong --since",
    ["usage", "--since", "yesterday"],
    /^subagent-queue: --since "yesterday" cannot be used: /,
  ],
  ["a day that is none", ["usage", "--since", "2026-02-30"], /--since "2026-02-30" cannot be used: /],
  [
    "a message to nobody",
    ["send", "nobody", "x"],
    /Parent "cli" has no sub-agent "nobody": .* --parent names/,
  ],
  ["answering nobody", ["answer", "nobody", "x"], /Parent "cli" has no sub-agent "nobody"/],
  ["an empty answer", ["answer", "x", " "], /The answer is refused: /],
  ["finishing nobody", ["finish", "nobody"], /Parent "cli" has no sub-agent "nobody"/],
  ["destroying nobody", ["destroy", "../x", "--json"], /Parent "cli" has no sub-agent "\.\.\/x"/],
  ["an empty name", ["spawn", ""], /name/],
  [
    "a schedule that is not there",
    ["schedule", "list"],
    /Parent "cli" has no schedule "list": \S.*subagent-queue schedule without a name lists them; --parent names/,
  ],
  ["a schedule of two minds", ["schedule", "x", "--pause", "--remove"], /Choose one: --pause/],
  [
    "a schedule without a time",
    ["schedule", "x", "--prompt", "y"],
    /Give a time: --cron, --every or --at\.$/,
  ],
  [
    "a pause with a prompt",
    ["schedule", "x", "--pause", "--prompt", "y", "--tz", "UTC"],
    /subagent-queue: --prompt and --tz cannot go with --pause: leave out one of them\.$/,
  ],
  ["a prompt of no schedule", ["schedule", "--prompt", "y"], /Name the schedule: schedule <id>/],
  [
    "a zone of a schedule without a time",
    ["schedule", "x", "--tz", "Europe/Berlin"],
    /Give a time: --cron, --every or --at\.$/,
  ],
  [
    "an interval of more than a day in hours",
    ["schedule", "x", "--every", "25h", "--prompt", "y"],
    /'--every <time>' argument '25h' is invalid\. Write a time like 90s, 5m, 2h or 30d; hours up to 24h\. \(--help/,
  ],
  ["no message", ["send", "x"], /missing required argument 'message'/],
  ["an empty message", ["send", "x", " "], /The message is refused: /],
  ["start --json that would stay", ["start", "--json"], /give --once as well\.$/],
])("%s is refused with exit code 2 and one sentence", async (_what, args, sentence) => {
  const { code, stdout, stderr } = await place().say(args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: [] });
  expect(stderr.join("\n")).toMatch(sentence);
  expect(stderr).toHaveLength(1);
});

test("a wrong SUBAGENT_PARENT, and a Redis that is not there, are one sentence and exit code 3", async () => {
  const wrong = await place().say(["list"], { SUBAGENT_PARENT: "a/b" });
  expect(wrong.code).toBe(3);
  expect(wrong.stderr.join("\n")).toMatch(/^subagent-queue: SUBAGENT_PARENT="a\/b" cannot be used: write/);
  const away = await place().say(["list"], { REDIS_URL: `redis://127.0.0.1:${await freePort()}` });
  expect(away.code).toBe(3);
  expect(away.stderr.join("\n")).toMatch(/^subagent-queue: No Redis at .* \(connection refused\): /);
});

test("a first message that is refused leaves no agent behind", async () => {
  const { ask } = place();
  const refused = await ask(["spawn", "x", "--prompt", " "]);
  expect(refused.code).toBe(2);
  expect(json((await ask(["list", "--json"])).stdout)).toEqual({ sub_agents: [] });
});

test("an agent lives through spawn, list, send, replies, destroy and usage from separate commands", async () => {
  const { ask, say, worker } = place();
  const early = await say(["spawn", "Early", "--tools", "grep,nope"]);
  expect(early.stderr[0]).toBe("No worker is live: the agent's runs wait for one that offers nope.");
  await ask(["destroy", "early"]);
  await ask(["replies", "--ack"]);
  const spawned = await say(["spawn", "Data Collector", "--keep-alive", "--tools", "grep"]);
  expect(spawned.stdout).toEqual(["data_collector"]);
  const sent = await ask(["send", "data_collector", COUNT, "--json"]);
  expect(json(sent.stdout)).toMatchObject({ status: "queued", agent_id: "data_collector", run: 1 });
  expect(sent.stderr.join("\n")).toMatch(/^No worker is live on .* the run waits until one joins/);
  const listed = await say(["list"]);
  expect(listed.stdout[0]).toMatch(/^agent id +status +run +turns +tokens +cost +age +name$/);
  expect(listed.stdout[1]).toMatch(/^data_collector +queued +1 +0\/20 .* Data Collector$/);

  await worker();
  const entries = await until(
    async () => {
      const { replies } = json((await say(["replies", "--json"])).stdout);
      return replies.length > 0 && replies;
    },
    { everyMs: 100 },
  );
  expect(entries).toMatchObject([{ agent_id: "data_collector", status: "succeeded", agent_status: "idle" }]);
  const taken = await say(["replies", "--ack"]);
  expect(taken.stdout[0]).toBe("✔ Data Collector (data_collector)  succeeded");
  expect(taken.stdout.join("\n")).toContain("2 TODO comments");
  const late = await say(["spawn", "Late", "--tools", "grep,nope"]);
  expect(late.stderr[0]).toBe("No live worker offers nope: the agent works without it.");
  await say(["destroy", "late"]);
  await say(["replies", "--ack"]);
  expect((await say(["replies"])).stderr).toEqual(["Nothing unacked for cli."]);
  expect(json((await say(["replies", "--parent", "other", "--json"])).stdout)).toEqual({ replies: [] });

  expect((await ask(["finish", "data_collector"])).stdout).toEqual(["Idle: no run is going on."]);
  expect((await say(["destroy", "data_collector"])).stdout).toEqual(["Destroyed data_collector."]);
  const again = json((await say(["destroy", "data_collector", "--json"])).stdout);
  expect(again).toMatchObject({ status: "already_ended", ended_reason: "destroyed" });
  const after = await say(["send", "data_collector", "x"]);
  expect(after).toMatchObject({ code: 2, stderr: [expect.stringMatching(/has ended \(destroyed\)/)] });
  const used = json((await ask(["usage", "--since", "7d", "--json"])).stdout);
  expect(used).toMatchObject({ parent_id: "cli", turns: 2, cost_usd: 0 });
  expect((await say(["usage"])).stdout[0]).toBe("cli, the last 90 days");
});

test("usage names no time of which nothing is kept", async () => {
  const { say } = place();
  const all = await say(["usage", "--since", "9999d"]);
  expect(all.stdout[0]).toBe("cli, the last 90 days");
  expect(all.stderr.join()).toMatch(/Usage is kept for 90 days: nothing is known of the time before\./);
  expect(json((await say(["usage", "--since", "9999d", "--json"])).stdout).since).toBeNull();
});

test("usage shows what is spent of the budgets of the environment", async () => {
  const budgets = { SUBAGENT_BUDGET_PARENT_USD: "5", SUBAGENT_BUDGET_TENANT_USD: "20" };
  const { stdout } = await place().say(["usage"], budgets);
  expect(stdout.slice(-2)).toEqual([
    "  budget of the parent cli: $0 of $5.00",
    "  budget of the tenant: $0 of $20.00, the last 24h",
  ]);
});

test("replies --follow --ack prints each entry as one JSON line, takes it out, and ends with 0", async () => {
  const { say, start, worker } = place();
  await worker();
  const following = await start(["replies", "--follow", "--ack", "--json"]);
  const spawned = await say(["spawn", "a", "--prompt", COUNT, "--json"]);
  expect(json(spawned.stdout)).toMatchObject({ agent_id: "a", status: "created", message: { run: 1 } });
  await following.waitForLine(/"status":"succeeded"/);
  await until(async () => json((await say(["replies", "--json"])).stdout).replies.length === 0);
  expect((await following.kill("SIGINT")).code).toBe(0);
  expect(json(following.stdout)).toMatchObject({ agent_id: "a", run: 1 });
});

test("a question stands in list and replies, and answer lets its agent go on", async () => {
  const { ask, say, worker } = place();
  await worker();
  await say(["spawn", "Writer", "--prompt", "Ask your parent: Which city?"]);
  const [question] = await until(
    async () => {
      const { replies } = json((await say(["replies", "--json"])).stdout);
      return replies.length > 0 && replies;
    },
    { everyMs: 100 },
  );
  expect(question).toMatchObject({ kind: "question", agent_id: "writer", text: "Which city?" });
  expect((await say(["list"])).stdout.slice(1)).toEqual([
    expect.stringMatching(/^writer +waiting /),
    "writer asks: Which city?",
  ]);
  const wrong = await ask(["answer", "writer", "x", "--question", "9/none"]);
  expect(wrong).toMatchObject({
    code: 2,
    stderr: [expect.stringMatching(/no open question "9\/none": omit its id/)],
  });
  const sent = await say(["send", "writer", "Hurry"]);
  expect(sent.stdout).toEqual(["Delivered to run 1."]);
  expect(sent.stderr.join("\n")).toMatch(
    /^writer waits for an answer .*: npx subagent-queue answer writer "…"$/,
  );
  const first = json((await say(["answer", "writer", "Zürich", "--json"])).stdout);
  expect(first).toMatchObject({
    status: "answered",
    question_id: question.question_id,
    agent_status: "queued",
  });
  const shown = await until(
    async () => {
      const { stdout } = await say(["replies"]);
      return stdout.some((line) => line.includes("succeeded")) && stdout.join("\n");
    },
    { everyMs: 100 },
  );
  expect(shown).toMatch(/^\? Writer \(writer\) {2}question\n {2}Which city\?\n/);
  expect(shown).toMatch(/✔ Writer \(writer\) {2}succeeded\n {2}Zürich\n/);
});

test("watch shows agents come, work and go, destroys nothing, and ends with 0", async () => {
  const { say, start, stay, worker } = place();
  await worker();
  const [plain, machine] = [await start(["watch"]), stay(["watch", "--json"])];
  await plain.waitForLine(/^Watching cli, run and start on redis:/);
  await say(["spawn", "stays"]);
  await plain.waitForLine("stays: idle");
  // Of an agent that has ended before it looks for the first time a watch tells nothing.
  await machine.waitForLine(/"agent_id":"stays"/);
  await say(["spawn", "Counter", "--prompt", COUNT]);
  await plain.waitForLine(/^✔ counter {2}completed · 2 turns · [\d,]+ tokens · \$0$/);
  await machine.waitForLine(/"agent_id":"counter".*"status":"ended"/);
  expect((await plain.kill("SIGINT")).code).toBe(0);
  expect((await machine.kill("SIGTERM")).code).toBe(0);
  const lines = machine.stdout.map((line) => JSON.parse(line));
  expect(lines.every((line) => typeof line.type === "string")).toBe(true);
  const of = (id: string) =>
    lines.filter((line) => line.agent?.agent_id === id).map((line) => line.agent.status);
  expect(of("stays")).toEqual(["idle"]);
  expect(of("counter").at(-1)).toBe("ended");
  expect(json((await say(["list", "--json"])).stdout).sub_agents).toMatchObject([{ agent_id: "stays" }]);
});

test.each([[["watch"]], [["watch", "--json"]]])("%s ends when its reader is gone", async (args) => {
  const gone: OutputStream = {
    on: () => {},
    write: (_text, done) => void done?.(Object.assign(new Error("write EPIPE"), { code: "EPIPE" })),
  };
  expect(await place().say(args, {}, { stdout: gone })).toMatchObject({ code: 0 });
});

test("Ctrl-C of run asks its own agents alone to finish, also where another command's has the same name", async () => {
  const { say, stay, worker, slowModel } = place();
  await worker({ ANTHROPIC_API_KEY: "x", ANTHROPIC_BASE_URL: await slowModel() });
  const shared = ["--parent", "planner-7"];
  await say(["spawn", "hello", "--prompt", "hello", ...shared]);
  const running = stay(["run", "hello", ...shared]);
  await running.waitForLine("hello: started");
  void running.kill("SIGINT");
  expect(await running.waitForLine(/^Finishing: /)).toMatch(/^Finishing: 1 sub-agent hands back/);
  expect((await running.kill("SIGINT")).code).toBe(130);
  expect(running.stderr.at(-1)).toBe("Interrupted: 1 sub-agent destroyed.");
  const left = json((await say(["list", "--json", ...shared])).stdout).sub_agents;
  expect(left).toMatchObject([{ agent_id: "hello", status: "running" }]);
});

test("schedule without --prompt reads standard input, but not from a person who types", async () => {
  const { say } = place();
  const time = ["schedule", "morning", "--every", "30m"];
  const terminal = Object.assign(Readable.from([]), { isTTY: true });
  const refused = await say(time, {}, { input: terminal });
  expect(refused.code).toBe(2);
  expect(refused.stderr).toEqual(["subagent-queue: Give --prompt, or --prompt - to read standard input."]);
  const piped = await say(time, { SUBAGENT_MODEL: "offline-1" }, { input: Readable.from(["Say hello"]) });
  expect(piped.stdout.join("\n")).toMatch(/^morning {2}every 1800 s {2}next \S+ {2}Say hello$/);
});

test("the help of profile names every field that a profile may have", async () => {
  const { stdout } = await place().say(["profile", "--help"]);
  const help = stdout.join(" ");
  expect(Object.keys(ProfileInput.shape).filter((name) => !help.includes(name))).toEqual([]);
});

test("watch follows what run starts, though run acts as a parent of its own", async () => {
  const { stay, worker, slowModel } = place();
  const machine = stay(["watch", "--json"]);
  await worker({ ANTHROPIC_API_KEY: "x", ANTHROPIC_BASE_URL: await slowModel() });
  const run = stay(["run", COUNT]);
  await machine.waitForLine(/"parent_id":"cli-[^"]+".*"agent_id":"how_many_todo.*"status":"running"/);
  await Promise.all([run.kill("SIGTERM"), machine.kill("SIGTERM")]);
});

test("a worker says in JSON that it is ready", async () => {
  const { start } = place();
  const worker = await start(["worker", "--json"]);
  await worker.waitForLine(/"status":"ready"/);
  expect((await worker.kill("SIGTERM")).code).toBe(0);
  expect(json(worker.stdout)).toMatchObject({ status: "ready", concurrency: 50, model: "offline-1" });
});

test("run gives its prompts to live workers, starts none, and prints one JSON document", async () => {
  const { ask, worker } = place();
  await worker();
  const { code, stdout, stderr } = await ask(["run", "--json", COUNT, "hello"]);
  expect(code).toBe(0);
  const { replies, errors } = json(stdout);
  expect(replies).toMatchObject([{ name: COUNT, status: "succeeded" }, { name: "hello" }]);
  expect(replies[0].summary).toContain("2 TODO comments");
  expect(errors).toEqual([]);
  expect(stderr.join("\n")).toMatch(/Workers +1 worker on redis:\/\/127\.0\.0\.1:\d+, none started here/);
  expect(stderr.join("\n").replace(/\s+/g, " ")).toContain("the workers have the offline model");
});

test("without a key, run asks for the workers' model and start refuses to stand beside them", async () => {
  const { say, stay, worker, slowModel } = place();
  const provider = { ANTHROPIC_BASE_URL: await slowModel(), SUBAGENT_MODEL: "claude-opus-5-5" };
  await worker(provider);
  const beside = await say(["start", "--once"]);
  expect(beside.code).toBe(3);
  expect(beside.stderr.join("\n")).toMatch(
    /^subagent-queue: The offline model would answer by rule beside 1 worker/,
  );
  const running = stay(["run", "one", "two"]);
  await running.waitForLine(/Model +claude-opus-5-5, answered by the workers' provider/);
  await running.waitForLine("one: started");
  await running.waitForLine("two: started");
  void running.kill("SIGINT");
  await running.waitForLine(/^Finishing: 2 sub-agents/);
  expect((await running.kill("SIGINT")).code).toBe(130);
  expect(running.stderr.at(-1)).toBe("Interrupted: 2 sub-agents destroyed.");
});

test("run says so when the last of the workers that it uses has gone", async () => {
  const { stay, worker, slowModel } = place();
  const joined = await worker({ ANTHROPIC_BASE_URL: await slowModel() });
  const running = stay(["run", "one"]);
  await running.waitForLine("one: started");
  void joined.kill("SIGTERM");
  await running.waitForLine(
    /^No worker has been live on redis:\S+ since \S+Z: the runs wait until one joins/,
  );
  // Within two looks; how long this machine took for them is no question of the product.
  expect(2 * CHECK_MS).toBeLessThan(SAID_WITHIN_MS);
  void running.kill("SIGINT");
  await running.waitForLine(/^Finishing: 1 sub-agent/);
  expect((await running.kill("SIGINT")).code).toBe(130);
});

test("start --once --json prints the three replies as one document", async () => {
  const { code, stdout } = await place().say(["start", "--once", "--json"]);
  expect(code).toBe(0);
  const { replies } = json(stdout);
  expect(replies.map((reply: { status: string }) => reply.status)).toEqual(Array(3).fill("succeeded"));
});

test("the hint of start works as printed: the password of an embedded Redis stands in it", async () => {
  const { say, start } = place();
  const own = { REDIS_URL: undefined, SUBAGENT_PREFIX: undefined, PATH: "/nowhere" };
  const service = await start(["start"], own);
  const hint = await service.waitForLine(/^ {2}REDIS_URL=/);
  const [, address] = /REDIS_URL=(redis:\/\/\S+)/.exec(hint) ?? [];
  const { code, stdout, stderr } = await say(["run", COUNT], { ...own, REDIS_URL: address });
  expect(code, stderr.join("\n")).toBe(0);
  expect(stdout.join("\n")).toContain("2 TODO comments");
  expect((await service.kill("SIGINT")).code).toBe(0);
});

test("the hint of start on somebody's own Redis shows neither address nor password", async () => {
  const { stay } = place();
  const service = stay(["start"]);
  const hint = await service.waitForLine(/^ {2}REDIS_URL=/);
  expect(hint).toMatch(/^ {2}REDIS_URL="\$REDIS_URL" SUBAGENT_PREFIX=\w+ npx subagent-queue run /);
  expect((await service.kill("SIGINT")).code).toBe(0);
});

test.each(["spawn", "send", "list", "finish", "destroy", "replies", "watch", "usage"])(
  "%s --help shows examples and exits with 0",
  async (verb) => {
    const { code, stdout, stderr } = await place().say([verb, "--help"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: [] });
    expect(stdout.join("\n")).toMatch(/Usage: subagent-queue[\s\S]*--json[\s\S]*Examples:\n {2}\S/);
  },
);

test("ps, show and logs tell what run did; list and usage see it too", async () => {
  const { ask, say, worker } = place();
  await worker();
  expect((await say(["run", "How many TODO comments are there?"])).code).toBe(0);
  const parents = json((await ask(["ps", "--json"])).stdout).parents;
  expect(parents).toMatchObject([{ tenant: "default", sub_agents: [], unacked: 0, today: { turns: 2 } }]);
  expect(parents[0].parent_id).toMatch(/^cli-/);

  const agent = "how_many_todo_comments_are_there";
  const shown = json((await ask(["show", agent, "--json"])).stdout);
  expect(shown).toMatchObject({
    agent_id: agent,
    status: "ended",
    turns: 2,
    parent_id: parents[0].parent_id,
  });
  expect(shown.reply).toMatch(/TODO comment/);
  expect(shown.messages).toEqual(["How many TODO comments are there?"]);
  const told = (await ask(["logs", agent])).stdout;
  const own = `${parents[0].parent_id}/${agent}`;
  expect(told.at(-1)).toMatch(new RegExp(`^\\d\\d:\\d\\d:\\d\\d {2}${own} {2}ended: succeeded`));
  expect(json((await say(["usage", "--json"])).stdout)).toMatchObject({ replies: 1, turns: 2 });
  const unknown = await say(["show", "nobody"]);
  expect(unknown.code).toBe(2);
  expect(unknown.stderr[0]).toMatch(/^subagent-queue: No sub-agent "nobody" is known to cli, cli-/);
});

test("run and spawn take an output schema, each answer fits it, and replies and show print it indented", async () => {
  const { say, worker, file } = place();
  const answer = { type: "string" };
  const schema = [
    "--schema",
    file("found.json", { type: "object", properties: { answer }, required: ["answer"] }),
  ];
  await worker();
  const ran = await say(["run", ...schema, "--json", COUNT, "hello"]);
  expect(ran.code, ran.stderr.join("\n")).toBe(0);
  const { replies } = json(ran.stdout);
  expect(replies.map((reply: { output: unknown }) => reply.output)).toEqual([
    { answer: expect.stringContaining("2 TODO comments") },
    { answer: expect.any(String) },
  ]);
  const plain = await say(["run", ...schema, "--parent", "cli", COUNT]);
  const indented = [
    expect.stringMatching(/^ {2}\{$/),
    expect.stringMatching(/^ {4}"answer": "There are 2 TODO/),
  ];
  expect(plain.stdout.slice(1, 3)).toEqual(indented);
  await say(["spawn", "finder", ...schema, "--prompt", COUNT]);
  const printed = await until(
    async () => {
      const { stdout } = await say(["replies"]);
      return stdout.length > 0 && stdout;
    },
    { everyMs: 100 },
  );
  expect(printed.slice(1, 3)).toEqual(indented);
  const shown = (await say(["show", "finder"])).stdout;
  expect(shown.slice(shown.indexOf("Reply") + 1).slice(0, 2)).toEqual([
    "  {",
    expect.stringMatching(/^ {4}"answer": "There are 2 TODO/),
  ]);
  const { output } = json((await say(["show", "finder", "--json"])).stdout);
  expect(output).toEqual({ answer: expect.stringContaining("2 TODO comments") });
});

test("a schema that cannot be used is one sentence with exit code 2, before Redis is asked and standard input is read", async () => {
  const { say, file } = place();
  const away = { REDIS_URL: `redis://127.0.0.1:${await freePort()}` };
  const unread = {
    [Symbol.asyncIterator]: () => expect.unreachable("standard input was read"),
  };
  const wrong = file("wrong.json", { type: "strin" });
  for (const args of [
    ["spawn", "a", "--prompt", "-"],
    ["run", "-"],
  ]) {
    for (const [name, reason] of [
      ["nope.json", "there is no such file; name a file with a JSON Schema."],
      [".", "it is a directory; name a file with a JSON Schema."],
      ["a.js", 'it is not JSON; write a JSON Schema, such as {"type":"object",'],
      [wrong, 'it has the type "strin" at "#/type": use null, boolean, '],
    ] as const) {
      const refused = await say([...args, "--schema", name], away, { input: unread });
      expect(refused).toMatchObject({ code: 2, stdout: [] });
      expect(refused.stderr).toEqual([
        expect.stringContaining(`--schema "${name}" cannot be used: ${reason}`),
      ]);
    }
  }
});

test("spawn and run take effort and task budget, and say what a level may be", async () => {
  const { say } = place();
  const level = ["--effort", "high", "--task-budget", "40000"];
  const spawned = await say(["spawn", "a", "--model", "claude-opus-5-5", ...level, "--json"]);
  expect(json(spawned.stdout)).toMatchObject({ in_force: { effort: "high", task_budget: 40_000 } });
  for (const verb of [
    ["spawn", "a"],
    ["run", COUNT],
  ]) {
    const much = await say([...verb, "--effort", "much"]);
    expect(much.code).not.toBe(0);
    expect(much.stderr.join("\n")).toContain("low, medium, high, xhigh, max");
    const little = await say([...verb, "--task-budget", "10"]);
    expect(little.stderr.join("\n")).toContain("from 20000 to");
  }
});
