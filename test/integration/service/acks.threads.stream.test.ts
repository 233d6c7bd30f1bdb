/** Guarantee: a reply that a thread's stream brings is acked only for a client that is there. */
import { once } from "node:events";
import { request } from "node:http";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { ask, startApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a thread's stream acks nothing for a client that left while the process stood still", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const client = stage.client();
  const api = `${(await startApi({ client, mounts: [agentProtocol()] })).url}/agent-protocol`;
  const { thread_id } = (await ask(`${api}/threads`, "POST")).body;
  const input = { messages: [{ role: "user", content: "Say hello" }] };
  const run = await ask(`${api}/threads/${thread_id}/runs`, "POST", {
    body: { assistant_id: "helper", input },
  });
  const parentId = "agent-protocol";
  const unacked = () => stage.redis.xlen(stage.keys.parent({ tenant: "default", parentId }).replies);
  await until(async () => (await unacked()) === 1);

  const path = `${api}/threads/${thread_id}/runs/${run.body.run_id}/stream`;
  const asked = request(path, { agent: false }).on("error", () => {});
  // The client leaves when the reply has been read, so the process hears of it only in the next round of its event loop.
  const { store } = await internalsOf(client).open();
  const { fullText } = store;
  const left = once(asked, "close");
  store.fullText = async (...which) => {
    const text = await fullText(...which);
    asked.destroy();
    return text;
  };
  asked.end();
  await left;
  // An ack would go over the same connection, before these.
  for (let call = 0; call < 3; call++) await stage.parent(parentId, { client }).list();
  expect(await unacked()).toBe(1);
});
