import { expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { replyIdOf } from "../../../src/shared/protocol/keys.ts";
import { startApi } from "../../helpers/api.ts";
import { openRedisLine } from "../../helpers/redis-line.ts";
import { openStage } from "../../stage/stage.ts";

/** Sixteen pages of records take longer than one call may. */
const SLOWER_BY_MS = 60;

test("the runs of a long thread are read also where each answer of Redis takes a while", async () => {
  const stage = await openStage();
  const port = Number(new URL(stage.url).port);
  let isSlow = false;
  const redisUrl = await openRedisLine(port, (client, upstream) => {
    client.on("data", (chunk: Buffer) => upstream.write(chunk));
    upstream.on("data", (chunk: Buffer) => {
      if (isSlow) setTimeout(() => client.write(chunk), SLOWER_BY_MS);
      else client.write(chunk);
    });
  });
  const { ask } = await startApi({ client: stage.client({ redisUrl }), mounts: [agentProtocol()] });
  const { thread_id } = (await ask("POST", "/agent-protocol/threads", { body: {} })).body;
  const thread = `/agent-protocol/threads/${thread_id}`;
  const input = { messages: [{ role: "user", content: "Say hello" }] };
  await ask("POST", `${thread}/runs`, { body: { assistant_id: "helper", input } });
  // Only the record of the last agent that a thread may have is left.
  const [first, last] = ["00", "ff"].map((number) => {
    const address = {
      tenant: "default",
      parentId: "agent-protocol",
      uid: `${thread_id.slice(0, -2)}${number}`,
    };
    return { ...address, record: stage.keys.agent(address).record };
  });
  await stage.redis.rename(String(first?.record), String(last?.record));
  await stage.redis.hset(String(last?.record), "uid", String(last?.uid));
  isSlow = true;
  const { status, body } = await ask("GET", `${thread}/runs`);
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body).toMatchObject([{ run_id: replyIdOf(String(last?.uid), 1) }]);
});
