import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { answerEntry } from "../../../src/shared/protocol/log.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { questionsOf } from "../verbs/rig.ts";

const address = { tenant: "default", parentId: "planner-7" };

function scene() {
  const prefix = uniquePrefix();
  const client = testClient({ prefix });
  return {
    prefix,
    client,
    parent: testParent(client),
    worker: scriptedWorker(redisUrl(), prefix, address),
  };
}

test("each spawn, message and finish is the last activity of the parent", async () => {
  const { client, parent } = scene();
  const times: number[] = [];
  const noted = async () => {
    const [active] = await client.parents();
    times.push(Date.parse(active?.active_at ?? ""));
    // The next activity is in another millisecond of Redis.
    await systemClock.sleep(3);
  };
  await parent.spawn({ name: "researcher" });
  await noted();
  await parent.spawn({ name: "writer" });
  await noted();
  await parent.send("writer", "write");
  await noted();
  await parent.finish("writer");
  await noted();
  expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
  expect(times).toHaveLength(4);
});

describe("send", () => {
  test("queues an idle agent, wakes it by a job, and delivers what comes while it is queued", async () => {
    const { parent, worker, prefix } = scene();
    const { agent_id } = await parent.spawn({ name: "researcher" });
    const first = await parent.send(agent_id, "Research topic X");
    expect(first).toEqual({
      status: "queued",
      agent_id: "researcher",
      run: 1,
      message_id: expect.stringMatching(/^[0-9a-f]{24}$/),
    });
    const wakes = createWakeQueue(worker.redis, keysUnder(prefix));
    closeAtEnd(() => wakes.stop());
    expect(await wakes.isAlive({ uid: await worker.uidOf("researcher"), wake: 1 })).toBe(true);
    expect(await parent.send(` ${agent_id} `, "and Y", { message_id: "m2" })).toMatchObject({
      status: "delivered",
      run: 1,
      message_id: "m2",
    });
    expect((await worker.claim("researcher")).texts).toEqual(["Research topic X", "and Y"]);
  });

  test("with a seen message id delivers once and answers as at first, and refuses the id with another text", async () => {
    const { parent, worker } = scene();
    await parent.spawn({ name: "a" });
    const first = await parent.send("a", "hello", { message_id: "m1" });
    expect(await parent.send("a", "hello", { message_id: "m1" })).toEqual(first);
    await expect(parent.send("a", "bye", { message_id: "m1" })).rejects.toMatchObject(
      refusal("conflict", /m1/),
    );
    const second = await parent.send("a", "more", { message_id: "m2" });
    expect((await worker.claim("a")).texts).toEqual(["hello", "more"]);
    expect(await parent.send("a", "hello", { message_id: "m1" })).toEqual(first);
    expect(await parent.send("a", "more", { message_id: "m2" })).toEqual(second);
  });

  test("to an ended agent says why it ended", async () => {
    const { parent, worker } = scene();
    await parent.spawn({ name: "a" });
    await parent.send("a", "go");
    await worker.run("a");
    await expect(parent.send("a", "more")).rejects.toMatchObject({
      code: "agent_ended",
      message: expect.stringMatching(/completed/),
      details: { agent_id: "a", ended_reason: "completed" },
    });
  });

  test("to a full inbox is refused with the number of unread messages", async () => {
    const { parent } = scene();
    await parent.spawn({ name: "a" });
    for (let i = 0; i < 64; i += 1) await parent.send("a", `message ${i}`);
    await expect(parent.send("a", "one more")).rejects.toMatchObject(refusal("inbox_full", /64 unread/));
  });

  test("of bad text is refused and queues nothing", async () => {
    const { parent } = scene();
    await parent.spawn({ name: "a" });
    let nested: unknown = "x";
    for (let level = 0; level < 40; level += 1) nested = [nested];
    for (const text of ["", " \n", "x".repeat(300 * 1024), 42, undefined, nested]) {
      await expect(parent.send("a", text as string)).rejects.toMatchObject(refusal("invalid_input"));
    }
    await expect(parent.send("a", "ok", { message_id: "" })).rejects.toMatchObject(
      refusal("invalid_input", /message_id/),
    );
    expect(await parent.get("a")).toMatchObject({ status: "idle", run: 0 });
  });
});

describe("an agent of somebody else", () => {
  test("looks exactly as if it did not exist, whatever is asked of it", async () => {
    const { client, parent } = scene();
    await testParent(client, { parentId: "other" }).spawn({ name: "secret" });
    await testParent(client, { tenant: "acme" }).spawn({ name: "hidden" });
    const calls = (id: string) => [
      () => parent.send(id, "hi"),
      () => parent.get(id),
      () => parent.destroy(id),
      () => parent.finish(id),
    ];
    const answers = new Set<string>();
    for (const id of ["secret", "hidden", "nobody"]) {
      for (const call of calls(id)) {
        const error = await call().catch((thrown: unknown) => thrown);
        expect(error).toMatchObject(refusal("unknown_agent", new RegExp(`"${id}"`)));
        answers.add(String(error).replace(id, "?"));
      }
    }
    expect(answers.size).toBe(1);
    expect(await parent.list()).toEqual([]);
  });

  test.for(["", "../../x", "#a", "A B", "x".repeat(10_000), 7, null])(
    "an id of the form %j is unknown, not an error of another kind",
    async (id) => {
      const { parent } = scene();
      await parent.spawn({ name: "a" });
      await expect(parent.get(id as string)).rejects.toMatchObject(refusal("unknown_agent"));
    },
  );
});

describe("list and get", () => {
  test("list shows live agents, oldest first; get also ended ones", async () => {
    const { parent, worker } = scene();
    await parent.spawn({ name: "first" });
    await parent.spawn({ name: "second" });
    await parent.send("first", "go");
    await worker.run("first");
    expect((await parent.list()).map(({ agent_id, status }) => [agent_id, status])).toEqual([
      ["second", "idle"],
    ]);
    expect(await parent.get("first")).toMatchObject({ status: "ended", ended_reason: "completed", run: 1 });
  });

  test("list is by the time of the spawn, and by name where that is the same", async () => {
    const { prefix, parent, worker } = scene();
    const keys = keysUnder(prefix);
    for (const [name, spawnedAt] of [
      ["b", 2],
      ["a", 2],
      ["c", 1],
      ["d", 3],
    ] as const) {
      await parent.spawn({ name });
      const { record } = keys.agent({ ...address, uid: await worker.uidOf(name) });
      await worker.redis.hset(record, "created_at", spawnedAt);
    }
    expect((await parent.list()).map(({ agent_id }) => agent_id)).toEqual(["c", "a", "b", "d"]);
  });

  test("an answer to an agent that was destroyed says so", async () => {
    const { parent } = scene();
    await parent.spawn({ name: "a" });
    await parent.destroy("a");
    await expect(parent.answer("a", "yes")).rejects.toMatchObject({
      ...refusal("agent_ended", /destroyed/),
      details: { ended_reason: "destroyed" },
    });
  });
});

describe("destroy and finish", () => {
  test("destroy ends an agent once and says so; a second one learns the reason", async () => {
    const { parent } = scene();
    await parent.spawn({ name: "a" });
    await parent.send("a", "go");
    expect(await parent.destroy("a")).toEqual({
      status: "destroyed",
      agent_id: "a",
      ended_reason: "destroyed",
    });
    expect(await parent.destroy("a")).toEqual({
      status: "already_ended",
      agent_id: "a",
      ended_reason: "destroyed",
    });
  });

  test("finish reaches a run that is going on and leaves an idle agent as it is", async () => {
    const { parent, worker } = scene();
    await parent.spawn({ name: "a" });
    expect(await parent.finish("a")).toEqual({ status: "idle", agent_id: "a" });
    await parent.send("a", "go");
    expect(await parent.finish("a")).toEqual({ status: "finishing", agent_id: "a", run: 1 });
    const { uid, epoch } = await worker.claim("a");
    const renewed = await worker.store.renew({ ...address, uid }, { epoch, running_ms: 0 });
    expect(renewed).toMatchObject({ status: "ok", finish: true });
    await parent.destroy("a");
    expect(await parent.finish("a")).toEqual({
      status: "already_ended",
      agent_id: "a",
      ended_reason: "destroyed",
    });
  });
});

describe("an agent that waits for an answer", () => {
  async function waitingScene() {
    const all = scene();
    const { parent, worker, prefix } = all;
    await parent.spawn({ name: "a" });
    await parent.send("a", "go");
    const { uid, epoch } = await worker.claim("a");
    const agent = { ...address, uid };
    expect(await worker.store.ask(agent, questionsOf(epoch))).toMatchObject({ status: "asked" });
    const wakes = createWakeQueue(worker.redis, keysUnder(prefix));
    closeAtEnd(() => wakes.stop());
    const isWoken = async () =>
      wakes.isAlive({ uid, wake: (await worker.store.record(agent))?.wake ?? Number.NaN });
    return { ...all, agent, isWoken };
  }

  test("is woken by a job when it is told to finish", async () => {
    const { parent, isWoken } = await waitingScene();
    expect(await parent.finish("a")).toMatchObject({ status: "finishing" });
    expect(await isWoken()).toBe(true);
  });

  test("is woken by its answer", async () => {
    const { parent, isWoken } = await waitingScene();
    expect(await parent.answer("a", "blue")).toMatchObject({ status: "answered", agent_status: "queued" });
    expect(await isWoken()).toBe(true);
  });

  test("is woken by an answer that is given again: the first try may have ended before its wake", async () => {
    const { parent, worker, agent, isWoken } = await waitingScene();
    const first = { authority: "parent", question_id: "1/a", entry: answerEntry("blue") } as const;
    expect(await worker.store.answer(agent, first)).toMatchObject({ status: "queued" });
    expect(await isWoken()).toBe(false);
    expect(await parent.answer("a", "blue", { question_id: "1/a" })).toMatchObject({ status: "answered" });
    expect(await isWoken()).toBe(true);
    await expect(parent.answer("a", "red")).rejects.toMatchObject(refusal("unknown_question"));
  });
});

describe("fullText", () => {
  test("answers the whole text of a cut reply to its own parent only", async () => {
    const { client, parent, worker } = scene();
    await parent.spawn({ name: "a" });
    await parent.send("a", "go");
    await worker.run("a", { summary: "short", fullText: "the whole story" });
    const replyId = `${await worker.uidOf("a")}.1`;
    expect(await parent.fullText(replyId)).toBe("the whole story");
    expect(await testParent(client, { parentId: "other" }).fullText(replyId)).toBeUndefined();
    await worker.redis.set(worker.store.keys.parent(address).text("sa-x.1"), "not a reply's", "PX", 60_000);
    expect(await parent.fullText("sa-x.1")).toBeUndefined();
  });
});

test("a stopped parent refuses everything, and its client goes on for others", async () => {
  const { client, parent } = scene();
  await parent.stop();
  await parent.stop();
  await expect(parent.spawn({ name: "a" })).rejects.toMatchObject(refusal("closed"));
  await expect(parent.list()).rejects.toMatchObject(refusal("closed"));
  expect(await testParent(client, { parentId: "other" }).list()).toEqual([]);
});
