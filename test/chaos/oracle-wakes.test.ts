/** Wakes are counted by run, steps by commit: what came to three wakes a step passes, and one wake more is noticed. */
import { expect, test } from "vitest";
import type { RecordedChange } from "./chronicle.ts";
import { lookUp } from "./evidence.ts";
import { changesOf } from "./happening.ts";
import { judgeWakes } from "./oracle-wakes.ts";
import { type Story, tellStories } from "./stories.ts";

const UID = "sa-1";
const tempo = { latencyMs: [1, 2], toolMs: [1, 2], turns: [2, 2] } as const;
const [, , , , story] = tellStories(7, 6, tempo) as [Story, Story, Story, Story, Story];

const taken = (times: number, everyMs = 1): RecordedChange[] =>
  Array.from({ length: times }, (_, i) => ({ at: i * everyMs, uid: UID, what: "taken", wake: 1 }));
const committed = (at: number, ...entries: string[]): RecordedChange[] =>
  entries.map((entry) => ({ at, uid: UID, what: "committed", entry, interrupted: false }));
const replied = (run: number): RecordedChange[] => [
  { at: 90, uid: UID, what: "entry", replyId: `${UID}.${run}`, kind: "reply", status: "succeeded" },
];

/** What is wrong with an agent of two runs of which this is known. */
function judge(happenings: readonly RecordedChange[], visited?: number) {
  const spawned: RecordedChange = {
    at: 0,
    uid: UID,
    what: "spawned",
    agentId: "story_4",
    parentId: "chaos-0",
  };
  const load = { told: [{ story, parentId: "chaos-0", agentId: "story_4" }] };
  const evidence = { load: { seen: [], complaints: [], repeated: 0, ...load }, happenings };
  return judgeWakes(evidence, lookUp({ happenings: [spawned, ...happenings] }), visited).map(
    ({ detail }) => detail,
  );
}

const second = [...taken(1), ...committed(101, "5"), ...replied(2)];

test("a run with three wakes for each commit passes", () => {
  expect(story.prompts).toHaveLength(2);
  const first = [...taken(6), ...committed(10, "1"), ...committed(20, "1/a/result", "1/b/result", "2")];
  expect(judge([...first, ...replied(1), ...second])).toEqual([]);
});

test("one wake more is noticed, in the run that it came for", () => {
  const first = [...taken(4), ...committed(10, "0", "1", "1/a/started"), ...replied(1)];
  expect(judge([...first, ...second])).toEqual(["run 1 of story 4: 4 wakes for 1 steps"]);
  const [calm, late] = [[...taken(1), ...committed(10, "1"), ...replied(1)], taken(3)];
  expect(judge([...calm, ...second, ...late])).toEqual(["run 2 of story 4: 4 wakes for 1 steps"]);
});

test("a run that nobody got on with is noticed at its first wake", () => {
  expect(judge([...taken(1), ...replied(1), ...second])).toEqual(["run 1 of story 4: 1 wakes for 0 steps"]);
});

test("a wake goes to every worker of a mixed fleet, and again after each rest, which is twice as long as the one before", () => {
  // Over 1,500 ms it has rested four times at most: five rounds of four, and three for the step.
  const over = (times: number) => [
    ...taken(times, 1_500 / (times - 1)),
    ...committed(2_000, "1"),
    ...replied(1),
  ];
  expect(judge([...over(23), ...second], 4)).toEqual([]);
  expect(judge([...over(24), ...second], 4)).toEqual(["run 1 of story 4: 24 wakes for 1 steps"]);
  expect(judge([...over(23), ...second])).toEqual(["run 1 of story 4: 23 wakes for 1 steps"]);
});

test("a chronicle without wakes is noticed", () => {
  expect(judge([...committed(10, "1"), ...replied(1), ...committed(101, "5"), ...replied(2)])).toEqual([
    "none was",
  ]);
});

test("each wake that BullMQ hands to a worker is seen, and nothing else that it tells", () => {
  const told = (event: string, id = `${UID}.3`) =>
    changesOf("t", 7, ["XADD", "{t}:wakes:events", "*", "event", event, "jobId", id, "prev", "waiting"]);
  expect(told("active")).toEqual([{ at: 7, uid: UID, what: "taken", wake: 3 }]);
  expect(told("waiting")).toEqual([]);
  expect(told("active", "other")).toEqual([]);
});
