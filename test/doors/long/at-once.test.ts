/**
 * Programs at every door give work at once, and have their replies although an API process and a worker are killed meanwhile.
 */
import { beforeAll, expect, test } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { type OwnStage, openStage, SHORT_TIMING, type WorkerProcess } from "../../stage/stage.ts";
import { type CommandLineApi, startCommandLineApi } from "../command-line-api.ts";
import { type Program, programsOf, SAID } from "../programs.ts";

/** Each model call, so that there is a middle to be killed in. */
const CALL_MS = 400;

let stage: OwnStage;
let apis: CommandLineApi[];
let worker: WorkerProcess;
let token: string;

beforeAll(async () => {
  stage = await openStage({
    redis: "own",
    prefix: "saq",
    timing: SHORT_TIMING,
    latencyMs: CALL_MS,
    scenario: { turns: [{ content: [{ type: "text", text: SAID }] }] },
  });
  ({ token } = await createApiKeys(stage.redis, stage.keys).create({
    tenant: "default",
    name: "doors",
    scope: "spawn",
  }));
  [apis, worker] = await Promise.all([
    Promise.all([startCommandLineApi(stage), startCommandLineApi(stage)]),
    stage.spawnWorker(),
    stage.startWorker(),
  ]);
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl: stage.url, prefix: "saq", client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
});

/** As programs do when their API has gone: once more, at another one. */
async function insist(program: Program, first: number): Promise<string> {
  for (let attempt = first; attempt < first + 3; attempt++) {
    const reply = await program(apis[attempt % apis.length]?.url ?? "").catch(() => undefined);
    if (reply !== undefined) return reply.said;
  }
  throw new Error("three APIs in a row were no help");
}

test("programs at every door have their replies while an API process and a worker are killed", async () => {
  const asking = Object.values(programsOf(stage, token)).map((program, i) => insist(program, i));
  await until(async () => (await stage.redis.zcard(stage.keys.deadlines)) >= 3);
  const [first] = apis;
  await Promise.all([first?.kill(), worker.kill()]);
  const again = startCommandLineApi(stage);
  for (const said of await Promise.all(asking)) expect(said).toContain(SAID);
  apis[0] = await again;
});
