/** How late each door's program has its reply: from the end of its agent to its first word. */

import { beforeAll, expect, test } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { keysLike } from "../../helpers/redis.ts";
import { openStage, type Stage } from "../../stage/stage.ts";
import { startCommandLineApi } from "../command-line-api.ts";
import { type Program, programsOf, SAID } from "../programs.ts";

const ROUNDS = 15;
/** Later than the TypeScript client at most. */
const LATER_MS = 100;

let stage: Stage;
let programs: Readonly<Record<string, Program>>;
let api: string;

beforeAll(async () => {
  stage = await openStage({
    redis: "own",
    prefix: "saq",
    latencyMs: 50,
    scenario: { turns: [{ content: [{ type: "text", text: SAID }] }] },
  });
  const { token } = await createApiKeys(stage.redis, stage.keys).create({
    tenant: "default",
    name: "doors",
    scope: "spawn",
  });
  await stage.startWorker();
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl: stage.url, prefix: "saq", client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  api = (await startCommandLineApi(stage)).url;
  programs = programsOf(stage, token);
});

/** The recipes ask with one request key, or read the channel from its beginning: each round is the first one for them. */
async function forgetRecipes(): Promise<void> {
  for (const key of await keysLike(stage.redis, "saq:{default/*}*")) await stage.redis.del(key);
}

/** When the youngest agent ended, epoch ms. */
async function lastEndMs(): Promise<number> {
  const records = await keysLike(stage.redis, "saq:{*}:agent:sa-????????????????????????");
  const ends = await Promise.all(records.map(async (key) => Number(await stage.redis.hget(key, "ended_at"))));
  return Math.max(...ends);
}

test(`each program has its reply within ${LATER_MS} ms of the TypeScript client's`, {
  timeout: 600_000,
}, async () => {
  const medians: Record<string, number> = {};
  for (const [name, program] of Object.entries(programs)) {
    const late: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      await forgetRecipes();
      const { said, atMs } = await program(api);
      expect(said).toContain(SAID);
      late.push(atMs - (await lastEndMs()));
    }
    late.sort((a, b) => a - b);
    const [median = 0, most = 0] = [late[ROUNDS >> 1], late.at(-1)];
    medians[name] = median;
    console.info(`${name}: p50 ${median} ms, max ${most} ms after the end of its agent`);
  }
  const { typescript = 0, ...others } = medians;
  for (const [name, ms] of Object.entries(others)) expect(ms - typescript, name).toBeLessThan(LATER_MS);
});
