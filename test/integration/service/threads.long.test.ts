import { expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { replyIdOf } from "../../../src/shared/protocol/keys.ts";
import { startApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "agent-protocol" };

test("the state has the newest reports, up to a megabyte of them, and acks no others", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const { ask } = await startApi({ client: stage.client(), mounts: [agentProtocol()] });
  const { thread_id } = (await ask("POST", "/agent-protocol/threads", { body: {} })).body;
  const thread = `/agent-protocol/threads/${thread_id}`;
  const { replies, text } = stage.keys.parent(PARENT);
  const uids = [0, 1, 2].map((number) => `${thread_id.slice(0, -2)}0${number}`);
  for (const at of uids.keys()) {
    const input = { messages: [{ role: "user", content: "Say hello" }] };
    await ask("POST", `${thread}/runs`, { body: { assistant_id: "helper", input } });
    await until(async () => (await stage.redis.xlen(replies)) === at + 1);
  }
  const write = (uid: string | undefined, chars: number) =>
    stage.redis.set(text(replyIdOf(String(uid), 1)), "x".repeat(chars));
  const idsInState = async () => {
    const { body } = await ask("GET", `${thread}/state`);
    return body.values.messages.map(({ id }: { id: string }) => id);
  };
  for (const uid of uids) await write(uid, 400_000);
  expect(await idsInState()).toEqual(uids.slice(1));
  await until(async () => (await stage.redis.xlen(replies)) === 1);
  await write(uids[2], 2_000_000);
  expect(await idsInState()).toEqual(uids.slice(2));
  // The rest of the megabyte is less than the short report before.
  await stage.redis.del(text(replyIdOf(String(uids[1]), 1)));
  await write(uids[2], 1_024 * 1_024);
  expect(await idsInState()).toEqual(uids.slice(2));
});
