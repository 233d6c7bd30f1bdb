/** Guarantee: a process of suspects is ended by one signal, also while its Redis is away. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bundled } from "../helpers/bundle.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";

test("one SIGTERM ends a process of suspects that waits for its Redis", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "isolated-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  const others = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(ANTHROPIC_|SUBAGENT_|NODE_OPTIONS)/.test(name)),
  );
  const env = { ...others, REDIS_URL: "redis://127.0.0.1:1" };
  const file = await bundled("src/cli/main.ts");
  const suspects = fork(file, ["worker", "--isolated"], {
    cwd,
    env,
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  closeAtEnd(() => void suspects.kill("SIGKILL"));
  const ended = once(suspects, "exit");
  let said = "";
  const waits = new Promise<void>((resolve) => {
    suspects.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (said.includes("Redis connection failed")) resolve();
    });
  });
  await Promise.race([waits, ended]);
  suspects.kill("SIGTERM");
  expect(await ended, said).toEqual([0, null]);
});
