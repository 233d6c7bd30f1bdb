/**
 * Guarantee: what a caller waits for costs the same, however many replies of others its parent has not acked, and however
 * long the specifications of its live agents are.
 */
import { expect, test, vi } from "vitest";
import { beginTask } from "../../../src/producer/detached-task.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { refusal } from "../../helpers/parents.ts";
import { openStage } from "../../stage/stage.ts";

const UNACKED = 1_000;
const CALLS = 10;
const SUMMARY = "x".repeat(2_000);
/** A call's own reply and record travel a few times; the channel would be 2 MB. */
const MOST_BYTES_A_CALL = 30_000;

/** A parent whose channel holds replies that nobody has acked, and how many bytes Redis sends while something is done. */
async function scene() {
  const stage = await openStage({ redis: "own" });
  const parent = stage.parent();
  const worker = stage.scriptedWorker();
  const { address } = await beginTask(parent, { prompt: "the first", name: "first" });
  await worker.run("first", { summary: SUMMARY });
  const { replies } = stage.keys.parent(address);
  const [[, fields] = ["", []]] = await stage.observer.xrange(replies, "-", "+", "COUNT", 1);
  const repliesOfOthers = async () => {
    const adding = stage.observer.pipeline();
    for (let i = 0; i < UNACKED; i++) {
      const another = fields.map((field) => field.replaceAll(address.uid, `sa-other-${i}`));
      adding.xadd(replies, "*", ...another);
    }
    await adding.exec();
  };
  await repliesOfOthers();
  const sent = async () =>
    Number(/total_net_output_bytes:(\d+)/.exec(await stage.observer.info("stats"))?.[1]);
  const bytesOf = async (work: () => Promise<unknown>) => {
    const before = await sent();
    await work();
    return (await sent()) - before;
  };
  const channel = () => stage.observer.xlen(replies);
  return { stage, replies, parent, worker, bytesOf, channel, repliesOfOthers };
}

async function each(work: (i: number) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < CALLS; i++) await work(i);
}

test("tasks that are begun and awaited one after another do not read the channel", async () => {
  const { parent, worker, bytesOf, channel } = await scene();
  const bytes = await bytesOf(() =>
    each(async (i) => {
      const task = parent.task({ prompt: "go", name: `new_${i}` });
      await worker.run(`new_${i}`, { summary: "done" });
      expect(await task).toMatchObject({ summary: "done" });
    }),
  );
  process.stdout.write(`fresh: ${Math.round(bytes / CALLS)} bytes a task\n`);
  expect(await channel()).toBeGreaterThan(UNACKED);
  expect(bytes / CALLS).toBeLessThan(MOST_BYTES_A_CALL);
});

test("tasks whose request keys are known do not read it either, before and after their ack", async () => {
  const { parent, worker, bytesOf } = await scene();
  const wish = (i: number) => ({ prompt: "go", name: `known_${i}`, request_key: `key-${i}` });
  await each(async (i) => {
    await beginTask(parent, wish(i));
    await worker.run(`known_${i}`, { summary: `result ${i}` });
  });
  for (const when of ["before", "after"]) {
    const bytes = await bytesOf(() =>
      each(async (i) => expect(await parent.task(wish(i))).toMatchObject({ summary: `result ${i}` })),
    );
    process.stdout.write(`promised, ${when} the ack: ${Math.round(bytes / CALLS)} bytes a task\n`);
    expect(bytes / CALLS).toBeLessThan(MOST_BYTES_A_CALL);
  }
});

test("waits for agents that exist do not read it either", async () => {
  const { parent, worker, bytesOf, repliesOfOthers } = await scene();
  await each(async (i) => {
    const { agent_id } = await parent.spawn({ name: `there_${i}` });
    await parent.send(agent_id, "go");
    await worker.run(agent_id, { summary: `result ${i}` });
  });
  await repliesOfOthers();
  const bytes = await bytesOf(() =>
    each(async (i) => expect(await parent.waitAny([`there_${i}`])).toMatchObject({ summary: `result ${i}` })),
  );
  process.stdout.write(`shared: ${Math.round(bytes / CALLS)} bytes a wait\n`);
  expect(bytes / CALLS).toBeLessThan(MOST_BYTES_A_CALL);
});

test("waits for agents that were destroyed do not read it either, whether they had work or not", async () => {
  const { parent, bytesOf, repliesOfOthers } = await scene();
  await each(async (i) => {
    const { agent_id } = await parent.spawn({ name: `gone_${i}` });
    if (i % 2 === 0) await parent.send(agent_id, "go");
    await parent.destroy(agent_id);
  });
  await repliesOfOthers();
  const bytes = await bytesOf(() =>
    each(async (i) => expect(await parent.waitAny([`gone_${i}`])).toMatchObject({ status: "cancelled" })),
  );
  process.stdout.write(`destroyed: ${Math.round(bytes / CALLS)} bytes a wait\n`);
  expect(bytes / CALLS).toBeLessThan(MOST_BYTES_A_CALL);
});

test("the reply of an agent that ended while it was idle is looked for from its spawn on", async () => {
  const { parent, worker, bytesOf } = await scene();
  await each(async (i) => {
    const { agent_id } = await parent.spawn({ name: `idle_${i}`, keep_alive: true });
    await parent.send(agent_id, "go");
    await worker.run(agent_id, { summary: `result ${i}`, keepAlive: true });
    await parent.destroy(agent_id);
  });
  const bytes = await bytesOf(() =>
    each(async (i) => expect(await parent.waitAny([`idle_${i}`])).toMatchObject({ summary: `result ${i}` })),
  );
  expect(bytes / CALLS).toBeLessThan(2 * MOST_BYTES_A_CALL);
});

test("check_sub_agent reads of the channel what came in the agent's life, and nothing behind its end", async () => {
  const { stage, replies, parent, worker, channel } = await scene();
  const check = parent.tools().find(({ name }) => name === "check_sub_agent");
  const { agent_id } = await parent.spawn({ name: "checked" });
  let pages = 0;
  const monitor = await openMonitor(stage.url, (_seconds, [name = "", , , , , count], source) => {
    // A page begins with a command for so many entries.
    if (name.toLowerCase() === "xrange" && source !== "lua" && count === "4") pages += 1;
  });
  closeAtEnd(() => monitor.stop());
  const pagesOf = async () => {
    const before = pages;
    const text = await check?.run({ agent_id });
    await monitor.caughtUp();
    return { text, pages: pages - before };
  };
  // All that others have left unacked stands in front of it.
  expect(await pagesOf()).toMatchObject({ text: expect.stringContaining("idle"), pages: 1 });
  await parent.send(agent_id, "go");
  await worker.run(agent_id, { summary: "the result" });
  const [[, fields] = ["", []]] = await stage.observer.xrange(replies, "-", "+", "COUNT", 1);
  const adding = stage.observer.pipeline();
  for (let i = 0; i < 4 * UNACKED; i++) adding.xadd(replies, "*", ...fields);
  await adding.exec();
  expect(await channel()).toBeGreaterThan(5 * UNACKED);
  for (const said of [/<sub_agent(?:.|\n)*the result/, /the result/])
    expect(await pagesOf()).toMatchObject({ text: expect.stringMatching(said), pages: 1 });
});

test("neither a spawn that the quota refuses nor a wait for a run that goes on reads what its live agents were told", async () => {
  const { parent, bytesOf } = await scene();
  await each(async (i) => {
    const { agent_id } = await parent.spawn({ name: `big_${i}`, system: "x".repeat(2 * MOST_BYTES_A_CALL) });
    await parent.send(agent_id, "go");
  });
  const refused = await bytesOf(() =>
    expect(parent.spawn({ name: "more" })).rejects.toMatchObject(refusal("quota_exceeded", /big_0, big_1/)),
  );
  expect(refused).toBeLessThan(MOST_BYTES_A_CALL);
  const waited = await bytesOf(() =>
    expect(parent.waitAny(["big_0"], { timeout_ms: 200 })).rejects.toMatchObject(refusal("timed_out")),
  );
  expect(waited).toBeLessThan(MOST_BYTES_A_CALL);
});

test("a look at one agent parses no entry of others, and finds its own among them", async () => {
  const { stage, parent, worker, repliesOfOthers } = await scene();
  const { agent_id } = await parent.spawn({ name: "old", keep_alive: true });
  await repliesOfOthers();
  await parent.send(agent_id, "go");
  await worker.run(agent_id, { summary: "its own", keepAlive: true });
  await repliesOfOthers();
  const check = parent.tools(["check_sub_agent"])[0] ?? expect.unreachable();
  const parsed = vi.spyOn(JSON, "parse");
  closeAtEnd(() => void parsed.mockRestore());
  expect(await check.run({ agent_id })).toContain("its own");
  expect(parsed.mock.calls.length).toBeLessThan(100);
  expect(
    await stage.observer.xlen(stage.keys.parent({ tenant: "default", parentId: "planner-7" }).replies),
  ).toBe(3 * UNACKED + 1);
});
