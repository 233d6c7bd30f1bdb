/** The full trace of an agent: every committed log entry as one JSON line in a file beside its workspace, owner only. */
import { appendFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Clock, within } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import type { NewEntry } from "../loop/log.ts";

/** A disk that does not finish a write within this time, ms, ends the trace. */
const WRITE_MS = 5_000;

/**
 * Writes committed entries to the trace. Never rejects: a failed write is logged. Takes {@link WRITE_MS} at most: if the
 * disk does not answer, the trace of this session ends.
 */
export type Trace = (run: number, entries: readonly NewEntry[]) => Promise<void>;

/** Returns the trace of the agent whose workspace is at `directory`: `trace.jsonl` in the directory above it. */
export function traceBeside(directory: string, clock: Clock, logger: Logger): Trace {
  const path = join(dirname(directory), "trace.jsonl");
  let hasEnded = false;
  return async (run, entries) => {
    if (hasEnded) return;
    const at = new Date(clock.now()).toISOString();
    const lines = entries.map(
      ({ key, json }) => `{"at":"${at}","run":${run},"entry":${JSON.stringify(key)},"value":${json}}\n`,
    );
    try {
      const write = appendFile(path, withoutSecrets(lines.join("")), { mode: 0o600 }).then(() => true);
      hasEnded = (await within(clock, WRITE_MS, write)) === undefined;
      if (hasEnded) logger.warn({ path }, "The disk does not answer; the trace ends here");
    } catch (error) {
      logger.warn({ problem: messageOf(error) }, "Trace not written");
    }
  };
}
