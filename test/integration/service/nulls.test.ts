/** Foreign programs write null for what they leave out. */
import { expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { createJobTaker } from "../../../src/service/intake/jobs.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("a job of the intake begins its task, whichever of its other fields are null", async () => {
  const client = (await openStage()).client();
  const logger = createLogger({ level: "silent" });
  const taker = createJobTaker({ client, quota: createIntakeQuota(client, systemClock, logger), logger });
  const nulls = { tenant: null, model: null, tools: null, request_key: null, v: null };
  const data = { parent_id: "python", prompt: "Say hello", reply: "channel", ...nulls };
  expect(await taker.take({ id: "1", data })).toMatchObject({ status: "done", value: { run: 1 } });
  const promptless = { ...data, prompt: null };
  expect(await taker.take({ id: "2", data: promptless })).toMatchObject({
    status: "refused",
    error: { code: "invalid_input", message: expect.stringContaining("prompt: is missing") },
  });
});

test("a thread is made and begins a run, whichever of the optional fields are null", async () => {
  const { ask } = await startApi({ client: (await openStage()).client(), mounts: [agentProtocol()] });
  const made = await ask("POST", "/agent-protocol/threads", { body: { thread_id: null, metadata: null } });
  expect(made.status).toBe(200);
  const input = { messages: [{ role: "user", content: "Say hello" }], callbackThreadId: null };
  const run = { assistant_id: "helper", input, config: null };
  const begun = await ask("POST", `/agent-protocol/threads/${made.body.thread_id}/runs`, { body: run });
  expect([begun.status, begun.body.status]).toEqual([200, "pending"]);
});
