/** Guarantee: a run that waits for tools or for its provider ends as soon as it is asked to finish, where no call is needed. */
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/worker/tools/tool.ts";
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

test("a run that has said something, and whose only tool went with its worker, ends with what it has said", async () => {
  const deploy = defineTool({
    name: "deploy",
    description: "Deploys.",
    input: z.object({}),
    run: async () => "done",
  });
  const said = { type: "text" as const, text: "It is under way." };
  const calls = { content: [said, { type: "tool_use" as const, name: "deploy", input: {} }] };
  const stage = await openStage({
    scenario: { turns: [calls, { failures: [limited], content: [said] }] },
    timing: LONG_TIMING,
  });
  const first = await stage.startWorker({ tools: [deploy] });
  const agent = await stage.task("do it", { tools: ["deploy"] });
  await stage.recordWhere(agent, (record) => record.provider_wait !== undefined);
  await first.stop();
  await stage.startWorker();
  await stage.parent(agent.parentId).finish(agent.agentId);
  expect(await stage.reply(agent)).toMatchObject({
    ...{ status: "partial", stop_reason: "finished_by_parent", turns: 1, summary: "It is under way." },
  });
  expect(stage.offline.ledger).toHaveLength(2);
});
