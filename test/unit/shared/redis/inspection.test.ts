import { expect, test } from "vitest";
import {
  type AgentSnapshot,
  isTooOld,
  overdueMs,
  type RecordSnapshot,
} from "../../../../src/shared/redis/inspection.ts";

const NOW = 1_000_000;
const record: RecordSnapshot = {
  version: 1,
  agentId: "a",
  status: "queued",
  deadline: NOW - 30_000,
  leaseUntil: 0,
  tooOldAt: 0,
  wake: 1,
  worker: "",
  crashes: 0,
  breaks: 0,
  isNamed: true,
};
const seen = (of: Partial<RecordSnapshot>, more: Partial<AgentSnapshot> = {}): AgentSnapshot => ({
  address: { tenant: "default", parentId: "p", uid: "sa-1" },
  nowMs: NOW,
  record: { ...record, ...of },
  lifeMs: -1,
  log: 0,
  inbox: 0,
  timeline: 0,
  attachments: 0,
  isCounted: true,
  nextCheckMs: undefined,
  ...more,
});

test("an agent whose message has waited too long is overdue since then; an idle one, or one without a message, is not", () => {
  const tooOldAt = NOW - 5_000;
  expect(overdueMs(seen({ deadline: NOW + 1, tooOldAt }))).toBe(5_000);
  expect(overdueMs(seen({ deadline: NOW + 1, tooOldAt, status: "idle" }))).toBe(-1);
  expect(overdueMs(seen({ deadline: NOW + 1, tooOldAt: 0 }))).toBe(-1);
});

test("an agent is too old when its message has waited past its time and the grace", () => {
  const tooOldAt = NOW - 5_000;
  expect(isTooOld(seen({ tooOldAt }), 4_999)).toBe(true);
  expect(isTooOld(seen({ tooOldAt }), 5_000)).toBe(false);
  for (const status of ["idle", "ended"]) expect(isTooOld(seen({ status, tooOldAt }), 0)).toBe(false);
  expect(isTooOld(seen({ tooOldAt: 0 }), 0)).toBe(false);
});
