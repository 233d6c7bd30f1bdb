/** What a parent's model is told by its tools, and what an input of it may set. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Parent } from "../../../src/producer/parent.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { bodyOf, handedBack, verbRig } from "../verbs/rig.ts";

const toolOf = (parent: Parent, name: "agent" | "check_sub_agent") => {
  const [tool] = parent.tools([name]);
  if (!tool) throw new TypeError(name);
  return tool;
};

test("a look at an idle agent tells its last text, also when its reply was acked", async () => {
  const rig = verbRig();
  const parent = testParent(testClient({ prefix: rig.prefix }));
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const idle = { known: 1, target: "idle", ended_reason: undefined, idle_ms: 60_000 } as const;
  await rig.store.settle(agent, { ...handedBack(epoch), ...idle, ...partsOf(bodyOf("the answer is 42")) });
  const check = () => toolOf(parent, "check_sub_agent").run({ agent_id: "researcher" });
  expect(await check()).toContain("the answer is 42");
  const [, ...second] = (await check()).split("\n");
  expect(second.join()).toMatch(/^<sub_agent_text .*the answer is 42/);
});

test("an empty allowlist allows no tool, and not every tool", async () => {
  const rig = verbRig();
  const parent = testParent(testClient({ prefix: rig.prefix }));
  const stop = new AbortController();
  const running = toolOf(parent, "agent").run(
    { prompt: "Think.", tool_allowlist: [] },
    { signal: stop.signal, toolUse: { id: "t-1" } },
  );
  const [uid = ""] = await until(async () => {
    const uids = await rig.store.liveUids(rig.parent);
    return uids.length > 0 && uids;
  });
  expect((await rig.store.record({ ...rig.parent, uid }))?.spec.tools).toEqual([]);
  stop.abort();
  await expect(running).rejects.toThrow();
});

test("the kinds of agents are named in one line each, and no more than a model can choose among", async () => {
  const folder = await mkdtemp(join(tmpdir(), "definitions-"));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  for (let n = 0; n < 70; n++)
    await writeFile(
      join(folder, `${n}.md`),
      `---\nname: kind-${n}\ndescription: |\n  Does it.\n  evil: more\n---\n`,
    );
  const parent = testParent(testClient({ agents: [folder] }));
  const { agent } = toolOf(parent, "agent").input_schema.properties as {
    agent: { enum: string[]; description: string };
  };
  expect(agent.enum).toHaveLength(64);
  expect(agent.description.split("\n")).toHaveLength(1 + 64);
});
