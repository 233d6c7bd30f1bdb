/** Guarantee: a wake that a worker takes a moment too early, for its clock is ahead of another's, is not spent for nothing. */
import { expect, test } from "vitest";
import { wakeOf } from "../../../src/shared/protocol/keys.ts";
import { type Agent, openStage, type Stage } from "../../stage/stage.ts";

const done = { turns: [{ content: [{ type: "text" as const, text: "done" }] }] };

/** Hands a queued agent back for `delayMs`, and puts its wake into the queue as if that time were over. */
async function wakeTooEarly({ store, wakes }: Stage, agent: Agent, delayMs: number): Promise<void> {
  const payload = JSON.stringify({ v: 1, message_id: "m-1", text: "go on" });
  expect(await store.send(agent, { message_id: "m-1", payload, digest: "" })).toMatchObject({
    status: "queued",
  });
  const claimed = await store.claim(agent, { claim_id: "c-1", worker: "worker-1" });
  if (claimed.status !== "claimed") throw new Error(claimed.status);
  const epoch = Number(claimed.epoch);
  const released = await store.release(agent, { epoch, delay_ms: delayMs, running_ms: 0, attempts: 0 });
  if (released.status !== "released") throw new Error(released.status);
  await wakes.add(wakeOf(agent, agent.agentId, released.wake));
}

test("a wake that comes a moment before its agent may be claimed waits for that moment", async () => {
  const installation = await openStage({ scenario: done });
  await installation.startWorker();
  const agent = await installation.spawn();
  const { wake } = await installation.record(agent);
  await wakeTooEarly(installation, agent, 500);
  // A sweeper, ten seconds later, would give it one wake more.
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  expect((await installation.record(agent)).wake).toBe(wake + 2);
});

test("a wake that comes long before its time waits in the queue for it; its slot is free at once", async () => {
  const installation = await openStage({ scenario: done });
  await installation.startWorker({ concurrency: 1 });
  const agent = await installation.spawn();
  await wakeTooEarly(installation, agent, 60_000);
  const other = await installation.task("another");
  expect(await installation.reply(other)).toMatchObject({ status: "succeeded" });
  const { status, wake } = await installation.record(agent);
  expect(status).toBe("queued");
  expect((await installation.wakes.counts()).delayed).toBe(1);
  expect(await installation.wakes.isAlive({ uid: agent.uid, wake })).toBe(true);
});
