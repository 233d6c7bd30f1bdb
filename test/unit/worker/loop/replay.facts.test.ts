/** Guarantee: a replay explains a decision by a fact outside the log only where that fact leads to it, and says so. */
import { expect, test } from "vitest";
import type { AgentSpec } from "../../../../src/shared/protocol/agent.ts";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { ASK_TOOL } from "../../../../src/shared/protocol/message.ts";
import { type ReplayedRun, replay } from "../../../../src/worker/loop/replay.ts";
import { asked, call, type Story, text, used } from "./story.ts";

const spec = (more: Partial<AgentSpec> = {}): AgentSpec => ({
  v: 1,
  model: "offline-1",
  limits: { max_turns: 30, max_tokens: 100, max_duration_ms: 60_000 },
  keep_alive: false,
  idle_ms: 1,
  ...more,
});

const replayed = ({ entries, run }: Story, more: Partial<ReplayedRun> = {}) =>
  replay({ run, spec: spec(), log: new Map(entries), ...more });

const LONG = "a long word ".repeat(50);
const TOO_LONG = "the provider found the conversation too long";

/** A run of `turns` turns of long texts; the results of `page` are long as well. */
function long(turns: number, name = "look"): Story {
  const story = asked();
  for (let k = 1; k <= turns; k++) {
    story
      .asks(text(`${k} ${LONG}`), call(`c${k}`, name))
      .started(`c${k}`, name)
      .result(`c${k}`, name === "page" ? LONG : "done");
  }
  return story;
}

const summary = (story: Story, before: number) =>
  story.add(entryKey.compacted(story.n, before), {
    before,
    summary: "shorter",
    model: "m",
    usage: used(7),
    cost_usd: 0,
    duration_ms: 1,
  });

test.each([
  ["max_duration", "the time was over"],
  ["max_cost", "a budget was spent"],
  ["max_total_tokens", "a budget was spent"],
] as const)("a final call for %s, of which the log holds no cause, is one because %s", (cause, assumed) => {
  const story = asked()
    .calls("a")
    .model("end_turn", [text("so far")], { hand_back: cause });
  expect(replayed(story, { ended: cause }).slice(-2)).toEqual([
    {
      message: 3,
      logged: `call_model (last: ${cause})`,
      decided: `call_model (last: ${cause})`,
      agrees: true,
      assumed,
    },
    { message: 4, logged: `settle ${cause}`, decided: `settle ${cause}`, agrees: true },
  ]);
});

test("a fact that does not lead to what the log has is not assumed", () => {
  const story = asked().model("end_turn", [text("x")], { hand_back: "finished_by_parent" });
  expect(replayed(story).at(-1)).toEqual({
    message: 1,
    logged: "call_model (last: finished_by_parent)",
    decided: "settle finished_by_parent",
    agrees: false,
  });
});

test("results that were left out, and a summary, are decided where the provider found the conversation too long", () => {
  expect(replayed(long(6, "page").cleared(5)).at(-1)).toEqual({
    message: 12,
    logged: "clear",
    decided: "clear",
    agrees: true,
    assumed: TOO_LONG,
  });
  const bought = "call_model (summary of what stands before message 11)";
  expect(replayed(summary(long(8), 11)).at(-1)).toEqual({
    message: 16,
    logged: bought,
    decided: bought,
    agrees: true,
    assumed: TOO_LONG,
  });
});

test("a summary of less than the first try is decided, since the first may have failed; one of more is not", () => {
  expect(replayed(summary(long(8), 7)).at(-1)).toMatchObject({ agrees: true });
  expect(replayed(summary(long(8), 13)).at(-1)).toEqual({
    message: 16,
    logged: "call_model (summary of what stands before message 13)",
    decided: "call_model (summary of what stands before message 11)",
    agrees: false,
  });
});

test("a message that stands elsewhere than the loop would put it is named", () => {
  const story = asked().model("end_turn", [text("done")]);
  expect(replayed(story.nextRun(2).user("more")).at(-1)).toMatchObject({ message: 2, agrees: true });
  expect(
    replayed(
      asked()
        .model("end_turn", [text("done")])
        .nextRun(4)
        .user("more"),
    ).at(-1),
  ).toMatchObject({ message: 4, agrees: false });
});

test("a question is decided where the agent could ask, and one for a permission where a rule says so", () => {
  const decided = (story: Story, more: Partial<AgentSpec>) =>
    replayed(story, { spec: spec(more) }).at(-1)?.decided;
  const question = asked()
    .asks(call("q", ASK_TOOL, { question: "Which?" }))
    .started("q", ASK_TOOL);
  expect(decided(question, { answer_ms: 1_000 })).toBe("ask");
  expect(decided(question, {})).toBe("run_tools");
  const permission = asked().asks(call("a", "write")).started("a", "write");
  const permissions = [{ ask: ["write"] }];
  expect(decided(permission, { answer_ms: 1_000, permissions })).toBe("ask");
  expect(decided(permission, { permissions })).toBe("run_tools");
  expect(decided(permission, { answer_ms: 1_000 })).toBe("run_tools");
});

test("the check of an output is a decision where the parent asked for output", () => {
  const story = asked().model("end_turn", [text("{}")]);
  story.add(entryKey.verdict(1), { fits: true });
  const decisions = replayed(story, { spec: spec({ output_schema: { type: "object" } }), ended: "end_turn" });
  expect(decisions.map(({ decided, agrees }) => [decided, agrees])).toEqual([
    ["deliver", true],
    ["call_model", true],
    ["check_output", true],
    ["settle end_turn", true],
  ]);
});
