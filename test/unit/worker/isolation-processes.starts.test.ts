/** After how many processes that do not start the program of a worker's suspects counts as unusable. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { createIsolationProcesses } from "../../../src/worker/isolation-processes.ts";
import type { RunContext } from "../../../src/worker/run/context.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";

const file = join(import.meta.dirname, "../../helpers/fixtures/held-suspects.mjs");

test("a program is usable after two processes that did not start, and not after three", async () => {
  const directory = mkdtempSync(join(tmpdir(), "suspects-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  const broken = join(directory, "broken");
  writeFileSync(broken, "");
  const context = { clock: handClock(), logger: createLogger({ level: "silent" }) } as unknown as RunContext;
  const settings = { concurrency: 1, drainGraceMs: 100 };
  const processes = createIsolationProcesses(context, { file, args: [broken] }, settings);
  closeAtEnd(() => processes.stop());
  const usable: boolean[] = [];
  for (const n of [1, 2, 3]) {
    const taken = { address: { tenant: "t", parentId: "p", uid: `sa-${n}` }, wake: 1, timesTaken: 1 };
    expect(await processes.run(taken, 0)).toMatchObject({ status: "returned" });
    usable.push(processes.isUsable);
  }
  expect(usable).toEqual([true, true, false]);
});
