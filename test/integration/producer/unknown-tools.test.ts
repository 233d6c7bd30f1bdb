/** Guarantee: a parent's model learns of the tools that its sub-agent is to have and no worker knows, by whichever call it asks. */
import { expect, test } from "vitest";
import { openStage } from "../../stage/stage.ts";

const NOTE = "[sub-agent: Unknown tools were left out: lsp.]";
const countOf = (text: string) => text.split(NOTE).length - 1;

test("new replies and the check of a sub-agent say which of its tools are unknown, once", async () => {
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "found it" }] }] } });
  await stage.startWorker();
  const parent = stage.parent();
  const { agent_id } = await parent.spawn({ name: "Finder", keep_alive: true, tools: ["grep", "lsp"] });
  await parent.send(agent_id, "find it");
  const { text, ack } = await parent.newReplies({ timeout_ms: 60_000 });
  expect(countOf(text)).toBe(1);
  const [check] = parent.tools(["check_sub_agent"]);
  const ackLater = () => undefined;
  expect(countOf((await check?.run({ agent_id }, { ackLater })) ?? "")).toBe(1);
  await ack();
  expect(countOf((await check?.run({ agent_id })) ?? "")).toBe(1);
});
