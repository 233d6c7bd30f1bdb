/** Guarantee: a model whose given files are gone is told so, also beside another notice, and once. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { keysLike } from "../../helpers/redis.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

// Played once a conversation, and a notice at its head makes another one of it.
const busy = { status: 529, headers: { "retry-after": "60" } };
const GONE = /files that you wrote or were given earlier are not there any more/g;

test("a hook's words at the beginning keep no model from learning that its parent's files are not on this machine", async () => {
  const done = { content: [{ type: "text" as const, text: "done" }], failures: [busy] };
  const stage = await openStage({ scenario: { turns: [done] }, timing: LONG_TIMING });
  const parent = stage.parent("parent-0");
  const { agent_id } = await parent.spawn({ name: "reader", files: [{ path: "a.txt", content: "a" }] });
  const registry = stage.keys.parent({ tenant: "default", parentId: "parent-0" }).registry;
  const uid = (await stage.redis.hget(registry, agent_id)) ?? "";
  const agent = { tenant: "default", parentId: "parent-0", uid, agentId: agent_id };
  // For a parent that watches, the first call of a claim is announced by a commit: it has the message and the hook's words.
  await stage.watch(agent);
  await parent.send(agent_id, "Read a.txt.");
  const { model, heads } = recordingModel(stage.offline.url);
  const hooks = [{ name: "begin", subagentStart: () => ({ context: "Mind the gap." }) }];
  const context = runContextOf(stage, { model, specs: kindsWith([]), hooks });
  const perform = async () => {
    const end = await run(context, { address: agent, wake: 1, timesTaken: 1 });
    await stage.redis.hdel(stage.keys.agent(agent).record, "not_before");
    for (const key of await keysLike(stage.redis, `{${stage.prefix}}:limiter*`)) await stage.redis.del(key);
    await rm(join(stage.workspaceRoot, "default"), { recursive: true });
    return end;
  };
  expect(await perform()).toMatchObject({ status: "released" });
  expect(heads.at(-1)?.messages).not.toMatch(GONE);
  expect(await perform()).toMatchObject({ status: "released" });
  expect(await perform()).toMatchObject({ status: "settled" });
  const said = String(heads.at(-1)?.messages);
  expect(said.match(GONE)).toHaveLength(1);
  expect(said.match(/Mind the gap/g)).toHaveLength(1);
});
