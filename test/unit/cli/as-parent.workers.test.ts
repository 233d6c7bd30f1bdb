/** What the verbs that show agents say of those that wait. */
import { expect, test } from "vitest";
import { answerCommand, noteQueuedWithoutWorker, type ParentSession } from "../../../src/cli/as-parent.ts";
import type { VisibleStatus } from "../../../src/shared/protocol/agent.ts";

function noted(workers: ParentSession["workers"], ...statuses: VisibleStatus[]): string[] {
  const notes: string[] = [];
  const context = {
    output: { note: (text: string) => notes.push(text) },
  } as unknown as ParentSession["context"];
  noteQueuedWithoutWorker(
    { context, workers, redis: "redis://h:1" },
    statuses.map((status) => ({ status })),
  );
  return notes;
}

test("agents that are queued wait for a worker where none is live; others do not", () => {
  const worker = { v: 1 as const, id: "w", host: "h", version: "0", concurrency: 1, tools: [] };
  const sentence =
    "No worker is live on redis://h:1: what is queued waits until one joins (subagent-queue worker).";
  expect(noted([], "idle", "queued")).toEqual([sentence]);
  expect(noted([], "waiting_for_tools")).toEqual([sentence]);
  expect(noted([], "idle", "waiting", "running")).toEqual([]);
  expect(noted([worker], "queued")).toEqual([]);
});

test("the command that answers a question names the parent where it is not the configured one", () => {
  const acting = (parentId: string) => ({ context: { config: { parentId: "cli" } }, parent: { parentId } });
  expect(answerCommand(acting("cli"), "asker")).toBe('subagent-queue answer asker "…"');
  expect(answerCommand(acting("planner-7"), "asker")).toBe(
    'subagent-queue answer asker "…" --parent planner-7',
  );
});
