/** Lists of files: two at a time for a tenant, whatever it asks for; those of another tenant wait for none of them. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { contextOf } from "../../../src/producer/parent.ts";
import { filesOf } from "../../../src/producer/workspace-files.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { startApi } from "../../helpers/api.ts";
import { latch } from "../../helpers/latch.ts";
import { openStage } from "../../stage/stage.ts";

/** A parent with an agent that has left a file, and the address of its files. */
async function agentWithFile() {
  const stage = await openStage();
  const client = stage.client({ workspaceRoot: stage.workspaceRoot });
  const parent = stage.parent("planner-7", { client });
  const { agent_id } = await parent.spawn({ name: "writer" });
  const address = { tenant: parent.tenant, parentId: parent.parentId };
  const uid = (await stage.store.uidOf(address, agent_id)) ?? "";
  const place = { root: stage.workspaceRoot, ...address, uid, agentId: agent_id };
  const { workspace } = await openWorkspace({ ...place, roots: [], expected: false, clock: systemClock });
  await writeFile(join(workspace.directory, "a.txt"), "text");
  const path = `/v1/parents/${address.parentId}/agents/${agent_id}`;
  return { client, parent, agent_id, api: await startApi({ client }), path };
}

test("two lists of a tenant are made at a time; the next one waits, and that of another tenant does not", async () => {
  const { client, parent, api, path } = await agentWithFile();
  const { listingLineOf } = await internalsOf(client).open();
  const end = latch();
  const first = [1, 2].map(() => listingLineOf(parent.tenant)(() => end.opened));
  let isListed = false;
  const listed = api.ask("GET", `${path}/files`).finally(() => {
    isListed = true;
  });
  expect(await listingLineOf("other")(async () => "not waited")).toBe("not waited");
  for (let i = 0; i < 30; i++) expect((await api.ask("GET", path)).status).toBe(200);
  expect(isListed).toBe(false);
  end.open();
  await Promise.all(first);
  expect((await listed).body.files).toMatchObject([{ path: "a.txt" }]);
});

test("a list that is waited for no more opens no file", async () => {
  const { parent, agent_id } = await agentWithFile();
  expect(await filesOf(contextOf(parent), agent_id)).toHaveLength(1);
  expect(await filesOf(contextOf(parent), agent_id, AbortSignal.abort())).toEqual([]);
});
