/** Runs the doctor inside a test: examines and repairs an installation, with shorter waits than the command. */
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

const IMPATIENT = { graceMs: 400, secondCheckMs: 100 };
/** Findings to ignore, because most test installations have no worker. */
const NO_WORKERS = ["no_workers", "work_without_workers"];

export interface TestDoctor {
  look(): Promise<{ facts: Facts; findings: Finding[] }>;
  /** Returns the findings by check, without those about missing workers and the test server's settings. */
  findings(): Promise<Record<string, Finding>>;
  /** Does the same as `--fix`. */
  fix(): Promise<void>;
  /** Repairs facts found before, as `--fix` does. `around` replaces each rename of a key and gets the rename as argument. */
  repair(found: Facts, around?: (move: () => Promise<unknown>) => Promise<unknown>): Promise<void>;
}

/** Opens a doctor for an installation; the test's end closes it. */
export async function doctorFor(
  { url, prefix, workspaceRoot }: Stage,
  { timing = SHORT_TIMING, ...options }: Partial<ExamineOptions> & { timing?: Timing } = {},
): Promise<TestDoctor> {
  const closing = createDisposables();
  closeAtEnd(() => closing.close());
  const logger = createLogger({ level: "silent" });
  const place = { prefix, workspaceRoot, clock: systemClock, logger, timing };
  const opened = await openToExamine(url, place, closing);
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
