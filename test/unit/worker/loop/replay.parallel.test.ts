import { expect, test } from "vitest";
import type { AgentSpec } from "../../../../src/shared/protocol/agent.ts";
import { replay } from "../../../../src/worker/loop/replay.ts";
import { asked, call, text } from "./story.ts";

const spec: AgentSpec = {
  v: 1,
  model: "offline-1",
  limits: { max_turns: 30, max_tokens: 100, max_duration_ms: 60_000 },
  keep_alive: false,
  idle_ms: 1,
};

test("the calls of one answer are one decision, in whatever order they began and returned", () => {
  const story = asked()
    .asks(call("a"), call("b"), call("c"))
    .started("a")
    .started("b")
    .result("b")
    .result("a")
    .started("c")
    .result("c")
    .model("end_turn", [text("done")]);
  const decisions = replay({ run: story.run, spec, log: new Map(story.entries) });
  expect(decisions.map(({ logged, agrees }) => [logged, agrees])).toEqual([
    ["deliver", true],
    ["call_model", true],
    ["run_tools or ask", true],
    ["call_model", true],
  ]);
});
