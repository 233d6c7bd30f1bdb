/** Threads of the Agent Protocol, as a client asks for them over HTTP. */
import { expect, test } from "vitest";
import { AGENT_PROTOCOL_PATH, agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { agentOf } from "../../../src/shared/protocol/keys.ts";
import { startApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type StageOptions } from "../../stage/stage.ts";

const THREADS = `${AGENT_PROTOCOL_PATH}/threads`;
const PARENT = { tenant: "default", parentId: "agent-protocol" };

/** A door, a new thread behind it, and a call that begins a run there. */
async function newThread(options: StageOptions = {}) {
  const stage = await openStage(options);
  const { ask } = await startApi({ client: stage.client(), mounts: [agentProtocol()] });
  const threadId: string = (await ask("POST", THREADS, { body: {} })).body.thread_id;
  const thread = `${THREADS}/${threadId}`;
  const begin = (...contents: unknown[]) => {
    const messages = contents.map((content) => ({ role: "user", content }));
    return ask("POST", `${thread}/runs`, { body: { assistant_id: "researcher", input: { messages } } });
  };
  return { stage, ask, thread, threadId, begin };
}

test("a thread is busy from the begin of a run on, and then what its last run was", async () => {
  const { stage, ask, thread, begin } = await newThread({
    scenario: [
      { match: { user: "unpaid" }, turns: [{ error: { status: 400, message: "no credit is left" } }] },
      { turns: [{ content: [{ type: "text", text: "done" }] }] },
    ],
  });
  const status = async () => (await ask("GET", thread)).body.status;
  expect(await status()).toBe("idle");
  await begin("unpaid");
  expect(await status()).toBe("busy");
  await stage.startWorker();
  await until(async () => (await status()) === "error");
  await begin("go on");
  await until(async () => (await status()) === "idle");
});

test("a run gets all texts of all its messages, and no answer about it is for a cache", async () => {
  const { stage, ask, thread, threadId, begin } = await newThread();
  const { status } = await begin(
    [{ type: "text", text: "first " }, { type: "image" }, { type: "text", text: "part" }],
    "second",
  );
  expect(status).toBe(200);
  const inbox = await stage.store.inbox(agentOf(PARENT, threadId));
  expect(inbox.map(({ text }) => text)).toEqual(["first part\n\nsecond"]);
  for (const path of ["", "/state", "/runs"])
    expect((await ask("GET", thread + path)).headers.get("cache-control"), path).toBe("no-store");
});

test("a thread whose end fails is not said to be gone", async () => {
  const { stage, ask, thread, threadId, begin } = await newThread();
  await begin("go");
  const { record } = stage.keys.agent(agentOf(PARENT, threadId));
  await stage.redis.hset(record, "status", "unheard-of");
  expect((await ask("DELETE", thread)).status).toBe(500);
  await stage.redis.hset(record, "status", "queued");
  expect((await ask("DELETE", thread)).status).toBe(204);
  expect(await stage.record({ ...agentOf(PARENT, threadId), agentId: "a" })).toMatchObject({
    status: "ended",
    ended_reason: "destroyed",
  });
});

test("a thread that was deleted is there no more, for readers and for messages, and may be deleted again", async () => {
  const { stage, ask, thread, begin } = await newThread();
  const { body } = await begin("go");
  await stage.startWorker();
  await until(async () => (await ask("GET", thread)).body.status === "idle");
  expect((await ask("DELETE", thread)).status).toBe(204);
  const run = `/runs/${body.run_id}`;
  for (const path of ["", "/state", "/history", "/runs", run, `${run}/join`])
    expect(await ask("GET", thread + path), path).toMatchObject({
      status: 404,
      body: { detail: expect.stringMatching(/^There is no thread/) },
    });
  expect((await begin("go on")).status).toBe(404);
  expect((await ask("POST", `${thread}${run}/cancel`)).status).toBe(404);
  expect((await ask("DELETE", thread)).status).toBe(204);
});
