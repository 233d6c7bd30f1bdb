import { expect, test } from "vitest";
import { AgentRecord, AgentSpec, PAYLOAD_VERSION, viewOf } from "../../../../src/shared/protocol/agent.ts";
import { SPAWN_LIMITS } from "../../../../src/shared/protocol/limits.ts";

const spec: AgentSpec = {
  v: PAYLOAD_VERSION,
  model: "offline-1",
  description: "Researches topic X",
  limits: SPAWN_LIMITS,
  keep_alive: true,
  idle_ms: 600_000,
};
const stored = {
  v: "1",
  uid: "sa-0123456789abcdef01234567",
  tenant: "default",
  parent_id: "planner-7",
  agent_id: "researcher",
  name: "Researcher",
  spec: JSON.stringify(spec),
  status: "queued",
  created_at: "1795240000000",
  epoch: "2",
  run: "1",
  wake: "3",
  deadline: "1795240010000",
  inbox_read: "0",
  looks: "0",
  not_before: "1795240005000",
};

test("a stored record reads back as numbers, its specification included; what a reader does not need is left out", () => {
  const record = AgentRecord.parse(stored);
  expect(record).toMatchObject({
    epoch: 2,
    run: 1,
    wake: 3,
    created_at: 1_795_240_000_000,
    spec,
    status: "queued",
  });
  expect(record).toMatchObject({ running_ms: 0, attempts: 0, crashes_without_progress: 0 });
  expect(record).not.toHaveProperty("looks");
});

test.for([
  ["status", "asleep"],
  ["epoch", "-1"],
  ["epoch", "1.5"],
  ["epoch", "x"],
  ["spec", "{"],
  ["spec", "{}"],
  ["uid", "planner-7"],
  ["ended_reason", "bored"],
])("a record whose %s is %j is refused", ([field = "", value]) => {
  expect(AgentRecord.safeParse({ ...stored, [field]: value }).success).toBe(false);
});

test("a parent sees who its agent is and how far it has come, and nothing of keys, workers or epochs", () => {
  expect(viewOf(AgentRecord.parse({ ...stored, worker: "w-1" }))).toEqual({
    agent_id: "researcher",
    name: "Researcher",
    status: "queued",
    created_at: "2026-11-21T05:46:40.000Z",
    description: "Researches topic X",
    run: 1,
    limits: SPAWN_LIMITS,
    model: "offline-1",
    keep_alive: true,
  });
});

test("a parent sees what an agent waits for, and until when, only while it waits", () => {
  const questions = [{ question_id: "1/a", text: "Which?", default_answer: "this" }];
  const waiting = {
    ...stored,
    status: "waiting",
    deadline: "1795239000000",
    questions: JSON.stringify(questions),
  };
  const answer_by = new Date(1_795_239_000_000).toISOString();
  expect(viewOf(AgentRecord.parse(waiting)).questions).toEqual([{ ...questions[0], answer_by }]);
  expect(viewOf(AgentRecord.parse({ ...waiting, status: "ended" }))).not.toHaveProperty("questions");
});

test("a parent sees why an ended agent ended", () => {
  const record = AgentRecord.parse({ ...stored, status: "ended", ended_reason: "idle" });
  expect(viewOf(record)).toMatchObject({ status: "ended", ended_reason: "idle" });
});

test("a specification of another version, without model or without idle time is refused", () => {
  for (const wrong of [
    { v: 2 },
    { model: "" },
    { idle_ms: 0 },
    { idle_ms: 1.5 },
    { answer_ms: 0 },
    { keep_alive: "yes" },
  ])
    expect(AgentSpec.safeParse({ ...spec, ...wrong }).success, JSON.stringify(wrong)).toBe(false);
});

test("agents with the same specification share what was read of it, and none can change it for the others", () => {
  const [first, second] = [AgentRecord.parse(stored), AgentRecord.parse({ ...stored, agent_id: "other" })];
  expect(second.spec).toBe(first.spec);
  expect(() => Object.assign(first.spec.limits, { max_turns: 1_000 })).toThrow(TypeError);
  const another = JSON.stringify({ ...spec, model: "offline-2" });
  expect(AgentRecord.parse({ ...stored, spec: another }).spec.model).toBe("offline-2");
});

test("what a parent is shown of a specification is its own to change", () => {
  const record = AgentRecord.parse(stored);
  const view = viewOf(record);
  view.limits.max_turns = 1_000;
  expect(viewOf(record).limits).toEqual(SPAWN_LIMITS);
});

test("a specification that cannot be used is refused with the name of its field, each time it is read", () => {
  const spoiled = JSON.stringify({ ...spec, limits: { ...SPAWN_LIMITS, max_turns: 0 } });
  for (const text of [spoiled, spoiled, "{"]) {
    const { error } = AgentRecord.safeParse({ ...stored, spec: text });
    const path = text === "{" ? ["spec"] : ["spec", "limits", "max_turns"];
    expect(error?.issues.map((issue) => issue.path)).toEqual([path]);
  }
});
