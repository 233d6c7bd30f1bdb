/** Guarantee: a model whose files are gone is told so, also if its worker beside the new workspace brings no answer. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { run } from "../../../src/worker/run/run.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { keysLike } from "../../helpers/redis.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const touch = defineTool({
  ...{ name: "touch", description: "Touches.", usesWorkspace: true, input: z.object({}) },
  run: async () => "touched",
});
const busy = { status: 529, headers: { "retry-after": "60" } };

test("a run that is handed back beside its new, empty workspace before its first call tells the model of it later", async () => {
  const use = { content: [{ type: "tool_use" as const, name: "touch", input: {} }], failures: [] };
  const done = { content: [{ type: "text" as const, text: "done" }], failures: [busy, busy] };
  const stage = await openStage({ scenario: { turns: [use, done] }, timing: LONG_TIMING });
  const agent = await stage.task("work");
  const { model, heads } = recordingModel(stage.offline.url);
  const context = runContextOf(stage, { model, specs: kindsWith([touch]) });
  const perform = async (wake: number) => {
    const end = await run(context, { address: agent, wake, timesTaken: 1 });
    await stage.redis.hdel(stage.keys.agent(agent).record, "not_before");
    for (const key of await keysLike(stage.redis, `{${stage.prefix}}:limiter*`)) await stage.redis.del(key);
    return end;
  };
  expect(await perform(1)).toMatchObject({ status: "released", reason: "overloaded" });
  await rm(join(stage.workspaceRoot, "default"), { recursive: true });
  expect(await perform(2)).toMatchObject({ status: "released", reason: "overloaded" });
  expect(await perform(3)).toMatchObject({ status: "settled" });
  expect(heads.at(-1)?.messages).toContain(
    "files that you wrote or were given earlier are not there any more",
  );
});
