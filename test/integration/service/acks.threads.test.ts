import { once } from "node:events";
import { request } from "node:http";
import { expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import type { Mount } from "../../../src/service/api/mount.ts";
import { ask, startApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a thread's state acks nothing for a client that left while the process stood still", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const client = stage.client();
  const protocol = agentProtocol();
  let leave = () => {};
  const closed: Promise<unknown>[] = [];
  // The client leaves when the answer is ready, so the process hears of it only in the next round of its event loop.
  const mount: Mount = {
    ...protocol,
    handler: (parts) => (asked, response, next) => {
      closed.push(once(response, "close"));
      const requireStillValid = async () => leave();
      protocol.handler({ ...parts, auth: { ...parts.auth, requireStillValid } })(asked, response, next);
    },
  };
  const api = `${(await startApi({ client, mounts: [mount] })).url}/agent-protocol`;
  const { thread_id } = (await ask(`${api}/threads`, "POST")).body;
  const input = { messages: [{ role: "user", content: "Say hello" }] };
  await ask(`${api}/threads/${thread_id}/runs`, "POST", { body: { assistant_id: "helper", input } });
  const parentId = "agent-protocol";
  const unacked = () => stage.redis.xlen(stage.keys.parent({ tenant: "default", parentId }).replies);
  await until(async () => (await unacked()) === 1);

  const asked = request(`${api}/threads/${thread_id}/state`, { agent: false }).on("error", () => {});
  leave = () => asked.destroy();
  asked.end();
  await until(() => closed.length === 3);
  await Promise.all(closed);
  // An ack would go over the same connection, before these.
  for (let call = 0; call < 3; call++) await stage.parent(parentId, { client }).list();
  expect(await unacked()).toBe(1);
});
