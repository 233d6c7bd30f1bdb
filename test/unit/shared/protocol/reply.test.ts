import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  ChannelEntry,
  Reply,
  ReplyStatus,
  STOP_REASONS,
  StopReason,
  statusOf,
} from "../../../../src/shared/protocol/reply.ts";

const reply = {
  reply_id: "sa-1.1",
  parent_id: "planner-7",
  agent_id: "researcher",
  name: "Researcher",
  run: 1,
  kind: "reply",
  status: "succeeded",
  stop_reason: "end_turn",
  agent_status: "ended",
  message_ids: ["m-1"],
  created_at: "2026-11-21T00:00:00.000Z",
  summary: "found it",
  truncated: false,
  turns: 1,
  tokens: 3,
  usage: { input_tokens: 1, output_tokens: 2, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  cost_usd: 0,
  tools_called: { grep: 2 },
  alerts: [],
  duration_ms: 5,
  model: "offline-1",
};

test("the guide says of every stop reason to which status it belongs", () => {
  const guide = readFileSync(new URL("../../../../docs/guide.md", import.meta.url), "utf8");
  const rows = guide.matchAll(/^\| ((?:`\w+`(?:, )?)+) \| `(\w+)` \|/gm);
  const told = [...rows].flatMap(([, reasons = "", status]) =>
    [...reasons.matchAll(/\w+/g)].map(([reason]) => `${status} ${reason}`),
  );
  const known = Object.entries(STOP_REASONS).flatMap(([status, reasons]) =>
    reasons.map((reason) => `${status} ${reason}`),
  );
  expect(told.sort()).toEqual(known.sort());
});

test("every stop reason belongs to exactly one status", () => {
  const all = Object.values(STOP_REASONS).flat();
  expect(new Set(all).size).toBe(all.length);
  expect([...all].sort()).toEqual([...StopReason.options].sort());
  expect(Object.keys(STOP_REASONS)).toEqual([...ReplyStatus.options]);
});

test.for(
  Object.entries(STOP_REASONS).flatMap(([status, reasons]) =>
    reasons.map((reason) => [reason, status] as const),
  ),
)("%s is %s", ([reason, status]) => {
  expect(statusOf(reason)).toBe(status);
});

test("an entry of the channel is a reply, an end, an interim message or a question", () => {
  expect(ChannelEntry.parse(reply)).toEqual(reply);
  const ended = {
    ...reply,
    kind: "ended",
    status: "cancelled",
    stop_reason: "destroyed",
    undelivered: ["m-1"],
  };
  expect(ChannelEntry.parse(ended)).toEqual(ended);
  const { reply_id, parent_id, agent_id, name, run, created_at } = reply;
  const head = { reply_id, parent_id, agent_id, name, run, created_at, agent_status: "running" };
  const interim = { ...head, kind: "message", text: "half way" };
  expect(ChannelEntry.parse(interim)).toEqual(interim);
  const asked = { question_id: "1/a", text: "Which?", answer_by: "2026-11-21T00:00:00.000Z" };
  const question = { ...head, agent_status: "waiting", kind: "question", ...asked };
  expect(ChannelEntry.parse(question)).toEqual(question);
});

test("what stands in neither of the closed sets is no reply", () => {
  for (const wrong of [
    { stop_reason: "because" },
    { status: "ok" },
    { kind: "message" },
    { agent_status: "dead" },
    { turns: -1 },
  ])
    expect(Reply.safeParse({ ...reply, ...wrong }).success, JSON.stringify(wrong)).toBe(false);
});
