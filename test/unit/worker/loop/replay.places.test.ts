/** Guarantee: a replay judges each entry at its own message, and names one that stands elsewhere. */
import { expect, test } from "vitest";
import type { AgentSpec } from "../../../../src/shared/protocol/agent.ts";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { ASK_TOOL } from "../../../../src/shared/protocol/message.ts";
import { type ReplayedRun, replay } from "../../../../src/worker/loop/replay.ts";
import { asked, call, type Story, text, used } from "./story.ts";

const SPEC: AgentSpec = {
  v: 1,
  model: "offline-1",
  limits: { max_turns: 30, max_tokens: 100, max_duration_ms: 60_000 },
  keep_alive: false,
  idle_ms: 1,
};
const LONG = "a long word ".repeat(50);

const replayed = ({ entries, run }: Story, more: Partial<ReplayedRun> = {}) =>
  replay({ run, spec: SPEC, log: new Map(entries), ...more });

test("a question to the parent is decided again as one", () => {
  const story = asked()
    .asks(call("q", ASK_TOOL, { question: "Which?" }))
    .started("q", ASK_TOOL)
    .result("q", "This.");
  expect(replayed(story, { spec: { ...SPEC, answer_ms: 1_000 } }).at(-1)).toEqual({
    message: 1,
    logged: "run_tools or ask",
    decided: "ask",
    agrees: true,
  });
});

test("an answer behind one that is missing is not the one that was to be bought", () => {
  const story = asked();
  story.n = 2;
  story.model("end_turn", [text("done")]);
  expect(replayed(story).filter(({ agrees }) => !agrees)).toEqual([
    { message: 3, logged: "call_model", decided: "call_model", agrees: false },
  ]);
});

test("a summary that stands behind the pending message is not the one that was to be bought", () => {
  const summed = (at: (story: Story) => number) => {
    const story = asked();
    for (let k = 1; k <= 4; k++)
      story
        .asks(text(LONG), call(`c${k}`))
        .started(`c${k}`)
        .result(`c${k}`);
    const price = { usage: used(1), cost_usd: 0, duration_ms: 1 };
    story.add(entryKey.compacted(at(story), 5), { before: 5, summary: "short", model: "m", ...price });
    return replayed(story).filter(({ logged }) => logged.includes("summary"));
  };
  expect(summed(({ n }) => n)).toMatchObject([{ agrees: true }]);
  expect(summed(({ n }) => n + 2)).toMatchObject([{ agrees: false }]);
});

test("an answer where a summary was to be bought is named", () => {
  const story = asked();
  for (let k = 1; k <= 4; k++)
    story
      .asks(text(LONG), call(`c${k}`))
      .started(`c${k}`)
      .result(`c${k}`);
  story.model("model_context_window_exceeded", [text("half an")]).model("end_turn", [text("done")]);
  expect(replayed(story).at(-1)).toMatchObject({
    logged: "call_model",
    decided: expect.stringMatching(/^call_model \(summary of what stands before message \d+\)$/),
    agrees: false,
  });
});
