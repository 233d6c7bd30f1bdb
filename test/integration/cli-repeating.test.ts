/** Guarantee: `spawn` and `send` are repeatable on the command line, by a key of the caller's or the one that an error names. */
import { expect, test } from "vitest";
import { runHere } from "../helpers/program.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => VARIABLE.test(name))
    .map((name) => [name, undefined]),
);

const PARENT = { tenant: "default", parentId: "planner-7" };

/** The program on an installation, as one parent, and what it left in Redis. */
function scene({ url, prefix, redis, keys, store }: Stage) {
  const env = {
    ...CLEAN,
    REDIS_URL: url,
    SUBAGENT_PREFIX: prefix,
    SUBAGENT_PARENT: PARENT.parentId,
    SUBAGENT_LOG_LEVEL: "silent",
  };
  return {
    say: (...args: string[]) => runHere(args, { cwd: process.cwd(), env }),
    live: () => store.liveUids(PARENT),
    async unread() {
      const uids = await store.liveUids(PARENT);
      const inboxes = uids.map((uid) => redis.llen(keys.agent({ ...PARENT, uid }).inbox));
      return (await Promise.all(inboxes)).reduce((sum, count) => sum + count, 0);
    },
  };
}

test("a spawn with the same key finds its agent and sends its prompt once; with other words it is refused", async () => {
  const { say, live, unread } = scene(await openStage());
  const spawn = (prompt: string) =>
    say("spawn", "Reporter", "--prompt", prompt, "--request-key", "may", "--json");
  const [first, again] = [await spawn("Report on May"), await spawn("Report on May")];
  expect([first.code, again.code]).toEqual([0, 0]);
  const [made, found] = [first, again].map(({ stdout }) => JSON.parse(stdout.join("\n")));
  expect(found).toMatchObject({ agent_id: made.agent_id, known: true, message: { message_id: "may" } });
  expect([(await live()).length, await unread()]).toEqual([1, 1]);
  const other = await say("spawn", "Somebody else", "--request-key", "may");
  expect(other.code).toBe(2);
  expect(other.stderr.join("\n")).toMatch(/--request-key "may" was used with other arguments/);
  const another = await spawn("Report on June");
  expect(another.code).toBe(2);
  expect(another.stderr.join("\n")).toMatch(/--request-key "may" was used with another text/);
  expect([(await live()).length, await unread()]).toEqual([1, 1]);
});

test("spawns without a key make an agent each", async () => {
  const { say, live } = scene(await openStage());
  for (const name of ["a", "a"]) expect((await say("spawn", name)).code).toBe(0);
  expect(await live()).toHaveLength(2);
});

test("a message with the same id is read once; with another text it is refused, and so is an id that is none", async () => {
  const { say, unread } = scene(await openStage());
  await say("spawn", "Reporter", "--keep-alive");
  const send = (text: string, id: string) => say("send", "reporter", text, "--message-id", id, "--json");
  const [first, again] = [await send("Go on", "step-7"), await send("Go on", "step-7")];
  expect([first, again].map(({ code, stdout }) => [code, JSON.parse(stdout.join("\n"))])).toEqual([
    [0, expect.objectContaining({ message_id: "step-7", status: "queued" })],
    [0, expect.objectContaining({ message_id: "step-7", status: "queued" })],
  ]);
  expect(await unread()).toBe(1);
  const other = await send("Stop", "step-7");
  expect(other.code).toBe(2);
  expect(other.stderr.join("\n")).toMatch(/--message-id "step-7" was used with another text/);
  for (const id of ["", "two words", "x".repeat(129)]) expect((await send("Go on", id)).code).toBe(2);
  expect(await unread()).toBe(1);
});

test.each([
  ["a key of the caller's", ["--request-key", "may"]],
  ["no key", []],
])(
  "a spawn with %s that Redis does not answer names the option that makes it safe, and the same call with it makes one agent",
  async (_what, given) => {
    const stage = await openStage({ redis: "own" });
    const { say, live, unread } = scene(stage);
    const args = ["spawn", "Reporter", "--prompt", "Report on May"];
    // Reads are answered, so that the command gets as far as the spawn.
    await stage.redis.call("CLIENT", "PAUSE", "600000", "WRITE");
    const lost = await say(...args, ...given);
    await stage.redis.call("CLIENT", "UNPAUSE");
    expect(lost.code).toBe(3);
    const [, key = ""] =
      /the same call with --request-key "(\S+)" is safe\./.exec(lost.stderr.join("\n")) ?? [];
    expect(key).toMatch(given.length > 0 ? /^may$/ : /./);
    const again = await say(...args, "--request-key", key);
    expect([again.code, again.stdout]).toEqual([0, ["reporter"]]);
    expect([(await live()).length, await unread()]).toEqual([1, 1]);
  },
);
