/** Log lines of work that is tried again and again: while it fails for the same reason, one line says so. */
import type { Logger } from "./logger.ts";

/** See the module's header. */
export interface ProblemLog {
  /** Logs a warning with the fields of `more`, unless one about such a problem was logged since the work last succeeded. */
  tell(problem: string, more?: object): void;
  /** Notes that the work has succeeded: the next problem is told again. */
  over(): void;
}

/** Maximum number of remembered problems; with more of them, all are told once more. */
const MOST_KINDS = 100;
/** Words with digits: ids, numbers of lines, digests of scripts. Problems that differ only in these are of one kind. */
const PARTICULARS = /\S*\d\S*/g;

/** Returns a log whose warnings have this `message` and the problem. */
export function problemLog(logger: Logger, message: string): ProblemLog {
  const told = new Set<string>();
  return {
    tell(problem, more) {
      const kind = problem.replace(PARTICULARS, "");
      if (told.has(kind)) return;
      if (told.size >= MOST_KINDS) told.clear();
      told.add(kind);
      logger.warn({ ...more, problem }, message);
    },
    over: () => told.clear(),
  };
}
