/** Guarantee: what a program's own logger throws or rejects with ends no run, no request and no process. */
import { expect, test } from "vitest";
import type { Scenario } from "../../src/offline/server.ts";
import { createCallbackSender } from "../../src/service/agent-protocol/callback.ts";
import type { Mount } from "../../src/service/api/mount.ts";
import { createIntake } from "../../src/service/intake/intake.ts";
import type { Logger } from "../../src/shared/logger.ts";
import { startApi } from "../helpers/api.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

const refuse = (): never => {
  throw new Error("the disk of the log is full");
};
const reject = () => Promise.reject(new Error("the log's server is away"));

/** Loggers that fail, and their children. */
const BROKEN: ReadonlyArray<readonly [string, Logger]> = [
  ["throws", loggerOf(refuse, () => loggerOf(refuse, refuse))],
  ["throws where a child is made", loggerOf(refuse, refuse)],
  ["rejects", loggerOf(reject, () => loggerOf(reject, reject))],
];

function loggerOf(log: () => unknown, child: () => unknown): Logger {
  return { debug: log, info: log, warn: log, error: log, child: child as Logger["child"] };
}

/** A call of a tool, and then an answer whose first call the provider refuses as one that is overloaded. */
const OVERLOADED_ONCE: Scenario = {
  turns: [
    { content: [{ type: "tool_use", name: "glob", input: { pattern: "*" } }] },
    { content: [{ type: "text", text: "done" }], failures: [{ status: 529 }] },
  ],
};

test.each(BROKEN)(
  "a run ends with its answer, and buys nothing twice, where the logger %s",
  async (_, logger) => {
    const stage = await openStage({ scenario: OVERLOADED_ONCE });
    await stage.startWorker({ logger });
    const reply = await stage.reply(await stage.task("work"));
    expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
    expect(stage.offline.ledger.map(({ http_status }) => http_status)).toEqual([200, 529, 200]);
  },
);

test.each(BROKEN)("a client says that Redis is away where the logger %s", async (_, logger) => {
  const stage = await openStage();
  const away = stage.client({ redisUrl: "redis://127.0.0.1:1", logger });
  await expect(away.start()).rejects.toThrow(/Redis cannot be reached/);
});

test.each(BROKEN)("an API starts and answers where the logger %s", async (_, logger) => {
  const stage = await openStage();
  const handler: Mount["handler"] = () => (_request, _response, next) => next(new TypeError("a bug"));
  const mounts: Mount[] = [{ path: "/broken", scope: "read", handler }];
  const api = await startApi({ client: stage.client(), logger, mounts });
  expect((await api.ask("GET", "/broken")).body).toMatchObject({ status: 500 });
});

test.each(BROKEN)(
  "an intake goes on behind an entry that it refuses where the logger %s",
  async (_, logger) => {
    const { redis, keys, url: redisUrl, prefix, ...stage } = await openStage();
    const intake = createIntake({ redisUrl, prefix, client: stage.client(), logger });
    closeAtEnd(() => intake.stop());
    await intake.start();
    await redis.xadd(keys.intake, "*", "nonsense", "none");
    await redis.xadd(keys.intake, "*", "parent_id", "planner-7", "prompt", "say hello");
    await until(async () => (await stage.parent().list()).length === 1, { timeoutMs: 8_000 });
    expect(await redis.xlen(keys.intakeRefused)).toBe(1);
  },
);

test("a sender of callbacks looks again, and ends when it is told to, where the logger throws", async () => {
  const stage = await openStage();
  let lines = 0;
  const count = () => {
    lines += 1;
    return refuse();
  };
  const client = stage.client({ redisUrl: "redis://127.0.0.1:1" });
  const sender = createCallbackSender({ client, url: "http://127.0.0.1:1", logger: loggerOf(count, refuse) });
  sender.start();
  closeAtEnd(() => sender.stop());
  await until(() => lines >= 2, { timeoutMs: 8_000 });
});
