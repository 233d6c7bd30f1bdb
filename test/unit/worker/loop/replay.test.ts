import { expect, test } from "vitest";
import type { AgentSpec } from "../../../../src/shared/protocol/agent.ts";
import { type ReplayedRun, replay } from "../../../../src/worker/loop/replay.ts";
import { asked, call, type Story, text } from "./story.ts";

const spec = (more: Partial<AgentSpec> = {}): AgentSpec => ({
  v: 1,
  model: "offline-1",
  limits: { max_turns: 3, max_tokens: 100, max_duration_ms: 60_000 },
  keep_alive: false,
  idle_ms: 1,
  ...more,
});

const replayed = ({ entries, run }: Story, more: Partial<ReplayedRun> = {}) =>
  replay({ run, spec: spec(), log: new Map(entries), ...more });

const decided = (decisions: ReturnType<typeof replayed>) =>
  decisions.map(({ decided: word, agrees, assumed }) => [word, agrees, ...(assumed ? [assumed] : [])]);

test("a run is decided again as it was, from the first message to its end", () => {
  const story = asked()
    .calls("a")
    .model("end_turn", [text("done")]);
  expect(decided(replayed(story, { ended: "end_turn" }))).toEqual([
    ["deliver", true],
    ["call_model", true],
    ["run_tools", true],
    ["call_model", true],
    ["settle end_turn", true],
  ]);
});

test("the last call of a cap is decided from the log; of what no log holds it is said that it was assumed", () => {
  const capped = asked().calls("a").calls("b");
  const last = { hand_back: "max_turns" as const };
  expect(
    decided(replayed(capped.model("end_turn", [text("x")], last), { ended: "max_turns" })),
  ).toMatchObject([
    ...Array.from({ length: 5 }, () => [expect.any(String), true]),
    ["call_model (last: max_turns)", true],
    ["settle max_turns", true],
  ]);
  const stopped = asked()
    .calls("a")
    .model("end_turn", [text("x")], { hand_back: "finished_by_parent" });
  expect(decided(replayed(stopped, { ended: "finished_by_parent" }))).toMatchObject([
    ["deliver", true],
    ["call_model", true],
    ["run_tools", true],
    ["call_model (last: finished_by_parent)", true, "the parent asked for an end"],
    ["settle finished_by_parent", true],
  ]);
});

test("what the loop would not have done is named", () => {
  const beyond = asked()
    .calls("a")
    .calls("b")
    .model("tool_use", [call("c")]);
  expect(replayed(beyond).filter(({ agrees }) => !agrees)).toEqual([
    { message: 5, logged: "call_model", decided: "call_model (last: max_turns)", agrees: false },
  ]);
  const mute = asked().model("end_turn", [text("done")]);
  expect(replayed(mute, { ended: "max_turns" }).at(-1)).toMatchObject({
    decided: "settle end_turn",
    agrees: false,
  });
  const denied = replayed(asked().calls("a"), { spec: spec({ limits: { ...spec().limits, max_turns: 1 } }) });
  expect(denied.filter(({ agrees }) => !agrees)).toHaveLength(1);
});

test("entries of earlier runs are not judged, and change no decision of this one", () => {
  const story = asked()
    .calls("a")
    .model("end_turn", [text("done")]);
  story.run = 2;
  story.user("more").model("end_turn", [text("again")]);
  expect(decided(replayed(story, { ended: "end_turn" }))).toEqual([
    ["deliver", true],
    ["call_model", true],
    ["settle end_turn", true],
  ]);
});
