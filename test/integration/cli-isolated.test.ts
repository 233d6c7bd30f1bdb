/** Guarantee: a process of suspects answers as its worker does, also where an operator allowed that and the environment does not say so. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bundled } from "../helpers/bundle.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";

test("in production a process of suspects without a key is not refused: its worker was allowed to answer by rule", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "isolated-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const others = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(ANTHROPIC_|SUBAGENT_|NODE_OPTIONS)/.test(name)),
  );
  const env = { ...others, NODE_ENV: "production", REDIS_URL: redisUrl(), SUBAGENT_PREFIX: uniquePrefix() };
  const file = await bundled("src/cli/main.ts");
  const suspects = fork(file, ["worker", "--isolated"], {
    cwd,
    env,
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  closeAtEnd(() => void suspects.kill("SIGKILL"));
  const ended = once(suspects, "exit");
  const [told] = await Promise.race([once(suspects, "message"), ended]);
  expect(told).toEqual({ ready: true });
  // Without its worker it ends by itself.
  suspects.disconnect();
  expect(await ended).toEqual([0, null]);
});
