/** The doctor inside a test: looks at an installation, and repairs it, less patiently than the command does. */
import { hostname } from "node:os";
import { diagnose } from "../../src/cli/doctor/checks.ts";
import { type ExamineOptions, examine, openToExamine } from "../../src/cli/doctor/examine.ts";
import type { Facts } from "../../src/cli/doctor/facts.ts";
import { repair } from "../../src/cli/doctor/fix.ts";
import type { Finding } from "../../src/cli/doctor/report.ts";
import { createDisposables } from "../../src/cli/local/disposables.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { createLogger } from "../../src/shared/logger.ts";
import type { Timing } from "../../src/shared/protocol/limits.ts";
import { SHORT_TIMING, type Stage } from "../stage/stage.ts";
import { closeAtEnd } from "./cleanup.ts";
import { redisUrl } from "./redis.ts";

const IMPATIENT = { graceMs: 400, secondCheckMs: 100 };
/** Most installations of the tests have no worker. */
const NO_WORKERS = ["no_workers", "work_without_workers"];

export interface TestDoctor {
  look(): Promise<{ facts: Facts; findings: Finding[] }>;
  /** The findings by check, but those about missing workers and about the settings of the tests' server. */
  findings(): Promise<Record<string, Finding>>;
  /** What `--fix` does. */
  fix(): Promise<void>;
  /** What `--fix` does about what was found before; `around`: done in place of each move of a key, handed that move. */
  repair(found: Facts, around?: (move: () => Promise<unknown>) => Promise<unknown>): Promise<void>;
}

/** Opens a doctor for an installation; closed with the test. */
export async function doctorFor(
  { prefix, workspaceRoot }: Stage,
  { timing = SHORT_TIMING, ...options }: Partial<ExamineOptions> & { timing?: Timing } = {},
): Promise<TestDoctor> {
  const closing = createDisposables();
  closeAtEnd(() => closing.close());
  const logger = createLogger({ level: "silent" });
  const place = { prefix, workspaceRoot, clock: systemClock, logger, timing };
  const opened = await openToExamine(redisUrl(), place, closing);
  const examined = () => examine(opened, { host: hostname(), isProduction: false, ...IMPATIENT, ...options });
  const look = async () => {
    const facts = await examined();
    return { facts, ...diagnose(facts) };
  };
  return {
    look,
    async findings() {
      const { findings } = await look();
      const about = findings.filter(({ check, area }) => area !== "redis" && !NO_WORKERS.includes(check));
      return Object.fromEntries(about.map((finding) => [finding.check, finding]));
    },
    async fix() {
      await repair(opened, await examined(), examined);
    },
    async repair(found, around) {
      if (!around) return repair(opened, found, examined);
      const { redis } = opened;
      const rename = redis.rename.bind(redis);
      Object.assign(redis, { rename: (from: string, to: string) => around(() => rename(from, to)) });
      await repair(opened, found, examined);
    },
  };
}
