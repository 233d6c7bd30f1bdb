/** A worker whose package is replaced on the disk while it runs, as by `npm install`: what it accepts it still hands over. */
import { cpSync, mkdtempSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { spawnNode } from "../helpers/processes.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

const ROOT = join(import.meta.dirname, "../..");

test("a request that comes after the package's files have been replaced is handed over, and its reply comes", async () => {
  const installed = mkdtempSync(join(tmpdir(), "replaced-"));
  closeAtEnd(() => rmSync(installed, { recursive: true, force: true }));
  cpSync(join(ROOT, "dist"), join(installed, "dist"), { recursive: true });
  for (const name of ["package.json", "node_modules"]) symlinkSync(join(ROOT, name), join(installed, name));
  const { redis, keys, url, prefix, offline, workspaceRoot, parent } = await openStage({ redis: "own" });
  const worker = await spawnNode(join(installed, "dist/cli/main.js"), {
    args: ["worker"],
    env: {
      ...{ REDIS_URL: url, SUBAGENT_PREFIX: prefix, SUBAGENT_WORKSPACES: workspaceRoot },
      ...{ ANTHROPIC_API_KEY: "offline", ANTHROPIC_BASE_URL: offline.url },
    },
  });
  await worker.waitForLine(/^ready: worker/);
  // The intake opens beside the ready line.
  await until(async () => String(await redis.client("LIST")).includes("name=subagent-queue-producer"), {
    timeoutMs: 30_000,
  });
  renameSync(join(installed, "dist"), join(installed, "replaced"));
  await redis.xadd(keys.intake, "*", "parent_id", "shell", "prompt", "hello");
  const entry = await first(parent("shell").replies());
  expect(entry).toMatchObject({ kind: "reply", status: "succeeded" });
});

/** Resolves to the first entry, and ends the reader. */
async function first<Entry>(entries: AsyncIterable<Entry>): Promise<Entry | undefined> {
  for await (const entry of entries) return entry;
  return undefined;
}
