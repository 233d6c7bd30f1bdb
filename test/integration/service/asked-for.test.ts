/** What a request brings or asks for is not passed over in silence. */
import { beforeAll, expect, test } from "vitest";
import { attachmentKey } from "../../../src/shared/protocol/message.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const parentId = "planner-7";
const PARENT = `/v1/parents/${parentId}`;

let stage: Stage;
let api: TestApi;

beforeAll(async () => {
  stage = await openStage();
  api = await startApi({ client: stage.client() });
});

test("the files of a message reach the agent with it", async () => {
  await stage.parent(parentId).spawn({ name: "reader" });
  const body = { message_id: "m1", text: "read it", files: [{ path: "notes.txt", content: "blue" }] };
  expect((await api.ask("POST", `${PARENT}/agents/reader/messages`, { body })).status).toBe(202);
  const uid = await stage.scriptedWorker(parentId).uidOf("reader");
  const address = { tenant: "default", parentId, uid };
  const [attached] = await stage.store.attached(address, [attachmentKey(body.message_id)]);
  expect(attached?.files).toMatchObject([{ path: "notes.txt" }]);
});

test("the removal of a webhook that is not there is told as such", async () => {
  const { status, body } = await api.ask("DELETE", `${PARENT}/webhook`);
  expect([status, body.code]).toEqual([404, "unknown_webhook"]);
});

test("an ack of nothing is refused: its caller has lost the ids", async () => {
  const { status } = await api.ask("POST", `${PARENT}/replies/ack`, { body: { reply_ids: [] } });
  expect(status).toBe(400);
});
