/** An address that leads to a Sentinel is refused with what to write, by every process that would use it. */
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { createBoard } from "../../src/service/board/board.ts";
import { refusal, testClient, testParent } from "../helpers/parents.ts";
import { runHere } from "../helpers/program.ts";
import { startPrivateRedis } from "../helpers/redis.ts";
import { startSentinel } from "../helpers/sentinel.ts";
import { openStage } from "../stage/stage.ts";

test("worker, client, board and commands say that the address names a Sentinel, and what to write", async () => {
  const master = await startPrivateRedis();
  const { url } = await startSentinel(master.port);
  const refused = refusal(
    "invalid_config",
    /names a Sentinel, which keeps no data: write the address of its master/,
  );
  const stage = await openStage();
  await expect(stage.startWorker({ redisUrl: url })).rejects.toMatchObject(refused);
  await expect(testClient({ redisUrl: url }).start()).rejects.toMatchObject(refused);
  await expect(createBoard({ redisUrl: url }).start()).rejects.toMatchObject(refused);
  const parent = testParent(testClient({ redisUrl: url }));
  await expect(parent.spawn({ name: "x" }), "a client that was never started").rejects.toMatchObject(refused);
  await expect(parent.list()).rejects.toMatchObject(refused);
  const { code, stderr } = await runHere(["ps"], { cwd: tmpdir(), env: { REDIS_URL: url } });
  expect({ code, said: stderr.at(-1) }).toEqual({
    code: 3,
    said: expect.stringContaining("names a Sentinel"),
  });
});
