/** A call that has begun a run, and cannot read its end, sends nobody to begin it again. */
import { expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { newThreadId } from "../../../src/service/agent-protocol/thread.ts";
import { startApi } from "../../helpers/api.ts";
import { openFaultLine } from "../../helpers/fault-line.ts";
import { started } from "../../helpers/parents.ts";
import { keysLike, redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const RUN = { assistant_id: "researcher", input: { messages: [{ content: "go" }] } };

/** An API for which Redis refuses to read records. The one command that reads one there follows the beginning of a run. */
async function apiWithoutRecords() {
  const stage = await openStage();
  const line = await openFaultLine(Number(new URL(redisUrl()).port), ([name = ""]) =>
    /^hgetall$/i.test(name) ? "refused" : "passes",
  );
  const client = await started(stage.client({ redisUrl: line }));
  return startApi({ client, mounts: [agentProtocol()] });
}

test("a wait that has begun its run says where the run is, and not that nothing was done", async () => {
  const api = await apiWithoutRecords();
  const { status, body } = await api.ask("POST", "/agent-protocol/runs/wait", { body: RUN });
  expect([status, body.code, body.detail]).toEqual([503, "timed_out", expect.stringContaining("goes on")]);
  const { thread_id, run_id } = body.details;
  const { body: runs } = await api.ask("GET", `/agent-protocol/threads/${thread_id}/runs/${run_id}`);
  // To read a run changes nothing, so there the usual words are true.
  expect(runs).toMatchObject({
    code: "redis_unavailable",
    detail: expect.stringContaining("nothing was done"),
  });
});

test("so does a stream that has begun its run", async () => {
  const api = await apiWithoutRecords();
  const path = `/agent-protocol/threads/${newThreadId()}/runs/stream`;
  const { status, body } = await api.ask("POST", path, { body: RUN });
  expect([status, body]).toEqual([200, expect.stringContaining('"error":"timed_out"')]);
  expect(body).not.toContain("nothing was done");
});

test("a wait that the stop of its process ends says where to join the run", async () => {
  const stage = await openStage();
  const client = await started(stage.client());
  const stopping = await startApi({ client, mounts: [agentProtocol()] });
  const wait = stopping.ask("POST", "/agent-protocol/runs/wait", { body: RUN });
  await until(async () => /open_requests 2$/m.test((await stopping.ask("GET", "/metrics")).body));
  await until(async () => (await keysLike(stage.redis, `${stage.prefix}:*:inbox`)).length === 1);
  await stopping.stop();
  const { status, body } = await wait;
  expect([status, body.code]).toEqual([503, "timed_out"]);
  const { thread_id, run_id } = body.details;
  const other = await startApi({ client: await started(stage.client()), mounts: [agentProtocol()] });
  await stage.startWorker();
  const joined = await other.ask("GET", `/agent-protocol/threads/${thread_id}/runs/${run_id}/join`);
  expect(joined).toMatchObject({ status: 200, body: { messages: expect.anything() } });
});
