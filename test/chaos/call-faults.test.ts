/**
 * Guarantee: a call of several commands that says "nothing was done" has changed nothing, and one that does not know its outcome is
 * complete after its repetition, whichever of its commands meets a fault: the connection is lost before Redis has it or after Redis
 * performed it, Redis refuses it, or Redis is away from it on.
 */
import { expect, test } from "vitest";
import type { Client } from "../../src/producer/client.ts";
import type { Parent } from "../../src/producer/parent.ts";
import { newThreadId, openThread } from "../../src/service/agent-protocol/thread.ts";
import { mcpMount } from "../../src/service/mcp/mount.ts";
import { SubagentError } from "../../src/shared/errors.ts";
import { type Keys, keysUnder } from "../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis, type RedisClient } from "../../src/shared/redis/connection/connection.ts";
import { startApi } from "../helpers/api.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { type CommandFault, openFaultLine } from "../helpers/fault-line.ts";
import { askMcp } from "../helpers/mcp.ts";
import { started, testClient, testParent } from "../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { whileRetryable } from "../helpers/retryable.ts";

const PARENT = { tenant: "default", parentId: "planner-7" };
const FAULTS = ["cut before", "cut after", "refused", "away before", "away after"] as const;
type Fault = (typeof FAULTS)[number];

/** What a call uses: `redis` and `direct` meet no fault. */
interface Scene {
  client: Client;
  parent: Parent;
  direct: Parent;
  directClient: Client;
  redis: RedisClient;
  keys: Keys;
  threadId: string;
}

interface Call {
  before?(scene: Scene): Promise<unknown>;
  run(scene: Scene): Promise<unknown>;
  /** What the call changes. */
  state(scene: Scene): Promise<unknown>;
  /** The state after the call. */
  after: unknown;
  /** The part of the result that no fault may change. */
  says?: (result: unknown) => unknown;
  /** Refusal of a repetition after the call has worked. */
  over?: string;
  /** Repeated, it does more: it has no key. */
  isOnce?: boolean;
}

const urlOf = ({ redis, keys }: Scene) => redis.hget(keys.parent(PARENT).webhook, "url");
const noteOf = async ({ redis, keys }: Scene) => (await redis.get(keys.paused)) !== null;
const begin = (client: Client, threadId: string, text: string) =>
  openThread(client, PARENT.tenant, PARENT.parentId, threadId).begin({
    assistantId: "agent",
    text,
    callbackThreadId: "caller",
  });
const textsOf = async ({ redis, keys, threadId }: Scene) =>
  (await redis.lrange(keys.agent({ ...PARENT, uid: threadId }).inbox, 0, -1)).map(
    (text) => JSON.parse(text).text,
  );

const CALLS: Readonly<Record<string, Call>> = {
  "setting a webhook": {
    before: ({ direct }) => direct.webhook.set({ url: "https://example.com/a" }),
    run: ({ parent }) => parent.webhook.set({ url: "https://example.com/b" }),
    state: urlOf,
    after: "https://example.com/b",
  },
  "removing a webhook": {
    before: ({ direct }) => direct.webhook.set({ url: "https://example.com/a" }),
    run: ({ parent }) => parent.webhook.remove(),
    state: urlOf,
    after: null,
    over: "unknown_webhook",
  },
  "a pause": {
    run: ({ client }) => client.pause("night"),
    state: noteOf,
    after: true,
    says: (result) => (result as { reason: string }).reason,
  },
  "a resume": {
    before: ({ directClient }) => directClient.pause("night"),
    run: ({ client }) => client.resume(),
    state: noteOf,
    after: false,
    says: (result) => (result as { reason: string } | undefined)?.reason,
  },
  "removing a schedule": {
    before: ({ direct }) => direct.schedule({ schedule_id: "s", cron: "0 7 * * 1", prompt: "hello" }),
    run: ({ parent }) => parent.unschedule("s"),
    state: ({ redis, keys }) => redis.hlen(keys.parent(PARENT).schedules),
    after: 0,
    over: "unknown_schedule",
  },
  "a first run of a thread": {
    run: ({ client, threadId }) => begin(client, threadId, "one"),
    state: textsOf,
    after: ["one"],
    isOnce: true,
  },
  "a message to a run of a thread": {
    before: ({ directClient, threadId }) => begin(directClient, threadId, "one"),
    run: ({ client, threadId }) => begin(client, threadId, "two"),
    state: textsOf,
    after: ["one", "two"],
    isOnce: true,
  },
};

/** Commands of the connection itself. */
const NOT_OF_THE_CALL = /^(info|client|select|ping|script|hello|p?subscribe|echo)$/i;

/**
 * Decides about the commands of a call: its command `at` meets the fault. A transaction is refused as a whole, and records that are read
 * at once count as one.
 */
function faultAt(at: number, fault: Fault) {
  let [isOn, count, isAway, isRefused, last] = [false, 0, false, false, ""];
  return {
    begin: () => {
      isOn = true;
    },
    end: () => {
      [isOn, isAway] = [false, false];
    },
    count: () => count,
    decide([name = ""]: readonly string[]): CommandFault {
      if (isAway) return "cut before";
      if (!isOn || NOT_OF_THE_CALL.test(name)) return "passes";
      if (isRefused) {
        isRefused = name !== "exec";
        return "refused";
      }
      const isNext = name === "hgetall" && name === last;
      const isInside = last === "multi" && name !== "exec";
      if (!isInside) last = name;
      if (isNext || isInside) return "passes";
      count += 1;
      if (count !== at) return "passes";
      isAway = fault.startsWith("away");
      isRefused = fault === "refused" && name === "multi";
      return fault === "away before" ? "cut before" : fault === "away after" ? "cut after" : fault;
    },
  };
}

async function sceneOver(line: string, prefix: string): Promise<Scene> {
  const directClient = testClient({ prefix });
  const client = testClient({ prefix, redisUrl: line });
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  await started(client);
  const [parent, direct] = [testParent(client), testParent(directClient)];
  return { client, parent, direct, directClient, redis, keys: keysUnder(prefix), threadId: newThreadId() };
}

/** Runs the call with a fault at its command `at`; resolves to the number of its commands. */
async function live(name: string, { before, run, state, ...call }: Call, at: number, fault: Fault) {
  const met = faultAt(at, fault);
  const line = await openFaultLine(Number(new URL(redisUrl()).port), met.decide);
  const scene = await sceneOver(line, uniquePrefix());
  await before?.(scene);
  const earlier = await state(scene);
  met.begin();
  const [result] = await Promise.allSettled([run(scene)]);
  const count = met.count();
  met.end();
  const life = `${name}: ${fault} command ${at}`;
  const now = { life, state: await state(scene) };
  if (result.status === "fulfilled") {
    expect(now).toEqual({ life, state: call.after });
    expect({ life, says: call.says?.(result.value) }).toEqual({ life, says: call.says && "night" });
    return count;
  }
  const error: unknown = result.reason;
  if (!(error instanceof SubagentError)) throw error;
  if (error.code === "redis_unavailable") {
    expect(error.message).toContain("nothing was done");
    expect(now).toEqual({ life, state: earlier });
    return count;
  }
  expect({ life, code: error.code }).toEqual({ life, code: "outcome_unknown" });
  if (call.isOnce) {
    expect([earlier, call.after]).toContainEqual(now.state);
    expect(error.message).not.toContain("the same call with");
    return count;
  }
  await started(scene.client);
  // On a busy machine one repetition may exceed its time limit.
  const again = await whileRetryable([], () => run(scene)).catch((reason: unknown) => reason);
  if (again instanceof SubagentError) {
    expect({ life, code: again.code }).toEqual({ life, code: call.over });
    expect(error.message).toContain(`${call.over} then says that it did`);
  }
  expect({ life, state: await state(scene) }).toEqual({ life, state: call.after });
  return count;
}

test.for(Object.entries(CALLS))(
  "%s says what is true, whichever of its commands meets a fault",
  async ([name, call]) => {
    const count = await live(name, call, 0, "refused");
    expect(count).toBeGreaterThan(3);
    const lives = FAULTS.flatMap((fault) =>
      Array.from({ length: count }, (_, at) => live(name, call, at + 1, fault)),
    );
    await Promise.all(lives);
  },
);

const LOOK_FIRST =
  /it is unknown whether .*: look with list_sub_agents or check_sub_agent before you repeat it\.$/;

/** A line to Redis that, once it is away, loses the answer of each script about the parent. */
async function linesWithoutAnswers() {
  const line = { isAway: false, redisUrl: "" };
  const isLost = ([name = "", ...words]: readonly string[]) =>
    line.isAway && /^eval/i.test(name) && words.some((word) => word.includes(PARENT.parentId));
  line.redisUrl = await openFaultLine(Number(new URL(redisUrl()).port), (words) =>
    isLost(words) ? "cut after" : "passes",
  );
  return line;
}

test("a model whose call has no answer is told where to look, and to name no key that its tool does not take", async () => {
  const line = await linesWithoutAnswers();
  const parent = testParent(await started(testClient({ redisUrl: line.redisUrl, prefix: uniquePrefix() })));
  const [spawn] = parent.tools(["spawn_sub_agent"]);
  line.isAway = true;
  const told = await spawn?.run({ name: "worker" });
  expect(told).toMatch(LOOK_FIRST);
});

test.each([true, false])("so is one that begins a task of MCP; follows tasks: %s", async (followsTasks) => {
  const line = await linesWithoutAnswers();
  const client = await started(testClient({ redisUrl: line.redisUrl, prefix: uniquePrefix() }));
  const { url } = await startApi({ client, mounts: [mcpMount()] });
  line.isAway = true;
  const call = { name: "task", arguments: { prompt: "go" } };
  const { result } = await askMcp(`${url}/mcp?parent=planner-7`, "tools/call", call, { followsTasks });
  expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringMatching(LOOK_FIRST) }] });
});
