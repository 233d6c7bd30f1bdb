/** What an operator learns of webhooks that do not get their replies: from doctor, command line, metrics and log. */
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { createWebhookPush } from "../../../src/service/webhooks/push.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { parentMember } from "../../../src/shared/protocol/keys.ts";
import { startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { doctorFor } from "../../helpers/doctor.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { runHere } from "../../helpers/program.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const HOUR_MS = 3_600_000;

/** A receiver that answers every request with this status. */
const receiverOf = (status: number) =>
  listenUntilEnd(
    createServer((request, response) =>
      request.resume().on("end", () => void response.writeHead(status).end()),
    ),
  );

/** A stage whose parent `pushed` has a webhook, with a worker. */
async function scene(status: number) {
  const stage = await openStage();
  await stage.startWorker();
  const parent = stage.parent("pushed");
  await parent.webhook.set({ url: `${await receiverOf(status)}/hook` });
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const reply = async () => {
    const { agent_id } = await parent.spawn({ name: "helper" });
    await parent.send(agent_id, "Say hello");
  };
  const show = async () => {
    const env = { REDIS_URL: redisUrl(), SUBAGENT_PREFIX: stage.prefix };
    return (await runHere(["webhook", "show", "--parent", "pushed"], { cwd: tmpdir(), env })).stdout;
  };
  return { stage, parent, lines, logger, reply, show };
}

test("pushes that fail are named by the doctor, with the time of the next attempt on the command line, and counted", async () => {
  const { stage, parent, lines, logger, reply, show } = await scene(500);
  const door = await startApi({ client: stage.client(), webhookReach: "any", logger });
  const metric = async (name: string) => {
    const { body } = await door.ask("GET", "/metrics");
    expect(body).toEqual(expect.any(String));
    return Number(
      String(body)
        .split("\n")
        .find((line) => line.startsWith(`${name} `))
        ?.slice(name.length) ?? Number.NaN,
    );
  };
  expect(await metric("subagent_webhook_oldest_unpushed_seconds")).toBe(0);
  const repliedAtMs = Date.now();
  await reply();
  const failing = await until(async () => {
    const view = await parent.webhook.get();
    return view.status === "failing" && view;
  });
  expect(Date.parse(failing.next_try_at ?? "")).toBeGreaterThan(Date.parse(failing.created_at));
  expect(await metric('subagent_webhook_pushes_total{result="refused"}')).toBeGreaterThanOrEqual(1);
  const unpushedS = await metric("subagent_webhook_oldest_unpushed_seconds");
  expect(unpushedS).toBeGreaterThan(0);
  // Seconds: no entry is older than the call that brought it, whatever the clocks round.
  expect(unpushedS).toBeLessThan((Date.now() - repliedAtMs + 10) / 1_000);
  const doctor = await doctorFor(stage);
  const { webhooks } = await doctor.findings();
  expect(webhooks).toMatchObject({ severity: "warn", count: 1, area: "replies" });
  expect(webhooks?.names).toEqual([
    expect.stringMatching(/^pushed \(1, oldest \d+ s: The receiver answered 500\.\)$/),
  ]);
  expect(lines.find(({ msg }) => msg === "A webhook failed; trying again later")).toMatchObject({
    ...{ tenant: "default", parent: "pushed" },
    next_try_in_ms: expect.any(Number),
  });
  // Without an API process nobody sets the time of the next attempt but this test.
  await door.stop();
  const { redis, keys } = stage;
  const retry = `${parentMember({ tenant: "default", parentId: "pushed" })}/retry`;
  await redis.hset(keys.webhookHolders, retry, Date.now() + HOUR_MS);
  const said = await show();
  expect(said[0]).toMatch(/^failing \S+: The receiver answered 500\.$/);
  expect(said[1]).toMatch(/^the next attempt is at \d{4}-/);
  // One that is due now may be under way.
  await redis.hset(keys.webhookHolders, retry, Date.now());
  expect((await show())[1]).toMatch(/^the next attempt is at \d{4}-/);
  await redis.hset(keys.webhookHolders, retry, Date.now() - HOUR_MS);
  expect((await show())[1]).toMatch(/^the next attempt was due at \d{4}-\S+: start an API process/);
});

test("a receiver that has failed for days is tried again after an hour at most", async () => {
  const { stage, parent, lines, logger, reply } = await scene(500);
  await reply();
  await until(async () => (await parent.newReplies()).entries.length === 1);
  const { webhook } = stage.keys.parent({ tenant: "default", parentId: "pushed" });
  await stage.redis.hset(webhook, { failures: 40 });
  const push = createWebhookPush({ client: stage.client(), reach: "any", random: () => 1, logger });
  closeAtEnd(() => push.stop());
  push.start();
  const failed = await until(() => lines.find(({ msg }) => String(msg).startsWith("A webhook failed")));
  expect(failed.next_try_in_ms).toBe(HOUR_MS);
});

test("refused entries wait for their retry also if the process that pushed newer ones has died", async () => {
  const { stage, parent, reply } = await scene(500);
  const { redis, keys } = stage;
  const address = { tenant: "default", parentId: "pushed" };
  const [member, { webhook, replies }] = [parentMember(address), keys.parent(address)];
  await reply();
  await until(async () => (await parent.newReplies()).entries.length === 1);
  const [[id = ""] = []] = await redis.xrevrange(replies, "+", "-", "COUNT", 1);
  await redis.hset(webhook, { failures: 1, after: id, last_problem: "The receiver answered 500." });
  await redis.hset(keys.webhookHolders, member, "dead", `${member}/retry`, Date.now() + HOUR_MS);
  await redis.zadd(keys.webhooksDue, 1, member);
  const answers: string[] = [];
  const onAnswer = (status: string) => void answers.push(status);
  const push = createWebhookPush({ client: stage.client(), reach: "any", onAnswer });
  closeAtEnd(() => push.stop());
  push.start();
  const isReleased = async () =>
    Number(await redis.zscore(keys.webhooksDue, member)) > Date.now() + HOUR_MS / 2;
  await until(async () => answers.length > 0 || (await isReleased()));
  expect(answers).toEqual([]);
});

test("a receiver that is gone for good is named in the log and by the doctor, for nothing else says that pushes have ended", async () => {
  const { stage, lines, logger, reply, parent } = await scene(410);
  const push = createWebhookPush({ client: stage.client(), reach: "any", logger });
  closeAtEnd(() => push.stop());
  push.start();
  await reply();
  await until(async () => (await parent.webhook.get()).status === "disabled");
  await until(() => lines.some(({ msg }) => String(msg).startsWith("A webhook is gone")));
  const { webhooks } = await (await doctorFor(stage)).findings();
  expect(webhooks?.names).toEqual([
    expect.stringMatching(/^pushed \(1, oldest \d+ s: The receiver answered 410/),
  ]);
});

test("where no API process runs, a webhook whose replies wait for a minute is named, and not before", async () => {
  const { stage, reply, parent } = await scene(200);
  await reply();
  await until(async () => (await parent.newReplies()).entries.length === 1);
  const doctor = await doctorFor(stage);
  expect(await doctor.findings()).toEqual({});
  const { redis, keys } = stage;
  const [[id = "", fields = []] = []] = await redis.xrange(
    keys.parent({ tenant: "default", parentId: "pushed" }).replies,
    "-",
    "+",
  );
  const { replies } = keys.parent({ tenant: "default", parentId: "pushed" });
  await redis.del(replies);
  await redis.xadd(replies, `${Number.parseInt(id, 10) - 61_000}-0`, ...fields);
  const { webhooks } = await doctor.findings();
  expect(webhooks?.names).toEqual([
    expect.stringMatching(/^pushed \(1, oldest 1 min: no API process pushes\)$/),
  ]);
  await redis.zadd(keys.webhooksDue, Date.now() + HOUR_MS, "default/pushed");
  expect(await doctor.findings()).toEqual({});
});
