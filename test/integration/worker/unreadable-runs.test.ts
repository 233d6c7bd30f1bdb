/**
 * Guarantee: a run of which Redis holds something that no version wrote ends within a minute, typed, and its parent reads where
 * that stands. Until then the doctor names it, and no neighbour waits for it.
 */
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { wakeJobId } from "../../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { doctorFor } from "../../helpers/doctor.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, type Stage } from "../../stage/stage.ts";

const MINUTE_MS = 60_000;
/** From its second break on the doctor names a run. */
const SEEN_FROM = 2;

function queueOf({ redis, keys }: Stage): Queue {
  const queue = new Queue(keys.wakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

/** The record as Redis holds it: some of it cannot be read. */
async function standing({ redis, keys }: Stage, agent: Agent) {
  const [status, breaks, wake] = await redis.hmget(keys.agent(agent).record, "status", "breaks", "wake");
  return { status, breaks: Number(breaks), wake: Number(wake) };
}

/** Ends the rest of a run that was handed back; answers how long it would have been, ms. */
async function hurry({ redis, keys }: Stage, queue: Queue, { uid, ...agent }: Agent, wake: number) {
  const job = await until(() => queue.getJob(wakeJobId({ uid, wake })), { what: `wake ${wake}` });
  await redis.hset(keys.agent({ ...agent, uid }).record, "not_before", "0");
  // On a machine that stands still its time may be over by now.
  await job.promote().catch(() => {});
  return job.opts.delay ?? 0;
}

/** Follows the run from break to break until it ends; answers the rests in between, ms. */
async function restsOf(stage: Stage, agent: Agent, atBreak: (breaks: number) => Promise<void>) {
  const queue = queueOf(stage);
  const rests: number[] = [];
  for (;;) {
    const isNext = (now: Awaited<ReturnType<typeof standing>>) =>
      now.status === "ended" || (now.status === "queued" && now.breaks === rests.length + 1);
    const { status, breaks, wake } = await until(async () => {
      const now = await standing(stage, agent);
      return isNext(now) && now;
    });
    if (status === "ended") return rests;
    await atBreak(breaks);
    rests.push(await hurry(stage, queue, agent, wake));
  }
}

type Spoil = (stage: Stage, agent: Agent) => Promise<unknown>;
const spec: Spoil = ({ redis, keys }, agent) => redis.hset(keys.agent(agent).record, "spec", "{");
const inbox: Spoil = ({ redis, keys }, agent) => redis.rpush(keys.agent(agent).inbox, "{");
const log: Spoil = ({ redis, keys }, agent) => redis.hset(keys.agent(agent).log, "0", "{");

test.each([
  ["a specification", spec, /\bspec: \S/],
  ["a message in its inbox", inbox, /\binbox\.1: not JSON/],
  ["an entry of its log", log, /\blog\.0: not JSON/],
])(
  "%s that is no JSON fails its run within a minute of rests, named, and no neighbour waits for it",
  async (_, spoil, named) => {
    const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] } });
    const doctor = await doctorFor(stage);
    const first = await stage.task("work");
    const spoiled = await stage.task("work");
    await spoil(stage, spoiled);
    await stage.startWorker();
    const seen: string[] = [];
    const rests = await restsOf(stage, spoiled, async (breaks) => {
      const { breaking_off } = await doctor.findings();
      if (breaks >= SEEN_FROM) seen.push(...(breaking_off?.names ?? []));
      else expect(breaking_off).toBeUndefined();
      expect(await stage.reply(first)).toMatchObject({ status: "succeeded" });
      expect(await stage.entries(spoiled)).toEqual([]);
    });
    expect(rests).not.toContain(0);
    expect(rests.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(MINUTE_MS);
    expect(seen).toEqual([`${spoiled.parentId}/${spoiled.agentId}`]);
    const reply = await stage.reply(spoiled);
    expect(reply).toMatchObject({ status: "failed", stop_reason: "worker_lost", agent_status: "ended" });
    expect(reply.error).toMatch(/not JSON/);
    expect(reply.error).toMatch(named);
    expect(await stage.entries(spoiled)).toHaveLength(1);
    const last = await stage.task("work");
    expect(last.parentId).toBe(spoiled.parentId);
    expect(await stage.reply(last)).toMatchObject({ status: "succeeded" });
  },
);
