/** The oracle is only worth what it notices: evidence without a flaw passes, and each flaw is named. */
import { expect, test } from "vitest";
import type { LedgerEntry } from "../../src/offline/server.ts";
import type { ChannelEntry } from "../../src/shared/protocol/reply.ts";
import type { JournalLine } from "../helpers/tool-journal.ts";
import type { RecordedChange } from "./chronicle.ts";
import { type Evidence, lookUp, type Violation } from "./evidence.ts";
import { judgeEffects } from "./oracle-effects.ts";
import { judgeFaults, type Struck } from "./oracle-faults.ts";
import { judgeMoney } from "./oracle-money.ts";
import { judgeReplies } from "./oracle-replies.ts";
import { judgeTurns } from "./oracle-turns.ts";
import { callOf, type Story, tellStories } from "./stories.ts";
import type { Fault } from "./strikes.ts";
import { timelineOf } from "./timeline.ts";

const UID = "sa-1";
const tempo = { latencyMs: [1, 2], toolMs: [1, 2], turns: [2, 2] } as const;
const [story] = tellStories(7, 1, tempo) as [Story];
const [note, other, look] = ["note 0 of story 0", "note 1 of story 0", "look 0 of story 0"] as const;
const told: Story = { ...story, notes: [note, other], looks: [look] };
const WORKER = "w1";
const outcome = {
  status: "succeeded" as const,
  stop_reason: "end_turn" as const,
  summary: "Report.",
  turns: 2,
  tools_called: { note: 2, look: 1 },
};

const claim = (at: number, epoch: number, by: string): RecordedChange => ({
  at,
  uid: UID,
  what: "claimed",
  epoch,
  worker: by,
  crashesWithoutProgress: 0,
});
const commit = (at: number, entry: string, interrupted = false): RecordedChange => ({
  at,
  uid: UID,
  what: "committed",
  entry,
  interrupted,
});
const call = (message: number, began_at: number, epoch = 1): LedgerEntry => ({
  seq: message,
  at: began_at + 5,
  began_at,
  idempotency_key: `${UID}.${message}.${epoch}`,
  conversation: "c",
  turn: 0,
  request_hash: "h",
  stream: true,
  status: "served",
  http_status: 200,
  error_type: null,
  stop_reason: "end_turn",
  usage: { input_tokens: 4, output_tokens: 1, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  tool_choice: "auto",
  model: "offline-1",
  max_tokens: 1,
  messages: 1,
  tools: [],
  message_id: null,
});
const reply = (summary = outcome.summary): ChannelEntry => ({
  ...outcome,
  summary,
  reply_id: `${UID}.1`,
  kind: "reply",
  message_ids: [],
  parent_id: "chaos-0",
  agent_id: "story_0",
  name: "story 0",
  run: 1,
  agent_status: "ended",
  created_at: "2026-11-21T00:00:00.000Z",
  truncated: false,
  tokens: 0,
  usage: { input_tokens: 0, output_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  cost_usd: 0,
  alerts: [],
  duration_ms: 1,
  model: "offline-1",
});
const began = (at: number, line: string, worker = WORKER): JournalLine => {
  const call = { uid: UID, run: 1, call: callOf(line), name: line.slice(0, 4) };
  return { at, pid: 11, worker, ...call, what: "began" };
};
const result = (at: number, line: string, interrupted = false) =>
  commit(at, `1/${callOf(line)}/result`, interrupted);
const workspace = (notes: string[], looks: string[]) =>
  ({ workspaces: new Map([["chaos-0/story_0", { notes, looks }]]) }) as const;

const bought = {
  input_tokens: 8,
  output_tokens: 2,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
/** What the parent is told that it used. */
const spent = (usage = bought, cost_usd = 0.000018) => ({
  replies: 1,
  turns: 2,
  tokens: usage.input_tokens + usage.output_tokens,
  usage,
  cost_usd,
});

/** What one run leaves behind that nothing disturbed. */
function flawless(): Evidence {
  const entry: RecordedChange = {
    at: 90,
    uid: UID,
    what: "entry",
    replyId: `${UID}.1`,
    kind: "reply",
    status: "succeeded",
  };
  return {
    stories: [told],
    load: {
      seen: [{ at: 95, parentId: "chaos-0", entry: reply(), first: true }],
      told: [{ story: told, parentId: "chaos-0", agentId: "story_0" }],
      complaints: [],
      repeated: 0,
    },
    undisturbed: new Map([["0.1", outcome]]),
    faults: [],
    happenings: [
      { at: 1, uid: UID, what: "spawned", agentId: "story_0", parentId: "chaos-0" },
      claim(10, 1, WORKER),
      commit(11, "0"),
      commit(20, "1"),
      commit(21, `1/${callOf(note)}/started`),
      result(40, note),
      result(40, other),
      result(41, look),
      commit(60, "3"),
      entry,
    ],
    staleAsks: [],
    spent: [spent()],
    ledger: [call(1, 12), call(3, 50)],
    journal: [began(22, note), began(22, other), began(22, look)],
    collapses: [],
    ...workspace([note, other], [look]),
  };
}

/** The same, but the result of the call that was to write `line` says that its effect is unknown. */
function interrupt(happenings: readonly RecordedChange[], line: string): RecordedChange[] {
  return happenings.map((one) =>
    one.what === "committed" && one.entry === `1/${callOf(line)}/result`
      ? { ...one, interrupted: true }
      : one,
  );
}

function struck(kind: Fault["kind"], change: Partial<Fault> = {}): Fault {
  return { kind, at: 1, endedAt: 2, hit: [{ uid: UID, epoch: 1 }], ...change };
}

function judge(evidence: Evidence): Violation[] {
  const lookup = lookUp(evidence);
  return [
    ...judgeReplies(evidence, lookup),
    ...judgeTurns(evidence, lookup),
    ...judgeEffects(evidence, lookup),
    ...judgeMoney(evidence, lookup),
  ];
}

test("evidence of an undisturbed run passes", () => {
  expect(judge(flawless())).toEqual([]);
});

test.for<[flaw: string, change: (evidence: Evidence) => Partial<Evidence>, broken: RegExp]>([
  [
    "a call that nobody paid for",
    () => ({ spent: [spent({ ...bought, input_tokens: 3 }, 0.000013)] }),
    /every purchase counts/,
  ],
  [
    "a call that was charged twice",
    () => ({ spent: [spent({ ...bought, input_tokens: 13 }, 0.000023)] }),
    /not bought/,
  ],
  ["another price", () => ({ spent: [spent(bought, 0.00009)] }), /the cost of what was used/],
  ["a lost reply", ({ load }) => ({ load: { ...load, seen: [] } }), /every run ends with one reply/],
  [
    "another text",
    ({ load }) => ({
      load: { ...load, seen: [{ at: 95, parentId: "chaos-0", entry: reply("Else."), first: true }] },
    }),
    /that of an undisturbed run/,
  ],
  [
    "a reply seen twice",
    ({ load }) => ({ load: { ...load, seen: [...load.seen, ...load.seen] } }),
    /written once and seen once/,
  ],
  [
    "a reply written twice",
    ({ happenings }) => ({ happenings: [...happenings, ...happenings.slice(-1)] }),
    /written once and seen once/,
  ],
  [
    "an ack by somebody else",
    ({ load }) => ({ load: { ...load, seen: load.seen.map((seen) => ({ ...seen, first: false })) } }),
    /first to ack/,
  ],
  ["a story never told", ({ load }) => ({ load: { ...load, told: [] } }), /gets every reply/],
  [
    "a refused conversation",
    ({ ledger }) => ({
      ledger: [...ledger, { ...call(3, 49), status: "error" as const, http_status: 400 }],
    }),
    /refused by the model's API/,
  ],
  [
    "a committed turn bought again",
    ({ ledger }) => ({ ledger: [...ledger, call(1, 21)] }),
    /committed turn is bought again/,
  ],
  [
    "a call by a worker that has lost the run",
    ({ happenings }) => ({ happenings: [...happenings, claim(45, 2, "w2")] }),
    /lost a run buys nothing/,
  ],
  [
    "a turn that nobody bought",
    ({ ledger }) => ({ ledger: ledger.slice(0, 1) }),
    /every turn in a log was bought/,
  ],
  [
    "an effect that happened twice",
    () => workspace([note, other, note], [look]),
    /not idempotent happens once/,
  ],
  [
    "an effect that is neither there nor reported",
    () => workspace([other], [look]),
    /there or reported unknown/,
  ],
  [
    "an idempotent effect that never happened",
    () => workspace([note, other], []),
    /idempotent effect happens/,
  ],
  [
    "an effect that is missing while the unknown effect of another call is reported",
    ({ happenings }) => ({ ...workspace([other], [look]), happenings: interrupt(happenings, other) }),
    /there or reported unknown/,
  ],
  [
    "a tool call without a result",
    ({ happenings }) => ({
      happenings: happenings.filter((one) => one.what !== "committed" || !one.entry.includes(callOf(look))),
    }),
    /tool call has a result/,
  ],
  [
    "a result of a call that was never made",
    ({ journal }) => ({ journal: journal.slice(1) }),
    /call that was made/,
  ],
  [
    "an idempotent tool that ran twice for the same holder",
    ({ journal }) => ({ journal: [...journal, began(23, look)] }),
    /twice under one claim/,
  ],
  [
    "a tool begun while nobody held the run",
    ({ journal }) => ({ journal: [...journal, began(5, look)] }),
    /starts no tool/,
  ],
  [
    "a turn that was paid for twice before it was committed",
    ({ ledger }) => ({ ledger: [...ledger, call(1, 13)] }),
    /bought twice under one claim/,
  ],
  [
    "a chronicle that has missed a turn",
    ({ happenings }) => ({
      happenings: happenings.filter((one) => one.what !== "committed" || one.entry !== "3"),
    }),
    /turn of a run is in its log/,
  ],
  [
    "a run that fails with and without faults",
    ({ load }) => {
      const failed = { ...outcome, status: "failed" as const, stop_reason: "model_error" as const };
      const seen = load.seen.map((one) => ({ ...one, entry: { ...one.entry, ...failed } }));
      return { load: { ...load, seen }, undisturbed: new Map([["0.1", failed]]) };
    },
    /does what it was asked for/,
  ],
  [
    "a finished tool that ran again",
    ({ journal }) => ({ journal: [...journal, began(42, look)] }),
    /finished tool runs again/,
  ],
  [
    "a tool begun by a worker that has lost the run",
    ({ journal, happenings }) => ({
      journal: [...journal, began(39, note)],
      happenings: [...happenings.slice(0, 5), claim(30, 2, "w2"), ...happenings.slice(5)],
    }),
    /starts no tool/,
  ],
  [
    "a stale write that was let through",
    () => ({ staleAsks: [{ at: 1, uid: UID, verb: "append" as const, epoch: 1, wrote: true }] }),
    /writes nothing/,
  ],
  ["a worker that collapsed", () => ({ collapses: ["w1 ended by itself"] }), /no worker process ends/],
])("%s is noticed", ([, change, broken]) => {
  const evidence = flawless();
  const found = judge({ ...evidence, ...change(evidence) });
  expect(found.map((violation) => violation.broken)).toContainEqual(expect.stringMatching(broken));
});

test("an effect that is missing but was reported as interrupted is no flaw", () => {
  const evidence = flawless();
  const happenings = interrupt(evidence.happenings, note);
  expect(judge({ ...evidence, happenings, ...workspace([other], [look]) })).toEqual([]);
});

test("an idempotent tool that the next holder runs again is no flaw", () => {
  const { happenings, journal, ...evidence } = flawless();
  const [before, after] = [happenings.slice(0, 6), happenings.slice(6)];
  const ledger = [call(1, 12), call(3, 50, 2)];
  const again = { happenings: [...before, claim(40.5, 2, "w2"), ...after], ledger };
  expect(judge({ ...evidence, ...again, journal: [...journal, began(40, look, "w2")] })).toEqual([]);
});

test.for<[flaw: string, change: Partial<Struck>, faults: Fault[], broken: RegExp | undefined]>([
  ["faults that struck", {}, [struck("kill"), struck("stop")], undefined],
  ["none planned", { planned: 0, faults: new Set(["kill"] as const) }, [], /none was planned/],
  ["too few", {}, [struck("kill")], /1 of 2 planned/],
  ["one that is not over", {}, [struck("kill"), struck("stop", { endedAt: 0 })], /1 of 2 planned/],
  ["kills that hit nothing", {}, [struck("kill"), struck("kill", { hit: [] })], /1 of 2 kills hit/],
  [
    "a kill that hit nothing and one in its place",
    {},
    [struck("kill", { hit: [], isRepeated: true }), struck("kill"), struck("stop")],
    undefined,
  ],
  [
    "a kill in the place of another, and no stop",
    {},
    [struck("kill", { hit: [], isRepeated: true }), struck("kill")],
    /1 of 2 planned/,
  ],
  [
    "a stop that stopped nobody",
    {},
    [struck("kill"), struck("stop", { hit: [{ uid: UID, epoch: 2 }] })],
    /no stop hit/,
  ],
  ["a kind that hit nothing", {}, [struck("kill"), struck("stop", { hit: [] })], /no stop hit/],
  ["hardly a reply lost", { swallowed: 8 }, [struck("kill"), struck("stop")], /only 8 replies/],
])("of the faults themselves: %s", ([, change, faults, broken]) => {
  const plan = { runs: 9, planned: 2, swallowed: 9, faults: new Set(["kill", "stop", "swallow"] as const) };
  const claims = lookUp({ happenings: [claim(0, 1, "w1"), claim(3, 2, "w2")] });
  const found = judgeFaults({ ...plan, ...change }, { faults }, claims).map(({ detail }) => detail);
  expect(found).toEqual(broken ? [expect.stringMatching(broken)] : []);
});

test("a timeline has everything about its run in the order of time, and the faults around it", () => {
  const evidence = flawless();
  const faults = [
    { kind: "kill" as const, at: 30, endedAt: 31, victim: { seat: 0, worker: "w1", pid: 11 }, hit: [] },
  ];
  const lines = timelineOf(UID, { ...evidence, faults }).map((line) => line.trim().replace(/ {2,}/g, " "));
  expect(lines[0]).toBe("0.0 redis spawned as story_0 of chaos-0");
  expect(lines).toContain("29.0 FAULT kill of w1 (process 11)");
  expect(lines).toContain("11.0 model is asked for message 1 for epoch 1");
  expect(lines.at(-1)).toBe("94.0 parent sees sa-1.1; ack: true");
  const times = lines.map((line) => Number.parseFloat(line));
  expect(times).toEqual([...times].sort((a, b) => a - b));
});
