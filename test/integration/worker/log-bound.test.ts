/** Guarantee: a log does not grow without end. The run that fills it reports what it has; its reply, and who writes further, is told why. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Scenario } from "../../../src/offline/server.ts";
import { entryBytes, LOG_MAX_BYTES } from "../../../src/shared/protocol/log.ts";
import { replay } from "../../../src/worker/loop/replay.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { refusal } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

type Turn = Extract<Scenario, { turns: unknown }>["turns"][number];

const RESULT_CHARS = 50_000;
const CALLS = 64;
const say = (text: string): Turn => ({ content: [{ type: "text", text }] });
const ask: Turn = { content: [{ type: "tool_use", name: "ask_parent", input: { question: "Which é?" } }] };
const readPages = (turn: number): Turn => ({
  content: Array.from({ length: CALLS }, (_, number) => ({
    type: "tool_use",
    id: `toolu_${turn}_${number}`,
    name: "page",
    input: { turn, number },
  })),
});

/** A kept-alive agent that has said "ready", and ways to look at it and at its log. */
async function ready(turns: Turn[]) {
  // A log of 32 MB, filled and read as a whole, keeps a Redis busy for some tenths of a second.
  const stage = await openStage({ redis: "own", scenario: { turns: [say("ready"), ...turns] } });
  const page = defineTool({
    name: "page",
    description: "One page.",
    input: z.object({ turn: z.int(), number: z.int() }),
    run: async () => "x".repeat(RESULT_CHARS),
  });
  await stage.startWorker({ tools: [page] });
  const parent = stage.parent("planner-7", { model: "offline-1", keep_alive: true });
  await parent.register({ transcript_ms: 3_600_000 });
  const { agent_id } = await parent.spawn({ name: "reader" });
  const run = async (text: string) => {
    await parent.send(agent_id, text);
    // A claim of a log of 32 MB may keep Redis for longer than a call waits for it.
    const [reply] = await until(() => parent.waitAll([agent_id]));
    return reply;
  };
  await run("begin");
  const uid = (await stage.store.uidOf({ tenant: "default", parentId: "planner-7" }, agent_id)) ?? "";
  const address = { tenant: "default", parentId: "planner-7", uid };
  const keys = stage.keys.agent(address);
  const logBytes = async () =>
    Object.entries(await stage.redis.hgetall(keys.log)).reduce(
      (sum, [key, json]) => sum + entryBytes(key, json),
      0,
    );
  /** Fills the log until so many bytes are left, as a run of many turns would: with results that no request shows any more. */
  const fill = async (left: number) => {
    const json = JSON.stringify({ v: 1, content: "x".repeat(RESULT_CHARS) });
    const entries: Record<string, string> = {};
    for (
      let n = 0, bytes = await logBytes();
      bytes + entryBytes(`1/old_${n}/result`, json) <= LOG_MAX_BYTES - left;
      n++
    ) {
      entries[`1/old_${n}/result`] = json;
      bytes += entryBytes(`1/old_${n}/result`, json);
    }
    await stage.redis.hset(keys.log, entries);
  };
  const record = async () => stage.store.record(address);
  return { stage, parent, agent_id, address, run, logBytes, fill, record };
}

test("a run whose results fill the log makes its final call, and nothing more is taken from its parent", async () => {
  const agent = await ready([readPages(1), say("what I have found")]);
  const { parent, agent_id, address, stage } = agent;
  await agent.fill(CALLS * RESULT_CHARS);
  const reply = await agent.run("read on");
  expect(reply).toMatchObject({
    status: "partial",
    stop_reason: "context_window",
    summary: "what I have found",
    turns: 2,
    agent_status: "idle",
    error: expect.stringContaining("32 MB"),
  });
  // What the last turn brought stays whole; the record says what the log has.
  const { log, spec } = { log: await stage.store.conversation(address), spec: (await agent.record())?.spec };
  expect([...log.keys()].filter((key) => /^\d+\/toolu_1_\d+\/result$/.test(key))).toHaveLength(CALLS);
  expect(await agent.logBytes()).toBeGreaterThanOrEqual(LOG_MAX_BYTES);
  expect(await agent.logBytes()).toBeLessThan(LOG_MAX_BYTES + CALLS * (RESULT_CHARS + 1_024));
  expect((await agent.record())?.log_bytes).toBe(await agent.logBytes());
  if (!spec) throw new RangeError("no record");
  const decisions = replay({ run: 2, spec, log, ended: "context_window" });
  expect(decisions.filter(({ agrees, assumed }) => !agrees || assumed !== undefined)).toEqual([]);

  const before = await stage.redis.hgetall(stage.keys.agent(address).record);
  const full = refusal("log_full", /log of sub-agent "reader" has 3\d.*of 32 MB.*spawn a new one/);
  await expect(parent.send(agent_id, "and now?")).rejects.toMatchObject(full);
  expect(await stage.redis.hgetall(stage.keys.agent(address).record)).toEqual(before);
  expect(await stage.store.inbox(address)).toEqual([]);

  const page = await parent.transcript(agent_id);
  expect(page).toMatchObject({ entries: expect.any(Array), next: expect.any(Number) });
  await parent.destroy(agent_id);
  await expect(parent.resume(agent_id, "go on")).rejects.toMatchObject(full);
  expect(await parent.list()).toEqual([]);
});

test("a run that begins with a full log, of whose length its record knows nothing, takes its message and reports at once", async () => {
  const agent = await ready([say("all there is")]);
  await agent.fill(-2 * RESULT_CHARS);
  await agent.stage.redis.hdel(agent.stage.keys.agent(agent.address).record, "log_bytes");
  const reply = await agent.run("read on");
  expect(reply).toMatchObject({
    status: "partial",
    stop_reason: "context_window",
    turns: 1,
    summary: "all there is",
  });
  expect((await agent.record())?.log_bytes).toBe(await agent.logBytes());
  await expect(agent.parent.send(agent.agent_id, "and now?")).rejects.toMatchObject(refusal("log_full"));
});

test("a question, its answer and each end leave the record with the length that the log has", async () => {
  const agent = await ready([ask, readPages(1), say("told")]);
  const { parent, agent_id } = agent;
  const isExact = async () => expect((await agent.record())?.log_bytes).toBe(await agent.logBytes());
  await isExact();
  await parent.send(agent_id, "ask");
  await until(async () => (await agent.record())?.status === "waiting");
  await isExact();
  await parent.answer(agent_id, "the first ü");
  const [reply] = await parent.waitAll([agent_id]);
  expect(reply).toMatchObject({ status: "succeeded", summary: "told" });
  await isExact();
});
