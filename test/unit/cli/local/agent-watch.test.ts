import { expect, test } from "vitest";
import { watchAgents } from "../../../../src/cli/local/agent-watch.ts";
import { createPushIterator } from "../../../../src/producer/push-iterator.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { SubagentError } from "../../../../src/shared/errors.ts";
import type { AgentView } from "../../../../src/shared/protocol/agent.ts";
import type { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { until } from "../../../helpers/until.ts";
import { sampleAgent } from "../sample-agent.ts";

const eventOf = (agent_id: string, type: "turn_started" = "turn_started"): ProgressEvent => ({
  v: 1,
  type,
  agent_id,
  name: agent_id,
  run: 1,
  turn: 1,
});

function scene() {
  const live = new Map<string, AgentView>();
  const records = new Map<string, AgentView>();
  const events = createPushIterator<ProgressEvent>();
  const told: string[] = [];
  const stopping = new AbortController();
  let failure: SubagentError | undefined;
  let looks = 0;
  const parent = {
    async list() {
      looks += 1;
      if (failure) throw failure;
      return [...live.values()];
    },
    async get(id: string) {
      const record = records.get(id);
      if (!record) throw new SubagentError("unknown_agent", "none");
      return record;
    },
    events: () => events,
  };
  const watching = watchAgents(
    parent,
    { clock: { ...systemClock, sleep: quick }, signal: stopping.signal },
    {
      agent: (view, isChanged) => isChanged && told.push(`${view.agent_id} ${view.status}`),
      event: (event) => told.push(`${event.agent_id} ${event.type}`),
      ended: (view) => told.push(`${view.agent_id} over: ${view.ended_reason ?? "?"}`),
      away: (problem) => told.push(problem),
    },
  );
  const stop = async () => {
    stopping.abort();
    events.end();
    await watching;
  };
  closeAtEnd(stop);
  return {
    live,
    records,
    events,
    told,
    stop,
    fail: (error: SubagentError | undefined) => {
      failure = error;
    },
    /** Resolves when two more looks have begun, so that one was complete. */
    looked: () => {
      const before = looks;
      return until(() => looks >= before + 2);
    },
  };
}

/** Looks follow each other at once. */
function quick(): Promise<void> {
  return systemClock.sleep(1);
}

test("an agent is told about when its status changes, and when it is over, once", async () => {
  const { live, records, told, looked } = scene();
  live.set("a", sampleAgent({ agent_id: "a" }));
  await looked();
  live.set("a", sampleAgent({ agent_id: "a", status: "running", run: 1 }));
  await looked();
  live.delete("a");
  records.set("a", sampleAgent({ agent_id: "a", status: "ended", ended_reason: "destroyed" }));
  await looked();
  expect(told).toEqual(["a idle", "a running", "a over: destroyed"]);
});

test("an agent that came and went between two looks is told about by its events and its record", async () => {
  const { records, events, told, looked } = scene();
  records.set("b", sampleAgent({ agent_id: "b", status: "ended", ended_reason: "completed" }));
  events.push(eventOf("b"));
  await looked();
  events.push(eventOf("b"));
  await looked();
  expect(told).toEqual(["b turn_started", "b over: completed"]);
});

test("an agent whose record is gone is over all the same", async () => {
  const { live, told, looked } = scene();
  live.set("a", sampleAgent({ agent_id: "a" }));
  await looked();
  live.delete("a");
  await looked();
  expect(told).toEqual(["a idle", "a over: ?"]);
});

test("a Redis that is away is told about once, and the looks go on", async () => {
  const { live, told, looked, fail } = scene();
  fail(new SubagentError("redis_unavailable", "away"));
  await looked();
  fail(undefined);
  live.set("a", sampleAgent({ agent_id: "a" }));
  await looked();
  expect(told).toEqual(["away", "a idle"]);
});

test("of agents that are over the last 1,000 are remembered: an event that comes late is not told", async () => {
  const { records, events, told, looked } = scene();
  const ended = sampleAgent({ status: "ended", ended_reason: "completed" });
  for (let n = 0; n <= 1_000; n++) {
    records.set(`a${n}`, { ...ended, agent_id: `a${n}` });
    events.push(eventOf(`a${n}`));
  }
  await until(() => told.includes("a1000 over: completed"));
  await looked();
  told.length = 0;
  events.push(eventOf("a1"));
  events.push(eventOf("a0"));
  await looked();
  expect(told).toEqual(["a0 turn_started", "a0 over: completed"]);
});

test("a Redis that is away again is told about again", async () => {
  const { told, looked, fail } = scene();
  const away = new SubagentError("redis_unavailable", "away");
  for (const failure of [away, undefined, away, undefined]) {
    fail(failure);
    await looked();
  }
  expect(told).toEqual(["away", "away"]);
});

test("an agent that has run between two looks is told about, though its status is the same", async () => {
  const { live, told, looked } = scene();
  live.set("a", sampleAgent({ agent_id: "a", run: 1 }));
  await looked();
  live.set("a", sampleAgent({ agent_id: "a", run: 2 }));
  await looked();
  expect(told).toEqual(["a idle", "a idle"]);
});

test("an agent that the list does not have yet, though its first event is there, is not over", async () => {
  const { live, records, events, told, looked } = scene();
  const spawned = sampleAgent({ agent_id: "b", status: "running" });
  records.set("b", spawned);
  events.push(eventOf("b"));
  await looked();
  live.set("b", spawned);
  await looked();
  expect(told).toEqual(["b turn_started", "b running"]);
});
