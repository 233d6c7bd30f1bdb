/** Guarantee: a worker that drains tells its processes of suspects, and they hand their runs back without waiting for the grace. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { createIsolationProcesses } from "../../../src/worker/isolation-processes.ts";
import type { RunContext } from "../../../src/worker/run/context.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";

/** Ends its runs when it is told to drain, and no sooner. */
const PROGRAM = `const ids = [];
process.once("disconnect", () => process.exit());
process.on("message", ({ run, drain }) => {
  if (run) ids.push(run.id);
  if (drain) for (const id of ids) process.send({ id, end: { status: "passed", reason: "drained" } });
});
process.send({ ready: true });
`;

test("a process of suspects is told that its worker drains", async () => {
  const directory = mkdtempSync(join(tmpdir(), "suspects-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, "drained.mjs");
  writeFileSync(file, PROGRAM);
  const context = { clock: handClock(), logger: createLogger({ level: "silent" }) } as unknown as RunContext;
  const processes = createIsolationProcesses(context, { file }, { concurrency: 1, drainGraceMs: 100 });
  closeAtEnd(() => processes.stop());
  const taken = { address: { tenant: "t", parentId: "p", uid: "sa-1" }, wake: 1, timesTaken: 1 };
  const end = processes.run(taken, 0);
  processes.drain();
  expect(await end).toEqual({ status: "passed", reason: "drained" });
  expect(processes.hasRoom).toBe(false);
});
