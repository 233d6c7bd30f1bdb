/** Guarantee: what `watch` holds is bounded by the parents at work, however many there have been. */
import { expect, test } from "vitest";
import {
  type FoundParent,
  type WatchedParent,
  watchParents,
} from "../../../../src/cli/local/parents-watch.ts";
import { createPushIterator } from "../../../../src/producer/push-iterator.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { SubagentError } from "../../../../src/shared/errors.ts";
import type { AgentView } from "../../../../src/shared/protocol/agent.ts";
import type { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { until } from "../../../helpers/until.ts";
import { sampleAgent } from "../sample-agent.ts";

/** A watch of the parent `cli`, and of what is found; every sleep takes a millisecond, and moves the clock by all of it. */
function scene() {
  const stopping = new AbortController();
  const live = new Map<string, AgentView[]>();
  const subscribed = new Set<string>();
  const told: string[] = [];
  const found = new Map<string, string>();
  let nowMs = 0;
  let rounds = 0;
  let isRead = true;
  let failure: Error | undefined;
  const parentNamed = (parentId: string): WatchedParent => ({
    parentId,
    async list() {
      if (failure && parentId !== "cli") throw failure;
      return live.get(parentId) ?? [];
    },
    get: async () => Promise.reject(new SubagentError("unknown_agent", "none")),
    events({ signal } = {}) {
      subscribed.add(parentId);
      const onEnd = () => void subscribed.delete(parentId);
      return createPushIterator<ProgressEvent>({ signal, onEnd });
    },
    stop: async () => void told.push(`${parentId} let go`),
  });
  const clock = {
    ...systemClock,
    monotonicMs: () => nowMs,
    async sleep(ms: number) {
      await systemClock.sleep(1);
      nowMs += ms / Math.max(1, subscribed.size);
    },
  };
  const watching = watchParents({
    ...{ parent: parentNamed("cli"), clock, signal: stopping.signal },
    async find() {
      rounds += 1;
      return [...found].map(([parentId, activeAt]): FoundParent<WatchedParent> => {
        return { parentId, activeAt, open: () => parentNamed(parentId) };
      });
    },
    listenerFor: ({ parentId }) => ({
      agent: (view, isChanged) => isChanged && told.push(`${parentId}/${view.agent_id} ${view.status}`),
      event: () => {},
      ended: (view) => told.push(`${parentId}/${view.agent_id} over`),
      away: () => {},
    }),
    hasReader: async () => isRead,
  });
  watching.catch(() => {});
  closeAtEnd(async () => {
    stopping.abort();
    await watching.catch(() => {});
  });
  return {
    ...{ live, subscribed, told, found, watching },
    stop: () => stopping.abort(),
    leave: () => {
      isRead = false;
    },
    fail: (error: Error) => {
      failure = error;
    },
    /** Resolves when so many more rounds of finding have begun. */
    roundsLater: (count: number) => {
      const before = rounds;
      return until(() => rounds >= before + count);
    },
  };
}

test("100 found parents that go quiet leave one watch", async () => {
  const { live, subscribed, found, roundsLater } = scene();
  for (let n = 0; n < 100; n++) {
    found.set(`cli-${n}`, "a");
    live.set(`cli-${n}`, [sampleAgent({ agent_id: "x" })]);
  }
  await until(() => subscribed.size === 101);
  live.clear();
  await until(() => subscribed.size === 1);
  await roundsLater(3);
  expect([...subscribed]).toEqual(["cli"]);
});

test("a parent that was active after it had gone quiet is followed again; one that is not found any more is forgotten", async () => {
  const { live, subscribed, told, found, roundsLater } = scene();
  found.set("cli-1", "a");
  await until(() => told.includes("cli-1 let go"));
  await roundsLater(3);
  expect(subscribed.has("cli-1")).toBe(false);
  found.set("cli-1", "b");
  live.set("cli-1", [sampleAgent({ agent_id: "x" })]);
  await until(() => told.includes("cli-1/x idle"));
  live.clear();
  await until(() => told.at(-1) === "cli-1 let go");
  expect(told).toEqual(["cli-1 let go", "cli-1/x idle", "cli-1/x over", "cli-1 let go"]);
});

test("it ends when nobody reads what it tells", async () => {
  const { subscribed, leave, watching } = scene();
  leave();
  await watching;
  expect(subscribed.size).toBe(0);
});

test("it ends when it is told to, and lets go of all parents", async () => {
  const { live, subscribed, told, found, stop, watching } = scene();
  found.set("cli-1", "a");
  live.set("cli-1", [sampleAgent({ agent_id: "x" })]);
  await until(() => told.includes("cli-1/x idle"));
  stop();
  await watching;
  expect([subscribed.size, told]).toEqual([0, ["cli-1/x idle", "cli-1 let go"]]);
});

test("what is no passing failure of Redis ends all watches", async () => {
  const { subscribed, found, fail, watching } = scene();
  found.set("cli-1", "a");
  fail(new SubagentError("protocol_violation", "torn"));
  await expect(watching).rejects.toThrow("torn");
  expect(subscribed.size).toBe(0);
});
