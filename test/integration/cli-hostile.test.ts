/** Guarantee: the verbs that look say what stands there, or that it cannot be read: never that Redis is away when it answers. */
import { expect, test } from "vitest";
import { runHere } from "../helpers/program.ts";
import { redisUrl } from "../helpers/redis.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const ESCAPES = "\u001b[2J\u001b]0;owned\u0007\u009b31m\u202e\u061c";

/** The program on an installation, as the parent of its first agents. */
function programOn({ prefix, workspaceRoot }: Stage) {
  const env = {
    REDIS_URL: redisUrl(),
    SUBAGENT_PREFIX: prefix,
    SUBAGENT_WORKSPACES: workspaceRoot,
    SUBAGENT_PARENT: "parent-0",
    SUBAGENT_LOG_LEVEL: "silent",
    NODE_ENV: undefined,
  };
  return (...args: string[]) => runHere(args, { cwd: process.cwd(), env });
}

test("show passes over an entry of a log that is no JSON", async () => {
  const stage = await openStage();
  const agent = await stage.task("Count the files");
  await stage.redis.hset(stage.keys.agent(agent).log, "0", "{");
  const { code, stdout, stderr } = await programOn(stage)("show", agent.agentId);
  expect({ code, stderr }).toEqual({ code: 0, stderr: [] });
  expect(stdout.join("\n")).toContain(agent.agentId);
});

test("a message that is no JSON is data that cannot be read, and not a Redis that is away", async () => {
  const stage = await openStage();
  const agent = await stage.spawn();
  await stage.redis.rpush(stage.keys.agent(agent).inbox, "{");
  const { code, stderr } = await programOn(stage)("show", agent.agentId);
  expect(code).toBe(1);
  expect(stderr.join("\n")).toMatch(/^subagent-queue: Data in Redis at .* cannot be read \(.*JSON.*\): run one version/);
  expect(stderr).toHaveLength(1);
});

test("what an agent and its parent have written reaches a terminal without its control characters", async () => {
  const text = `hello ${ESCAPES}world`;
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text }] }], repeat: true } });
  const program = programOn(stage);
  await stage.startWorker();
  const agent = await stage.task(text, { keep_alive: true });
  await stage.reply(agent);
  const looks = [["list"], ["replies"], ["show", agent.agentId, "--transcript"], ["logs"], ["ps"], ["doctor"]];
  for (const look of [...looks, ...looks.map((each) => [...each, "--json"])]) {
    const { stdout, stderr } = await program(...look);
    const said = [...stdout, ...stderr].join("\n");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
    expect(said, look.join(" ")).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u202a-\u202e]/);
  }
});

test("an option that is given without words is refused, and not passed over", async () => {
  const program = programOn(await openStage());
  const schedule = ["schedule", "x", "--every", "1h", "--prompt", "y"];
  for (const option of ["--tools", "--name"]) {
    const { code, stderr } = await program(...schedule, option, "");
    expect([code, stderr.length], `${option}: ${stderr.join("\n")}`).toEqual([2, 1]);
  }
  expect((await program("schedule", "--json")).stdout).toEqual(["[]"]);
});
