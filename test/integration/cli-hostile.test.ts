/** Guarantee: the verbs that look say what stands there, or that it cannot be read: never that Redis is away when it answers. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text as textOf } from "node:stream/consumers";
import { expect, test } from "vitest";
import { bundled } from "../helpers/bundle.ts";
import { openMonitor } from "../helpers/monitor.ts";
import { runHere } from "../helpers/program.ts";
import { placeOn, programOn } from "../helpers/program-on-stage.ts";
import { openStage } from "../stage/stage.ts";

const ESCAPES = "\u001b[2J\u001b]0;owned\u0007\u009b31m\u202e\u061c";

test("show passes over an entry of a log that is no JSON", async () => {
  const stage = await openStage();
  const agent = await stage.task("Count the files");
  await stage.redis.hset(stage.keys.agent(agent).log, "0", "{");
  const { code, stdout, stderr } = await programOn(stage)("show", agent.agentId);
  expect({ code, stderr }).toEqual({ code: 0, stderr: [expect.stringMatching(/^No worker is live/)] });
  expect(stdout.join("\n")).toContain(agent.agentId);
});

test("a message that is no JSON is data that cannot be read, and not a Redis that is away", async () => {
  const stage = await openStage();
  const agent = await stage.spawn();
  await stage.redis.rpush(stage.keys.agent(agent).inbox, "{");
  const { code, stderr } = await programOn(stage)("show", agent.agentId);
  expect(code).toBe(1);
  expect(stderr.join("\n")).toMatch(
    /^subagent-queue: Data in Redis at .* cannot be read \(inbox\.0: not JSON\): run one version/,
  );
  expect(stderr).toHaveLength(1);
});

test("ps shows every other parent beside one whose data cannot be read, and says why it is missing", async () => {
  const stage = await openStage();
  for (const name of ["sound", "broken"]) await stage.parent(name).spawn({ name: "idler" });
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "broken" });
  await stage.redis.set(replies, "of the wrong kind");
  const plain = await programOn(stage)("ps");
  expect(plain).toMatchObject({
    code: 0,
    stdout: expect.arrayContaining([expect.stringContaining("sound")]),
  });
  expect(plain.stderr).toEqual([
    expect.stringMatching(/^broken is left out: its data in Redis cannot be read \(WRONGTYPE .*\)\.$/),
  ]);
  const { stdout } = await programOn(stage)("ps", "--json");
  expect(JSON.parse(stdout.join(""))).toMatchObject({
    parents: [{ parent_id: "sound" }],
    unreadable: [{ tenant: "default", parent_id: "broken", problem: expect.stringContaining("WRONGTYPE") }],
  });
});

test("a key of another type is data that cannot be read, and not a Redis that is away", async () => {
  const stage = await openStage();
  const agent = await stage.spawn();
  await stage.redis.del(stage.keys.agent(agent).record);
  await stage.redis.set(stage.keys.agent(agent).record, "of the wrong kind");
  const { code, stderr } = await programOn(stage)("show", agent.agentId);
  expect(code).toBe(1);
  expect(stderr.join("\n")).toMatch(
    /^subagent-queue: Data in Redis at .* cannot be read \(WRONGTYPE .*\): run one/,
  );
});

test("what an agent and its parent have written reaches a terminal without its control characters", async () => {
  const text = `hello ${ESCAPES}world`;
  const stage = await openStage({
    scenario: { turns: [{ content: [{ type: "text", text }] }], repeat: true },
  });
  const program = programOn(stage);
  await stage.startWorker();
  const agent = await stage.task(text, { keep_alive: true });
  await stage.reply(agent);
  const looks = [
    ["list"],
    ["replies"],
    ["show", agent.agentId, "--transcript"],
    ["logs"],
    ["ps"],
    ["doctor"],
  ];
  for (const look of [...looks, ...looks.map((each) => [...each, "--json"])]) {
    const { stdout, stderr } = await program(...look);
    const said = [...stdout, ...stderr].join("\n");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
    expect(said, look.join(" ")).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u202a-\u202e]/);
  }
});

test("the id that another program gave an agent stands in a line of logs without its control characters", async () => {
  const stage = await openStage();
  const agent = await stage.spawn();
  await stage.destroy(agent);
  await stage.redis.hset(stage.keys.agent(agent).record, "agent_id", `w${ESCAPES}w`);
  const { stdout } = await programOn(stage)("logs");
  expect(stdout).toEqual([expect.stringMatching(/^[\d:]+ {2}w[ -~\ufffd]*w {2}ended: cancelled/)]);
});

test.each([["logs"], ["replies"]])("a reader that leaves %s early ends it without a word", async (verb) => {
  const stage = await openStage();
  await stage.destroy(await stage.task("x"));
  const { cwd, env } = placeOn(stage);
  const child = spawn(process.execPath, [await bundled("src/cli/main.ts"), verb, "--parent", "parent-0"], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.destroy();
  const [stderr, [code]] = await Promise.all([textOf(child.stderr), once(child, "close")]);
  expect(stderr).not.toMatch(/EPIPE|defect/);
  expect(code).toBe(0);
});

test("an option that is given without words is refused, and not passed over", async () => {
  const { cwd, env } = placeOn(await openStage());
  // With a model the rest is in order: the empty option alone can be refused.
  const program = (...args: string[]) => runHere(args, { cwd, env: { ...env, SUBAGENT_MODEL: "offline-1" } });
  const schedule = ["schedule", "x", "--every", "1h", "--prompt", "y"];
  for (const option of ["--tools", "--name"]) {
    const { code, stderr } = await program(...schedule, option, "");
    expect([code, stderr.length], `${option}: ${stderr.join("\n")}`).toEqual([2, 1]);
  }
  expect((await program("schedule", "--json")).stdout).toEqual(["[]"]);
});

test.each([
  { args: ["doctor"], asks: "hexists", key: "live" },
  { args: ["logs", "--follow"], asks: "xrange", key: "history" },
] as const)(
  "a Redis that dies in the middle of $args ends it with one sentence, and no agent is called unreadable for it",
  async ({ args, asks, key }) => {
    const stage = await openStage({ redis: "own", proxied: true });
    const { proxy, server, redis, keys } = stage;
    const agent = await stage.spawn();
    // Seen once, it is looked at again a second and a half later: the examination is not over before.
    await redis.hdel(keys.parent(agent).live, agent.uid);
    const watched = keys.parent(agent)[key];
    const monitor = await openMonitor(server.url, (_, [name, about]) => {
      if (name?.toLowerCase() === asks && about === watched) proxy.refuse();
    });
    const { code, stdout, stderr } = await runHere(args, placeOn(stage));
    monitor.stop();
    expect(code).toBe(3);
    expect(stderr).toEqual([expect.stringMatching(/^subagent-queue: (No Redis at|Redis at) /)]);
    expect(stdout).toEqual([]);
  },
);
