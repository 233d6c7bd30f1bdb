/** Guarantee: files that come with a spawn are delivered once, with the first of the messages that its first run finds. */
import { expect, test } from "vitest";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

test("of several messages that wait for the first run only the first brings the files of the spawn", async () => {
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] } });
  const { model, heads } = recordingModel(stage.offline.url);
  const parent = stage.parent("planner-7", {
    client: stage.client({ workspaceRoot: stage.workspaceRoot }),
    model: "offline-1",
    keep_alive: true,
  });
  const { agent_id } = await parent.spawn({ name: "keeper", files: [{ path: "a.txt", content: "A" }] });
  await parent.send(agent_id, "first");
  await parent.send(agent_id, "second");
  await stage.startWorker({ model });
  expect((await parent.waitAll([agent_id]))[0]).toMatchObject({ status: "succeeded", summary: "done" });
  const sent = heads[0]?.messages ?? "";
  expect(sent).toContain("second");
  expect(sent.match(/Files of this message/g)).toHaveLength(1);
  expect(sent.indexOf("Files of this message")).toBeLessThan(sent.indexOf("second"));
});
