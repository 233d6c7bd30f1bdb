/** Guarantee: a command takes no agent of another command of its parent for its own. */
import { expect, test } from "vitest";
import { CommandAgents } from "../../../../src/cli/local/command-agents.ts";
import { SubagentError } from "../../../../src/shared/errors.ts";
import type { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { latch } from "../../../helpers/latch.ts";

const eventOf = (agent_id: string): ProgressEvent => {
  return { v: 1, type: "turn_started", agent_id, name: "same", run: 1, turn: 1 };
};
function scene() {
  const told: string[] = [];
  const own = new CommandAgents((event) => told.push(event.agent_id));
  return { own, told };
}

test("what is heard before the id of an agent is known is told when it is, and nothing of a namesake", async () => {
  const { own, told } = scene();
  const started = latch<{ agent_id: string }>();
  own.start("same", started.opened);
  own.hear(eventOf("same"));
  own.hear(eventOf("same_2"));
  expect(told).toEqual([]);
  started.open({ agent_id: "same_2" });
  await own.started();
  own.hear(eventOf("same"));
  own.hear(eventOf("same_2"));
  expect(told).toEqual(["same_2", "same_2"]);
  expect(own.nameOf({ agent_id: "same_2" })).toBe("same");
  expect(own.nameOf({ agent_id: "same" })).toBeUndefined();
});

test("an agent of which nobody knows whether it was started may be one of them; one that was refused is none", async () => {
  const { own } = scene();
  own.start("lost", Promise.reject(new SubagentError("outcome_unknown", "lost")));
  own.start("refused", Promise.reject(new SubagentError("quota_exceeded", "full")));
  await own.started();
  expect(own.mayBe({ agent_id: "x", name: "lost" })).toBe(true);
  expect(own.mayBe({ agent_id: "x", name: "refused" })).toBe(false);
});

test("an agent that becomes known leaves what was heard of another one that still starts", async () => {
  const { own, told } = scene();
  const [first, second] = [latch<{ agent_id: string }>(), latch<{ agent_id: string }>()];
  own.start("one", first.opened);
  own.start("two", second.opened);
  own.hear(eventOf("b"));
  first.open({ agent_id: "a" });
  await first.opened;
  await new Promise((resolve) => setImmediate(resolve));
  second.open({ agent_id: "b" });
  await own.started();
  expect(told).toEqual(["b"]);
});
