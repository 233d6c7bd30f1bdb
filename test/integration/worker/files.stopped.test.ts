/** Guarantee: the files of a message reach the workspace though the worker that was to write them stops. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { LeaseKeeper } from "../../../src/worker/run/lease.ts";
import { run } from "../../../src/worker/run/run.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("a worker that stops before it has written the files of a message leaves the message to the next one", async () => {
  const done = { content: [{ type: "text" as const, text: "done" }] };
  const stage = await openStage({ scenario: { turns: [done, done] }, timing: LONG_TIMING });
  const agent = await stage.task("work", { keep_alive: true });
  const parent = stage.parent(agent.parentId);
  let sends: Promise<unknown> | undefined;
  // The message comes during the first call: Redis tells of it when the run is to end.
  const model = heldModel(stage, () => {
    sends ??= parent.send(agent.agentId, "more", { files: [{ path: "a.txt", content: "A" }] });
    return sends;
  });
  const { store, redis, keys } = stage;
  const leases = new LeaseKeeper({ store, clock: systemClock });
  const abandoned = new AbortController();
  const attached: typeof store.attached = async (...asked) => {
    abandoned.abort();
    leases.interruptAll();
    return store.attached(...asked);
  };
  const context = runContextOf(stage, {
    model,
    leases,
    abandoned: abandoned.signal,
    draining: abandoned.signal,
    store: { ...store, attached },
  });
  expect(await run(context, { address: agent, wake: 1, timesTaken: 1 })).toMatchObject({
    status: "released",
  });
  expect(await redis.llen(keys.agent(agent).inbox)).toBe(1);
  expect(await redis.hlen(keys.agent(agent).attachments)).toBe(1);
});
