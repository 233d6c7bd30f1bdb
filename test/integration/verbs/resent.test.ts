/** ioredis sends a command again when its answer was lost: every script runs twice here, and must not mind. */

import { expect, test } from "vitest";
import { answerEntry } from "../../../src/shared/protocol/log.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import {
  bodyOf,
  DESTROY,
  handedBack,
  IDLE_END,
  questionsOf,
  type Rig,
  SPEC,
  sentOf,
  verbRig,
  wellDone,
} from "./rig.ts";

interface Resent {
  /** Brings the agent into the state and returns the call. */
  prepare(rig: Rig): Promise<() => Promise<{ status: string }>>;
  /** The words of the two answers. */
  answers: [first: string, second: string];
}
const SHORT = { timing: { leaseMs: 10_000, checkMs: 2 } };
const spawnInput = {
  request_key: "key-1",
  digest: "d",
  stem: "a",
  name: "A",
  spec: JSON.stringify(SPEC),
  idle_ms: 600_000,
};

const CALLS: Record<string, Resent> = {
  spawn: {
    answers: ["spawned", "same"],
    prepare: async (rig) => {
      const agent = rig.address();
      return () => rig.store.spawn(agent, spawnInput);
    },
  },
  "spawn beyond the quota": {
    answers: ["quota", "quota"],
    prepare: async (rig) => {
      for (let i = 0; i < 10; i += 1) await rig.spawn();
      return () => rig.store.spawn(rig.address(), spawnInput);
    },
  },
  "send to an idle agent": {
    answers: ["queued", "same"],
    prepare: async (rig) => {
      const agent = await rig.spawn();
      return () => rig.store.send(agent, sentOf("look", "m-1", "d"));
    },
  },
  "send to a running agent": {
    answers: ["delivered", "same"],
    prepare: async (rig) => {
      const { agent } = await rig.running();
      return () => rig.store.send(agent, sentOf("look", "m-1", "d"));
    },
  },
  "send that empties the last place of the inbox": {
    answers: ["delivered", "same"],
    prepare: async (rig) => {
      const agent = await rig.queued();
      for (let i = 1; i < 63; i += 1) await rig.send(agent, "x");
      return () => rig.store.send(agent, sentOf("look", "m-1", "d"));
    },
  },
  claim: {
    answers: ["claimed", "claimed"],
    prepare: async (rig) => {
      const agent = await rig.queued();
      return () => rig.store.claim(agent, { claim_id: "c-1", worker: "w" });
    },
  },
  "claim of an agent that may only be claimed alone": {
    answers: ["suspect", "suspect"],
    prepare: async (rig) => {
      const { agent } = await rig.running();
      await rig.redis.hset(rig.keys.agent(agent).record, { crashes_without_progress: "1", lease_until: "1" });
      return () => rig.store.claim(agent, { claim_id: "c-1", worker: "w" });
    },
  },
  "claim of an agent that crashed in isolation": {
    answers: ["crashed", "crashed"],
    prepare: async (rig) => {
      const { agent } = await rig.running();
      await rig.redis.hset(rig.keys.agent(agent).record, {
        crashes_without_progress: "2",
        isolation: "own_worker",
        lease_until: "1",
      });
      return () => rig.store.claim(agent, { claim_id: "c-1", worker: "w" });
    },
  },
  renew: {
    answers: ["ok", "ok"],
    prepare: async (rig) => {
      const { agent, epoch } = await rig.running();
      return () => rig.store.renew(agent, { epoch, running_ms: 5 });
    },
  },
  append: {
    answers: ["appended", "same"],
    prepare: async (rig) => {
      const { agent, epoch } = await rig.running();
      await rig.send(agent, "two");
      return () =>
        rig.readFirst(agent, epoch, {
          running_ms: 5,
          ...partsOf(bodyOf("so far")),
          advances: true,
          interim_id: "i-1",
          interim: "half way",
        });
    },
  },
  release: {
    answers: ["released", "released"],
    prepare: async (rig) => {
      const { agent, epoch } = await rig.running();
      return () => rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 5, attempts: 1 });
    },
  },
  ask: {
    answers: ["asked", "asked"],
    prepare: async (rig) => {
      const { agent, epoch } = await rig.running();
      return () => rig.store.ask(agent, questionsOf(epoch, ["a", "b"]));
    },
  },
  "answer to one of two questions": {
    answers: ["waiting", "same"],
    prepare: async (rig) => {
      const { agent } = await rig.waiting(["a", "b"]);
      return () =>
        rig.store.answer(agent, { authority: "parent", question_id: "1/a", entry: answerEntry("yes") });
    },
  },
  "answer to the last question": {
    answers: ["queued", "same"],
    prepare: async (rig) => {
      const { agent } = await rig.waiting();
      return () =>
        rig.store.answer(agent, { authority: "parent", question_id: "1/a", entry: answerEntry("yes") });
    },
  },
  "answer by a sweeper": {
    answers: ["queued", "same"],
    prepare: async (rig) => {
      const { agent } = await rig.waiting(["a"], 1);
      await rig.redisReaches((await rig.redisNow()) + 3);
      return () =>
        rig.store.answer(agent, { authority: "sweeper", question_id: "1/a", entry: answerEntry("nothing") });
    },
  },
  "finish of an agent that waits": {
    answers: ["finishing", "finishing"],
    prepare: async (rig) => {
      const { agent } = await rig.waiting();
      return () => rig.store.finish(agent);
    },
  },
  "settle of a run that ends its agent": {
    answers: ["settled", "same"],
    prepare: async (rig) => {
      const { agent, epoch } = await rig.running();
      return () => rig.store.settle(agent, handedBack(epoch));
    },
  },
  "settle of a run that keeps its agent alive": {
    answers: ["settled", "same"],
    prepare: async (rig) => {
      const { agent, epoch } = await rig.running();
      await rig.readFirst(agent, epoch);
      return () => rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 60_000 });
    },
  },
  "settle of a run whose agent is queued again": {
    answers: ["settled", "same"],
    prepare: async (rig) => {
      const { agent, epoch } = await rig.running();
      return () => rig.store.settle(agent, { ...handedBack(epoch), target: "idle", idle_ms: 60_000 });
    },
  },
  "settle that must go on": {
    answers: ["more", "more"],
    prepare: async (rig) => {
      const { agent, epoch } = await rig.running();
      return () => rig.store.settle(agent, wellDone(epoch));
    },
  },
  "settle by the parent": {
    answers: ["settled", "same"],
    prepare: async (rig) => {
      const { agent } = await rig.running();
      return () => rig.store.settle(agent, DESTROY);
    },
  },
  "settle by a sweeper": {
    answers: ["settled", "same"],
    prepare: async (rig) => {
      const agent = await rig.spawn({ idleMs: 1 });
      await rig.redisReaches((await rig.redisNow()) + 3);
      return () => rig.store.settle(agent, IDLE_END);
    },
  },
  finish: {
    answers: ["finishing", "finishing"],
    prepare: async (rig) => {
      const { agent } = await rig.running();
      return () => rig.store.finish(agent);
    },
  },
  "requeue of a lost wake": {
    answers: ["wake", "not_due"],
    prepare: async (rig) => {
      const agent = await rig.queued();
      await rig.redisReaches(Number((await rig.raw(agent)).deadline));
      await rig.redis.hset(rig.keys.agent(agent).record, "deadline", 1);
      return () => rig.store.requeue(agent, { expected_wake: 1 });
    },
  },
  ack: {
    answers: ["first", "first"],
    prepare: async (rig) => {
      await rig.store.settle(await rig.spawn(), DESTROY);
      const [entry] = await rig.replies.read(rig.parent, "0", 1);
      if (!entry) throw new Error("no entry");
      return async () => ({ status: (await rig.replies.ack(rig.parent, entry, "t")) ? "first" : "already" });
    },
  },
};

for (const [name, { prepare, answers }] of Object.entries(CALLS)) {
  test(`${name}: executed twice it answers ${answers.join(", then ")} and the second time changes nothing`, async () => {
    const rig = verbRig(SHORT);
    const call = await prepare(rig);
    expect((await call()).status).toBe(answers[0]);
    const before = withoutLease(await rig.everything());
    expect((await call()).status).toBe(answers[1]);
    expect(withoutLease(await rig.everything())).toEqual(before);
  });
}

/** Only a renewal moves something by being repeated: the lease, which counts from the last sending. */
function withoutLease(everything: Record<string, unknown>): Record<string, unknown> {
  const isRecord = (value: unknown): value is Record<string, string> =>
    typeof value === "object" && value !== null && "lease_until" in value;
  return Object.fromEntries(
    Object.entries(everything).map(([key, value]) => {
      if (!isRecord(value)) return [key, value];
      const { lease_until: _lease, deadline: _deadline, ...rest } = value;
      return [key, rest];
    }),
  );
}

test("the deadline set minds no repetition: a repeated touch stays early, a repeated look catches nothing twice", async () => {
  const rig = verbRig();
  const agent = rig.address();
  await rig.deadlines.hint(agent, 1);
  await rig.deadlines.hint(agent, 1);
  await rig.redisReaches((await rig.redisNow()) + 2);
  const [due] = await rig.deadlines.due(5, 60_000);
  expect(await rig.deadlines.due(5, 60_000)).toEqual([]);
  const at = (await rig.redisNow()) + 90_000;
  if (due) await rig.deadlines.move([{ due, at }]);
  if (due) await rig.deadlines.move([{ due, at }]);
  expect(await rig.redis.zrange(rig.keys.deadlines, 0, -1, "WITHSCORES")).toEqual([due?.member, `${at}`]);
});

test("a verb is sent once more, with its source, to a server that has forgotten its scripts", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const renewed = () => rig.store.renew(agent, { epoch, running_ms: 0 });
  expect(await renewed()).toMatchObject({ status: "ok" });
  await rig.redis.script("FLUSH");
  expect((await Promise.all([renewed(), renewed()])).map(({ status }) => status)).toEqual(["ok", "ok"]);
});
