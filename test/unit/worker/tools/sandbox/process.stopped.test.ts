/** Guarantee: a command that ended while its worker was stopped has its own outcome, though its time is over by then. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createUnconfined } from "../../../../../src/worker/tools/sandbox/unconfined.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { until } from "../../../../helpers/until.ts";
import { openScene } from "../scene.ts";

const TIME_LIMIT_MS = 60_000;
const DIES_WITHIN_MS = 10_000;

/** Blocks this thread until the process has died: no event of it is handled, as in a process that is stopped. */
function standStillUntilDeathOf(pid: string): void {
  const limitMs = performance.now() + DIES_WITHIN_MS;
  while (!/ [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))) {
    if (performance.now() > limitMs) throw new Error(`${pid} still lives`);
  }
}

it.runIf(process.platform === "linux")(
  "a command that was over in time is not reported as killed",
  async () => {
    const { workspace, home } = await openScene();
    const clock = handClock();
    const { signal } = new AbortController();
    const script = "echo $$ > began; mv began leader; sleep 0.2; echo finished; exit 3";
    const end = createUnconfined(clock).run({ script, workspace, timeoutMs: TIME_LIMIT_MS, signal });
    const leader = await until(() => readFileSync(join(home, "leader"), "utf8").trim());
    standStillUntilDeathOf(leader);
    clock.advance(TIME_LIMIT_MS);
    expect(await end).toMatchObject({ output: "finished\n", exitCode: 3 });
  },
);

// Such a process is a zombie by its state, and goes on.
const MAIN_THREAD_ENDS = `exec python3 -c "
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
open('began', 'w').close()
ctypes.CDLL(None).pthread_exit(None)"`;

it.runIf(process.platform === "linux")(
  "a command whose first thread has ended is killed when its time is over",
  async () => {
    const { workspace, home } = await openScene();
    const clock = handClock();
    const { signal } = new AbortController();
    const end = createUnconfined(clock).run({
      script: `echo $$ > leader; ${MAIN_THREAD_ENDS}`,
      workspace,
      timeoutMs: TIME_LIMIT_MS,
      signal,
    });
    await until(() => existsSync(join(home, "began")));
    standStillUntilDeathOf(readFileSync(join(home, "leader"), "utf8").trim());
    clock.advance(TIME_LIMIT_MS);
    expect(await end).toMatchObject({ killed: "timeout" });
  },
);
