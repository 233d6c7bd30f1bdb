/** Guarantee: a run that waits for tools or for its provider, and has said nothing, ends as soon as it is asked to finish. */
import { expect, test } from "vitest";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const limited = { status: 429, headers: { "retry-after": "600" } };

test.for([
  ["for a worker with its tools", { tools: ["deploy"] }, "tools_since", []],
  ["for its provider", {}, "provider_wait", [limited]],
] as const)("a run that waits %s ends at once, without a call", async ([, spec, wait, failures]) => {
  const turns = [{ content: [{ type: "text" as const, text: "did it" }], failures: [...failures] }];
  const stage = await openStage({ scenario: { turns }, timing: LONG_TIMING });
  await stage.startWorker();
  const agent = await stage.task("do it", { ...spec, tools: "tools" in spec ? [...spec.tools] : undefined });
  await stage.recordWhere(agent, (record) => record[wait] !== undefined);
  expect(await stage.parent(agent.parentId).finish(agent.agentId)).toMatchObject({ status: "finishing" });
  expect(await stage.reply(agent)).toMatchObject({
    kind: "reply",
    status: "partial",
    stop_reason: "finished_by_parent",
    turns: 0,
  });
  expect(stage.offline.ledger).toHaveLength(failures.length);
});
