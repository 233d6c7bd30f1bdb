/** A parent's channel over HTTP: what reading and acking costs, and what stands in front of what can be read. */
import { expect, test } from "vitest";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { readEvents, startApi } from "../../helpers/api.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

/** More than an ack searches. */
const OTHERS = 1_100;
const MOST_PAGES = 10;
const PARENT = { tenant: "default", parentId: "planner-7" };
const REPLIES = "/v1/parents/planner-7/replies";

test("an ack finds replies by their agents' records, and reads a bounded part of the channel for anything else", async () => {
  const stage = await openStage({ redis: "own" });
  const api = await startApi({ client: stage.client() });
  const [parent, worker] = [stage.parent(), stage.scriptedWorker()];
  const { replies } = stage.keys.parent(PARENT);
  const run = async (name: string, interim?: string) => {
    const { agent_id } = await parent.spawn({ name, keep_alive: true });
    await parent.send(agent_id, "go");
    await worker.run(agent_id, { keepAlive: true, ...(interim !== undefined && { interim }) });
    return worker.uidOf(agent_id);
  };
  const early = await run("early", "half of it");
  const [[, fields] = ["", []]] = await stage.observer.xrange(replies, "-", "+", "COUNT", 1);
  const adding = stage.observer.pipeline();
  for (let i = 0; i < OTHERS; i++)
    adding.xadd(replies, "*", ...fields.map((field) => field.replaceAll(early, `sa-other-${i}`)));
  await adding.exec();
  const late = await run("late");

  let pages = 0;
  const monitor = await openMonitor(stage.server.url, (_seconds, [verb, key, , , , count]) => {
    // A page begins with a command for so many entries.
    if (verb?.toLowerCase() === "xrange" && key === replies && count === "4") pages += 1;
  });
  const ack = async (...reply_ids: string[]) => {
    await monitor.caughtUp();
    pages = 0;
    const { body } = await api.ask("POST", `${REPLIES}/ack`, { body: { reply_ids } });
    await monitor.caughtUp();
    return { ...body, pages };
  };
  const unknown = `${newUid()}.1`;
  // Behind all the others.
  expect(await ack(`${late}.1`)).toEqual({ acked: [`${late}.1`], already: [], pages: 0 });
  expect(await ack(`${late}.1`, "unheard-of")).toEqual({
    acked: [],
    already: [`${late}.1`, "unheard-of"],
    pages: 0,
  });
  // No record says where a message stands; it is searched for from the spawn of its agent on.
  expect(await ack(`${early}.i`, `${early}.1`)).toEqual({
    acked: [`${early}.1`, `${early}.i`],
    already: [],
    pages: 1,
  });
  expect(await ack(`${early}.i`)).toEqual({ acked: [], already: [`${early}.i`], pages: 0 });
  expect(await ack(unknown)).toEqual({ acked: [], already: [], not_reached: [unknown], pages: MOST_PAGES });
  await stage.observer.del(replies);
  expect(await ack(unknown)).toEqual({ acked: [], already: [unknown], pages: 1 });
  monitor.stop();
});

test("an ack of several messages finds each, whenever its agent was spawned", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  const [parent, worker] = [stage.parent(), stage.scriptedWorker()];
  const ids: string[] = [];
  for (const name of ["early", "late"]) {
    const { agent_id } = await parent.spawn({ name });
    await parent.send(agent_id, "go");
    await worker.run(agent_id, { interim: "half of it" });
    ids.push(`${await worker.uidOf(agent_id)}.i`);
    // The next agent is spawned behind this message.
    const writtenMs = await redisNowMs(stage.redis);
    await until(async () => (await redisNowMs(stage.redis)) > writtenMs);
  }
  const { body } = await api.ask("POST", `${REPLIES}/ack`, { body: { reply_ids: ids.toReversed() } });
  expect(body).toEqual({ acked: ids, already: [] });
});

test("what cannot be read holds up nothing behind it, for a reader that waits and for one that follows", async () => {
  const stage = await openStage();
  // A slow look, which comes in time, would find what a reader had passed over.
  const api = await startApi({ client: stage.client({ clock: handClock() }) });
  const [parent, worker] = [stage.parent(), stage.scriptedWorker()];
  const { replies } = stage.keys.parent(PARENT);
  // Several pages: each ring of the doorbell would have one read.
  for (let n = 0; n < 350; n++) await stage.redis.xadd(replies, "*", "garbage", String(n));
  const { agent_id } = await parent.spawn({ name: "last" });
  await parent.send(agent_id, "go");
  await worker.run(agent_id);
  for (const query of ["", "?limit=1", "?wait=300&limit=100"])
    expect((await api.ask("GET", REPLIES + query)).body).toMatchObject({ replies: [{ agent_id }] });
  // A reader that does not wait, either: its time is over with the first page.
  const inTime = await startApi({ client: stage.client() });
  expect((await inTime.ask("GET", `${REPLIES}?limit=1`)).body).toMatchObject({ replies: [{ agent_id }] });
  const leaving = new AbortController();
  const events = readEvents(api.url + REPLIES, { signal: leaving.signal });
  expect((await events.next()).value?.data).toMatchObject({ agent_id });
  leaving.abort();
  await events.next().catch(() => {});
});
