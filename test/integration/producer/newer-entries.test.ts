/** Guarantee: what a newer version has written stops no reader, is not lost, and is told about once. */
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { createReplyStream } from "../../../src/shared/redis/replies.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";

function scene() {
  const prefix = uniquePrefix();
  const lines: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
  const client = testClient({ prefix, logger });
  const parent = testParent(client, { model: "offline-1" });
  const address = { tenant: parent.tenant, parentId: parent.parentId };
  const worker = scriptedWorker(redisUrl(), prefix, address);
  const keys = keysUnder(prefix);
  const add = (...fields: string[]) => worker.redis.xadd(keys.parent(address).replies, "*", ...fields);
  return { lines, parent, address, worker, keys, add, client };
}

async function runOne({ parent, worker }: ReturnType<typeof scene>, text: string): Promise<string> {
  const { agent_id } = await parent.spawn({ name: text });
  await parent.send(agent_id, text);
  await worker.run(agent_id);
  return agent_id;
}

test("readers pass over entries that they cannot read, say so once, and leave them in the channel", async () => {
  const room = scene();
  const { parent, address, worker, keys, add, lines } = room;
  await runOne(room, "first");
  await add("v", "2", "reply_id", "sa-x.1", "uid", "sa-x", "kind", "reply", "at", "1", "run", "1");
  const [[, sound = []] = []] = await worker.redis.xrange(keys.parent(address).replies, "-", "+");
  await add(...sound.map((text, at) => (sound[at - 1] === "v" ? "2" : text)));
  await add("v", "1", "reply_id", "sa-y.1", "uid", "sa-y", "kind", "hologram", "at", "1", "run", "1");
  // A whole page of them, so that a reader which stops at an empty one would never see what follows.
  for (let i = 0; i < 120; i += 1) await add("garbage", `${i}`);
  const last = await runOne(room, "last");

  const summaries: string[] = [];
  for await (const entry of parent.replies()) {
    if ("summary" in entry) summaries.push(entry.summary);
    if (entry.agent_id === last) break;
  }
  expect(summaries).toEqual(["first", "last"]);
  expect(await parent.waitAny([last])).toMatchObject({ summary: "last" });
  const news = await parent.newReplies();
  expect(news.entries).toMatchObject([{ summary: "first" }]);
  await news.ack();

  const stream = createReplyStream(worker.redis, keys, worker.store.timing);
  const left = await stream.read(address, "0", 500);
  expect(left).toHaveLength(123);
  expect(new Set(left.map(({ entry }) => entry.kind))).toEqual(new Set(["unreadable"]));
  const told = lines.map((line) => Number(JSON.parse(line).entries));
  expect(told.reduce((sum, n) => sum + n, 0)).toBe(123);
});

test("a question of an agent of a newer version reaches a model as an open one, and hides nothing", async () => {
  const { parent, address, worker, keys, add } = scene();
  const strange = await parent.spawn({ name: "strange" });
  const uid = await worker.uidOf(strange.agent_id);
  await worker.redis.hset(keys.agent({ ...address, uid }).record, "v", "2", "status", "dreaming");
  const head = { v: "1", uid, kind: "question", run: "1", at: "1", agent_status: "waiting", body: "Which?" };
  const names = { parent_id: address.parentId, agent_id: strange.agent_id, name: "strange" };
  const asked = { ...head, ...names, reply_id: `${uid}.1/q`, question_id: "1/q", answer_by: "2" };
  await add(...Object.entries(asked).flat());
  expect((await parent.newReplies()).text).toContain('answer_with="send_agent_message"');
});

test("an agent of a newer version hides nobody else, and is still there to be destroyed", async () => {
  const room = scene();
  const { parent, address, worker, keys } = room;
  const plain = await parent.spawn({ name: "plain" });
  const strange = await parent.spawn({ name: "strange" });
  const uid = await worker.uidOf(strange.agent_id);
  const { record } = keys.agent({ ...address, uid });
  const spec = JSON.parse((await worker.redis.hget(record, "spec")) ?? "");
  await worker.redis.hset(record, "v", "2", "spec", JSON.stringify({ ...spec, v: 2, limits: "none" }));
  expect((await parent.list()).map(({ agent_id }) => agent_id)).toEqual([plain.agent_id]);
  expect(await parent.get(plain.agent_id)).toMatchObject({ status: "idle" });
  await expect(parent.get(strange.agent_id)).rejects.toMatchObject(refusal("protocol_violation"));
  for (let i = 0; i < 8; i += 1) await parent.spawn({ name: "more" });
  await expect(parent.spawn({ name: "too many" })).rejects.toMatchObject(refusal("quota_exceeded", /plain/));
  expect(await parent.destroy(strange.agent_id)).toMatchObject({ status: "destroyed" });
});
